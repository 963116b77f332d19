"""docs/cryptography.md names modules that exist, and parameters as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

from unpooled.align import aided
from unpooled.jobs.plan import Plan
from unpooled.secure.paillier import keys, proof

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "cryptography.md").read_text(encoding="utf-8")


def test_modules_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+\w+)`", TEXT)) - {"src/unpooled"}
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "unpooled" / name).exists()] == []


def test_parameters_are_those_of_the_code() -> None:
    stated = [
        f"{aided.DUMMIES:,} that all have, {aided.DUMMIES:,} of its own",
        f"whose r has {keys.COVER_BITS} bits more than n",
        f"a comb of {keys.TEETH} × {keys.BLOCKS}",
        f"no prime below 2^{proof.TRIED_BITS} in n",
        f"`key_bits`, {Plan.model_fields['key_bits'].default} by default",
        f"`key_bits` is {Plan.model_fields['key_bits'].default} by default",
    ]
    assert [words for words in stated if words not in TEXT] == []
    assert "n-th roots of seven numbers" in TEXT
    assert proof.ROOTS == 7
