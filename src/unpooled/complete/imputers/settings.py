"""The settings of the adversarial imputers; nothing here needs JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from unpooled.complete.completers.neural import NeuralSettings, Preset
from unpooled.networks.schedule import Schedule

STEPS = 100
"""So many steps of training are an epoch to the loop that trains: the loss on held-out cells is looked at then."""


class AdversarialSettings(NeuralSettings):
    """What the imputers have in common; each has its own `schedules`, by preset, with epochs of so many `STEPS`."""

    schedules: ClassVar[Mapping[Preset, Schedule]]
    patiences: ClassVar[Mapping[Preset, int]]

    steps: int = Field(10_000, description="the most steps of training", ge=1)
    patience: int | None = Field(
        None,
        description="training stops if the error in held-out cells has not fallen for so many steps, in hundreds, if "
        "not as the preset has it; 0: never",
        ge=0,
    )
    sample: bool = Field(False, description="draw cells instead of taking the best single value")

    @property
    def random(self) -> bool:
        """Only draws differ."""
        return self.sample

    @property
    def patience_epochs(self) -> int:
        """The preset's, with what was set otherwise."""
        return self.patiences[self.preset] if self.patience is None else self.patience

    @property
    def schedule(self) -> Schedule:
        """The preset's, with what was set otherwise."""
        preset = self.schedules[self.preset]
        return Schedule(
            -(-self.steps // STEPS),
            self.batch_rows or preset.batch_rows,
            self.learning_rate or preset.learning_rate,
        )


class GainSettings(AdversarialSettings):
    """Generative adversarial imputation nets (Yoon, Jordon and van der Schaar 2018)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=100, batch_rows=128, learning_rate=1e-3),
        "paper": Schedule(epochs=100, batch_rows=128, learning_rate=1e-3),
    }
    patiences: ClassVar[Mapping[Preset, int]] = {"fast": 15, "paper": 0}
    completer: Literal["gain"] = Field("gain", description="an adversarial network that fills cells (GAIN)")


class VgainSettings(AdversarialSettings):
    """GAIN with a variational encoder inside its generator."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = GainSettings.schedules
    patiences: ClassVar[Mapping[Preset, int]] = GainSettings.patiences
    completer: Literal["vgain"] = Field("vgain", description="GAIN with a variational encoder inside (VGAIN)")
