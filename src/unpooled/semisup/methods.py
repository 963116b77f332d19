"""Which loss belongs to which settings."""

from __future__ import annotations

from collections.abc import Mapping

from unpooled.semisup.adamatch import ADAMATCH
from unpooled.semisup.comatch import COMATCH
from unpooled.semisup.fixmatch import FIXMATCH
from unpooled.semisup.method import Method
from unpooled.semisup.mixmatch import MIXMATCH
from unpooled.semisup.pseudo_label import PSEUDO_LABEL
from unpooled.semisup.softmatch import SOFTMATCH
from unpooled.semisup.supervised import SUPERVISED

BY_NAME: Mapping[str, Method] = {
    "supervised": SUPERVISED,
    "pseudo-label": PSEUDO_LABEL,
    "mixmatch": MIXMATCH,
    "fixmatch": FIXMATCH,
    "comatch": COMATCH,
    "adamatch": ADAMATCH,
    "softmatch": SOFTMATCH,
}
