"""TVAE, a variational autoencoder for tables (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019).

Numbers are coded by modes. A scalar's mean is a tanh, its spread one number for the column, learned between 0.01 and 1.
Modes and levels are drawn from their chances, and scalars from their normal distribution.

The preset `paper` is as published, but for numbers with few values, which are coded as levels, and for values that are
frequent by themselves, which are modes of width 0 (`modes`). Most of its hidden numbers end up ignored, and the others
are not distributed as the prior. The preset `fast` has fewer of them and the remedies that `autoencoder.Form` names.
"""

from __future__ import annotations

from dataclasses import replace

from unpooled.complete.generators.autoencoder import Autoencoder, Form

_PAPER = Form(
    way="modes",
    discrete_values=20,
    hidden=(128, 128),
    latent=128,
    factor=2.0,
    decay=1e-5,
    bounded=True,
    spread_by_row=False,
    narrowest=0.01,
    widest=1.0,
)
_FAST = replace(
    _PAPER, hidden=(256,), latent=24, factor=4.0, warm_up=0.5, cooling=True, skips=True, hiding=0.25, prior_parts=40
)
TVAE = Autoencoder({"fast": _FAST, "paper": _PAPER})
