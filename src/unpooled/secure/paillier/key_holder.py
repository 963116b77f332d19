"""The coordinator's part of products under Paillier encryption: it keeps the key, and decrypts what others have masked.

It is told how many results each product has. What it decrypts is as random as the masks, which only their owners know.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Literal

from gmpy2 import mpz

from unpooled.arrays import Bytes
from unpooled.errors import ProtocolError
from unpooled.secure.engine import HowFar, Rules, Serving, Stop, follow, recv_tagged
from unpooled.secure.paillier import keys
from unpooled.secure.paillier.keys import PrivateKey, PublicKey
from unpooled.secure.paillier.proof import check_proof, prove
from unpooled.secure.paillier.sums import flat
from unpooled.session import Session
from unpooled.wire import message
from unpooled.workers import in_order

_CHUNK = 8  # about 30 ms at 2048 bits


@message(discloses="nothing: a public key made for these products")
class SharedKey:
    """`roots` prove that the key can decrypt, see `proof`."""

    n: int
    noise_base: int
    roots: tuple[int, ...]


@message(discloses="how many results a product has (of trees: for how many nodes), and whose", to="the coordinator")
class DecryptItem:
    tag: bytes
    left: str
    right: str
    plaintexts: int


@message(discloses="how many results products have (of trees: for how many nodes), and whose", to="the coordinator")
class Decrypt:
    items: tuple[DecryptItem, ...]


@message(discloses="nothing: sums of products, encrypted, and each hidden by a random mask")
class MaskedSums:
    tags: tuple[bytes, ...]
    sums: tuple[Bytes, ...]


@message(discloses="nothing: sums of products, each hidden by a random mask")
class Decrypted:
    tags: tuple[bytes, ...]
    sums: tuple[Bytes, ...]


def serve(session: Session, rules: Rules, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """Hand out a fresh key, and decrypt what the driver says will come, until it says stop; how many bytes of that."""
    private = keys.make_key(rules.key_bits, insecure=rules.insecure)
    public, total = private.public, 0
    roots = prove(private, context_of(session.party, driver, parties))
    with session.scope("key"):
        for party in parties:
            session.send(party, SharedKey(int(public.n), int(public.noise_base), roots))
    while not isinstance(request := session.recv(driver, Decrypt, HowFar, Stop), Stop):
        if isinstance(request, HowFar):
            follow(session, driver, request)
            continue
        for item in request.items:
            if item.left not in parties or item.right not in parties or item.left == item.right:
                raise ProtocolError(f"invalid Decrypt from {driver}: unknown parties")
            if item.plaintexts < 0:
                raise ProtocolError(f"invalid Decrypt from {driver}: number of results out of range")
        results = sum(item.plaintexts for item in request.items)
        serving.check(session.party, driver, 2 * results * public.width, len(request.items), rows=0)
        total += results * public.bits // 8
        with session.scope("decrypt"):
            _decrypt(session, private, request.items)
    return total


def _decrypt(session: Session, private: PrivateKey, items: Sequence[DecryptItem]) -> None:
    """Receive from every holder of X, and send to every holder of Y what is for it."""
    lefts = {left: [item for item in items if item.left == left] for left in dict.fromkeys(item.left for item in items)}
    masked: list[mpz] = []
    for left, theirs in lefts.items():
        most = sum(item.plaintexts for item in theirs) * private.public.width
        sums = recv_tagged(session, left, MaskedSums, [item.tag for item in theirs], most).sums
        for item, values in zip(theirs, sums, strict=True):
            masked += arrived("ciphertexts", private.public, values, item.plaintexts, left)
    chunks = (masked[start : start + _CHUNK] for start in range(0, len(masked), _CHUNK))
    opened = iter(flat(in_order(partial(keys.decrypt, private), chunks), len(masked), session.progress))
    found = {
        item: keys.residues_to_bytes(private.public, list(islice(opened, item.plaintexts)))
        for theirs in lefts.values()
        for item in theirs
    }
    for right in dict.fromkeys(item.right for item in items):
        theirs = [item for item in items if item.right == right]
        session.send(right, Decrypted(tuple(item.tag for item in theirs), tuple(found[item] for item in theirs)))


def context_of(keeper: str, driver: str, parties: Sequence[str]) -> str:
    """Whose key it is, and for whom."""
    return repr((keeper, driver, tuple(parties)))


def key_from(shared: SharedKey, bits: int, sender: str, context: str) -> PublicKey:
    """A public key that arrived, checked."""
    public = PublicKey(mpz(shared.n), mpz(shared.noise_base))
    try:
        keys.check_public(public, bits)
        check_proof(public, shared.roots, context)
    except ProtocolError as error:
        raise ProtocolError(f"invalid SharedKey from {sender}: {error}") from None
    return public


def arrived(
    what: Literal["ciphertexts", "share"], public: PublicKey, values: Bytes, count: int, sender: str
) -> list[mpz]:
    """Ciphertexts, or a share (numbers mod n), that arrived, checked."""
    try:
        numbers = (keys.from_bytes if what == "ciphertexts" else keys.residues_from_bytes)(public, values)
    except ProtocolError as error:
        raise ProtocolError(f"invalid {what} from {sender}: {error}") from None
    if len(numbers) != count:
        raise ProtocolError(f"invalid {what} from {sender}: {len(numbers)} numbers, expected {count}")
    return numbers
