"""What activations send, told before the start."""

from __future__ import annotations

from unpooled.complete.vf_gain.protocol import Activations, FeatureCount, GradientComes
from unpooled.secure.outline import Exchange, Setup, products_outline


def activations_outline(setup: Setup) -> list[Exchange]:
    """The messages of `gather_activations` and `lend_activations`."""
    return [
        *(Exchange(setup.active, party, GradientComes, 1, 60) for party in setup.passive),
        *(Exchange(party, setup.active, FeatureCount, 1, 60) for party in setup.passive),
        *products_outline(setup, hidden_nodes=True),
        *(Exchange(party, setup.active, Activations, 1) for party in setup.passive),
    ]
