"""Two parties compare ids by blind RSA signatures; only the asker learns which are in common.

1. openings: sizes, limits, the exchange's name; the signer signs only as many values as were announced
2. the signer makes a fresh key and sends its public half, with a proof that blinding with it hides ids
3. the signer sends the tags of its own ids, in a secret order; a tag is a hash of the id's signature
4. the asker sends its ids, hashed and blinded; the signer signs them blindly
5. the asker verifies the signatures, removes the blinding, and compares tags

The asker learns which of its ids the signer has, and how many the signer has; the signer learns how many ids the asker
has. This is the VFPU paper's method; it is slower than Diffie-Hellman.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from unpooled.align import rsa
from unpooled.align.ecdh import Matches
from unpooled.align.lists import Chunk, common_positions, cut, joined, receiving, secret_order, sending
from unpooled.align.opening import Intersection
from unpooled.align.rsa import TAG_BYTES
from unpooled.arrays import Bytes, Ints
from unpooled.errors import ProtocolError
from unpooled.session import Session
from unpooled.wire import message
from unpooled.workers import in_order

CHUNK = 256
WINDOW = 32
"""How many chunks the asker sends before the first one is answered."""


@message(discloses="nothing: a public key made for this exchange")
class SigningKey:
    exchange: bytes
    modulus: int
    proof: Bytes


@message(discloses="nothing: ids hashed and blinded, each by its own random factor")
class BlindedIds(Chunk):
    pass


@message(discloses="which of the asker's ids the signer has too, together with the signer's tags", to="the asker")
class Signatures(Chunk):
    pass


@message(discloses="nothing by themselves: hashes of signatures that only the signer can make")
class SignedTags(Chunk):
    pass


def ask(session: Session, peer: str, keys: Sequence[bytes], exchange: Intersection, bits: int) -> Matches:
    """The asker's part."""
    order, total = secret_order(len(keys)), len(keys)
    with session.scope("key"):
        key = session.recv(peer, SigningKey)  # 2
    if key.exchange != exchange.name:
        raise ProtocolError(f"invalid SigningKey from {peer}: it belongs to another exchange")
    rsa.check_key(key.modulus, key.proof, exchange.name, bits, peer)
    modulus = key.modulus
    chunks = list(cut([keys[row] for row in order], CHUNK))
    blinding = in_order(partial(rsa.blinded, modulus, exchange.name), chunks)
    factors: deque[Bytes] = deque()
    blind_ids = sending(session, peer, BlindedIds, exchange.name, _values(blinding, factors), total)
    with session.scope("blind"):
        for _, _ in zip(range(WINDOW), blind_ids, strict=False):  # 4, the chunks that may be sent ahead
            pass
    with session.scope("tags"):
        tags = list(receiving(session, peer, SignedTags, exchange.name, exchange.ids[peer], TAG_BYTES, CHUNK))  # 3

    def answered() -> Iterator[tuple[Sequence[bytes], Bytes, Bytes]]:
        signatures = receiving(session, peer, Signatures, exchange.name, total, rsa.width_of(modulus), CHUNK)
        for chunk, signed in zip(chunks, signatures, strict=False):
            next(blind_ids, None)
            yield chunk, factors.popleft(), signed

    with session.scope("sign"):  # 4
        unblind = partial(rsa.unblinded, modulus, exchange.name, peer)
        mine = joined(list(in_order(unblind, answered())), TAG_BYTES)
    positions = common_positions([mine, joined(tags, TAG_BYTES)], [session.party, peer])  # 5
    return Matches(order[positions[0]], positions[1])


def answer(session: Session, peer: str, keys: Sequence[bytes], exchange: Intersection, bits: int) -> Ints:
    """The signer's part; returns the order in which it sent its tags, to interpret positions later."""
    order, total = secret_order(len(keys)), exchange.ids[peer]
    private = rsa.make_key(bits)
    with session.scope("key"):
        session.send(peer, SigningKey(exchange.name, private.n, rsa.proof_of(private, exchange.name)))  # 2
    with session.scope("tags"):  # 3
        tagging = in_order(partial(rsa.tags_of, private, exchange.name), cut([keys[row] for row in order], CHUNK))
        for _ in sending(session, peer, SignedTags, exchange.name, tagging, len(keys)):
            pass
    with session.scope("sign"):  # 4
        blind_ids = receiving(session, peer, BlindedIds, exchange.name, total, rsa.width_of(private.n), CHUNK)
        signing = in_order(partial(rsa.signed, private, peer), blind_ids, WINDOW)
        for _ in sending(session, peer, Signatures, exchange.name, signing, total):
            pass
    return order


def _values(blinding: Iterator[tuple[Bytes, Bytes]], factors: deque[Bytes]) -> Iterator[Bytes]:
    """The blinded values; the inverses that remove the blinding go to `factors`."""
    for values, inverses in blinding:
        factors.append(inverses)
        yield values
