"""The coordinator cannot tell two completions apart whose tables are different but of the same shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinator_view import differences, view_of, with_other_values

PAILLIER: dict[str, Any] = {"engine": "paillier", "key_bits": 512, "insecure": True}


@pytest.mark.parametrize(
    "settings",
    [{}, {"model": {"hide_nodes": True}}, {"model": {"learner": "linear"}}, PAILLIER],
    ids=["trees", "hidden nodes", "linear", "trees, paillier"],
)
def test_two_completions_look_the_same(completing: Any, settings: dict[str, Any]) -> None:
    views = []
    for name, frames in (("one", completing.frames), ("other", with_other_values(completing.frames, 3))):
        scene = replace(completing, frames=frames)
        plan = scene.plan(columns=["lab", "smoker"], **dict(settings))
        views.append(view_of(lambda s=scene, p=plan, n=name: s.run(p, n)))
    assert differences(*views) == []
    assert "Tags" in [kind for kind, *_ in views[0].lines["clinic"]]
