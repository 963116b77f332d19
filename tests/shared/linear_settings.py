"""Settings of linear models that show gradients, for what only these have: equal bits, losses, pages to resume from."""

from __future__ import annotations

from typing import Any

from unpooled.vertical.linear.parameters import LinearParameters


def with_gradients(**settings: Any) -> LinearParameters:
    """Settings that show each party its gradients, unless told."""
    return LinearParameters(**{"reveal": "gradients"} | settings)
