"""The plain variational autoencoder (Kingma and Welling 2014), with numbers by their normal quantiles.

The preset `paper` is plain indeed, and ignores most of its hidden numbers; `fast` has the remedies of TVAE's
(`autoencoder.Form`).
"""

from __future__ import annotations

from dataclasses import replace

from unpooled.complete.generators.autoencoder import Autoencoder, Form

_PAPER = Form(
    way="quantiles",
    discrete_values=20,
    hidden=(500,),
    latent=20,
    factor=1.0,
    decay=0.0,
    bounded=False,
    spread_by_row=True,
    narrowest=0.02,
    widest=2.0,
)
_FAST = replace(
    _PAPER, hidden=(128,), latent=32, factor=4.0, warm_up=0.5, cooling=True, skips=True, hiding=0.25, prior_parts=40
)
VAE = Autoencoder({"fast": _FAST, "paper": _PAPER})
