"""What activations send and tell, said before the start."""

from __future__ import annotations

from math import exp

from unpooled.complete.vf_gain.protocol import Activations, FeatureCount, GradientComes
from unpooled.complete.vf_gain.settings import VfGainSettings
from unpooled.secure.outline import Exchange, Setup, products_outline

_SPELLED_OUT = 20


def activations_outline(setup: Setup) -> list[Exchange]:
    """The messages of `gather_activations` and `lend_activations`."""
    return [
        *(Exchange(setup.active, party, GradientComes, 1, 60) for party in setup.passive),
        *(Exchange(party, setup.active, FeatureCount, 1, 60) for party in setup.passive),
        *products_outline(setup, hidden_nodes=True, shown_to_passive=True),
        *(Exchange(party, setup.active, Activations, 1) for party in setup.passive),
    ]


def in_words(settings: VfGainSettings) -> str:
    """What epsilon and delta of a plan mean.

    >>> print(in_words(VfGainSettings(epsilon=2.0, delta=1e-5)))
    epsilon = 2: activations change the odds that a person's row is one and not another by a factor of e^2 = 7 at the
    most; delta = 1e-05: the chance that they tell more
    """
    factor = f"e^{settings.epsilon:g}"
    if settings.epsilon <= _SPELLED_OUT:
        factor += f" = {exp(settings.epsilon):,.0f}"
    return (
        f"epsilon = {settings.epsilon:g}: activations change the odds that a person's row is one and not another by a "
        f"factor of {factor} at the most; delta = {settings.delta:g}: the chance that they tell more"
    )
