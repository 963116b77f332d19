"""One of two parties that pass a message of 256 MiB, in a process of its own so that its memory can be measured.

Called with: the folder of certificates, the party, the address of the bank. Prints the message's length and by how
many bytes the process grew.
"""

import resource
import sys
from pathlib import Path

import numpy as np

from unpooled.arrays import Bytes
from unpooled.ledger import Ledger
from unpooled.session import Session
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.trust import load_identity
from unpooled.wire import message

SIZE = 2**28


@message(discloses="nothing: a test")
class Load:
    content: Bytes


@message(discloses="nothing: a test")
class Length:
    length: int


def main(certs: Path, party: str, address: str) -> None:
    peer = "bank" if party == "telco" else "telco"
    ledger = Ledger(certs / f"{party}-gigabyte.jsonl", party, "plan")
    addresses = Addresses(address, {}) if party == "bank" else Addresses(None, {"bank": address})
    transport = NetworkTransport(load_identity(certs / party, party), Mailbox(party, (peer,), ledger), addresses, 200)
    session = Session(transport, ledger, seed=1, timeout=200)
    session.open()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if party == "telco":
        session.send("bank", Load(np.ones(SIZE, np.uint8)))
        length = session.recv("bank", Length).length
    else:
        length = len(session.recv("telco", Load, at_most=SIZE).content)
        session.send("telco", Length(length))
    session.finish()
    print(length, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
