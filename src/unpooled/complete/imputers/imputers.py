"""The adversarial imputers that there are, as completers; their modules, which need JAX, are imported when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unpooled.complete.completers.completer import Completer
from unpooled.complete.completers.neural import Network, NeuralSettings, loaded, neural_completer
from unpooled.complete.imputers.settings import GainSettings, VgainSettings


def _gain() -> Any:
    from unpooled.complete.imputers import gain

    return gain


def _vgain() -> Any:
    from unpooled.complete.imputers import vgain

    return vgain


_NETWORKS: Mapping[type[NeuralSettings], Callable[[], Any]] = {GainSettings: _gain, VgainSettings: _vgain}


def network_of(settings: NeuralSettings) -> Network:
    """The module of the imputer that these settings are for; InputError if what it needs is not installed."""
    network: Network = loaded(settings, _NETWORKS[type(settings)])
    return network


IMPUTERS: tuple[Completer, ...] = tuple(neural_completer(settings, network_of) for settings in _NETWORKS)
