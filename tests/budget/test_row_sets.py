"""Common rows as keyed digests: what two alignments differ by, without an id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from unpooled.budget.row_sets import difference, digests_of, keep, kept

KEY, OTHER_KEY = b"k" * 32, b"o" * 32

ids = st.sets(st.text(min_size=1, max_size=8), max_size=30)


@given(one=ids, other=ids)
def test_the_difference_of_digests_is_that_of_the_rows(one: set[str], other: set[str]) -> None:
    sets = [digests_of(KEY, pl.DataFrame({"id": sorted(each)}, {"id": pl.String})) for each in (one, other)]
    assert difference(*sets) == len(one ^ other)


def test_digests_depend_on_the_key_and_on_all_id_columns_and_not_on_the_order() -> None:
    people = pl.DataFrame({"name": ["a", "ab"], "born": ["bc", "c"]})
    found = digests_of(KEY, people)
    assert len(np.unique(found)) == 2
    assert np.array_equal(found, digests_of(KEY, people.reverse()))
    assert difference(found, digests_of(OTHER_KEY, people)) == 4


def test_a_set_is_read_only_as_it_was_written(tmp_path: Path) -> None:
    digests = digests_of(KEY, pl.DataFrame({"id": ["a", "b", "c"]}))
    name = keep(tmp_path, KEY, digests)
    assert keep(tmp_path, KEY, digests) == name
    read = kept(tmp_path, KEY, name)
    assert read is not None
    assert np.array_equal(read, digests)
    assert kept(tmp_path, OTHER_KEY, name) is None
    path = tmp_path / "rows" / name
    for content in (path.read_bytes()[:-8], path.read_bytes()[:-1], b""):
        path.write_bytes(content)
        assert kept(tmp_path, KEY, name) is None
    path.unlink()
    assert kept(tmp_path, KEY, name) is None
