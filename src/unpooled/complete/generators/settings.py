"""The settings of the generators, and what their presets stand for; nothing here needs JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from unpooled.complete.completers.neural import NeuralSettings, Preset
from unpooled.networks.schedule import Schedule


class GeneratorSettings(NeuralSettings):
    """What all generators have in common; each has its own `schedules`, by preset."""

    schedules: ClassVar[Mapping[Preset, Schedule]]

    epochs: int | None = Field(
        None,
        description="how often every row is trained on, if not as the preset has it; quality on held-out rows takes a "
        "second training",
        ge=1,
    )

    @property
    def schedule(self) -> Schedule:
        """The preset's, with what was set otherwise."""
        preset = self.schedules[self.preset]
        return Schedule(
            self.epochs or preset.epochs,
            self.batch_rows or preset.batch_rows,
            self.learning_rate or preset.learning_rate,
        )


class EncoderSettings(GeneratorSettings):
    """What models with an encoder have in common."""

    rounds: int = Field(5, description="how often a row is encoded and decoded again when cells are filled", ge=1)


class VaeSettings(EncoderSettings):
    """A variational autoencoder (Kingma and Welling 2014)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=150, batch_rows=500, learning_rate=2e-3),
        "paper": Schedule(epochs=300, batch_rows=100, learning_rate=1e-3),
    }
    completer: Literal["vae"] = Field("vae", description="a variational autoencoder")


class TvaeSettings(EncoderSettings):
    """A variational autoencoder for tables (Xu and others 2019)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=150, batch_rows=500, learning_rate=2e-3),
        "paper": Schedule(epochs=300, batch_rows=500, learning_rate=1e-3),
    }
    completer: Literal["tvae"] = Field("tvae", description="a variational autoencoder for tables (TVAE)")


class CtganSettings(GeneratorSettings):
    """A generative adversarial network with sampled conditions (Xu and others 2019)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=150, batch_rows=250, learning_rate=5e-4),
        "paper": Schedule(epochs=300, batch_rows=500, learning_rate=2e-4),
    }
    completer: Literal["ctgan"] = Field("ctgan", description="an adversarial network with sampled conditions (CTGAN)")


class _LabelSettings(GeneratorSettings):
    """What models with a classifier have in common."""

    label: str | None = Field(
        None, description="the column that a classifier tells from the others, if not the last one of classes"
    )


class TableGanSettings(_LabelSettings):
    """A convolutional adversarial network with a classifier (Park and others 2018)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=80, batch_rows=100, learning_rate=2e-4),
        "paper": Schedule(epochs=300, batch_rows=500, learning_rate=2e-4),
    }
    completer: Literal["tablegan"] = Field(
        "tablegan", description="a convolutional adversarial network with a classifier (TableGAN)"
    )
    margin: float = Field(
        0.0,
        description="differences of the discriminator's features up to this are no loss: more than 0 keeps generated "
        "rows further from the table's; the authors use 0, 0.1 and 0.2",
        ge=0,
    )


class CtabGanSettings(_LabelSettings):
    """A convolutional adversarial network with sampled conditions and a classifier (Zhao and others 2021)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=60, batch_rows=100, learning_rate=5e-4),
        "paper": Schedule(epochs=150, batch_rows=500, learning_rate=2e-4),
    }
    completer: Literal["ctab-gan"] = Field(
        "ctab-gan", description="a convolutional adversarial network with conditions and a classifier (CTAB-GAN)"
    )


class TabDdpmSettings(GeneratorSettings):
    """A diffusion model for tables (Kotelnikov and others 2023)."""

    schedules: ClassVar[Mapping[Preset, Schedule]] = {
        "fast": Schedule(epochs=1050, batch_rows=512, learning_rate=1e-3),
        "paper": Schedule(epochs=5000, batch_rows=4096, learning_rate=1e-3),
    }
    completer: Literal["tabddpm"] = Field("tabddpm", description="a diffusion model for tables (TabDDPM)")
    label: str | None = Field(
        None,
        description="the column that is drawn first, by its frequencies, and all others given it; the last one of "
        "classes if not set",
    )
    rounds: int | None = Field(
        None,
        description="how often each step of noise is undone when rows are drawn, if not as the preset has it: 3 for "
        "fast, 1 for paper",
        ge=1,
    )
    guidance: float | None = Field(
        None,
        description="how far whole rows go beyond what their label asks for, if not as the preset has it: 0.3 for "
        "fast, 0 for paper; more makes rows differ more by their label",
        ge=0,
    )
