"""A service's settings: `service.toml` in its state folder, written at set-up, changed by hand or in the console."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from unpooled.errors import InputError
from unpooled.jobs.files import load_section, write_toml
from unpooled.jobs.plan import Address
from unpooled.serve.folder import StateFolder
from unpooled.settings import Section
from unpooled.transport.trust import PARTY_NAME

_ISSUER = re.compile(r"https://|http://(127\.0\.0\.1|localhost)[:/]")
"""Without TLS on this machine only, for trials."""


def _check_party(name: str) -> str:
    if not PARTY_NAME.fullmatch(name):
        raise ValueError("use a small letter, then small letters, digits or hyphens, at most 32 characters")
    return name


def _check_issuer(issuer: str) -> str:
    if not _ISSUER.match(issuer):
        raise ValueError("must begin with https://, since whoever can change the provider's answers can sign in")
    return issuer


class SignIn(Section):
    """Signing in through an organisation's own OpenID Connect provider."""

    issuer: Annotated[str, AfterValidator(_check_issuer)] = Field(
        description="the provider's address, for example https://login.example.org/realms/bank"
    )
    client: str = Field(description="the client id that the provider has given this service")
    secret_file: Path = Field(description="a file with the client secret; from the state folder", strict=False)
    claim: str = Field("email", description="the claim that names a person; an account with this name must exist")


class ServiceSettings(Section):
    """What an administrator decides about a service."""

    party: Annotated[str, AfterValidator(_check_party)] = Field(
        description="this party's name in plans and certificates"
    )
    address: Address | None = Field(
        None, description="HOST:PORT where other parties reach this one; without it this party only dials"
    )
    listen: Address | None = Field(
        None, description="HOST:PORT to listen on for other parties, where it differs from address"
    )
    console: Address = Field("127.0.0.1:7480", description="HOST:PORT of the console, for people of this party")
    console_names: tuple[str, ...] = Field(
        (),
        description="further host names under which browsers reach the console, for example that of a proxy",
        strict=False,
    )
    console_certificate: Path | None = Field(
        None, description="a certificate file, for a console that browsers reach by https", strict=False
    )
    console_key: Path | None = Field(None, description="the key of that certificate", strict=False)
    behind_proxy: bool = Field(False, description="whether a proxy in front of the console adds https")
    approvals: int = Field(1, description="how many different people must approve a job", ge=1, le=2)
    runs_at_once: int = Field(2, description="how many jobs run at the same time; others wait", ge=1)
    automatic_resumes: int = Field(5, description="how often an interrupted run is resumed without asking", ge=0)
    purge_after_days: int | None = Field(
        90, description="when the working files of runs that ended are removed; without it never", ge=0
    )
    sign_in: SignIn | None = Field(None, description="signing in with OpenID Connect")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.console_certificate is None) != (self.console_key is None):
            raise ValueError("console_certificate and console_key go together")
        if self.listen is not None and self.address is None:
            raise ValueError("listen: others cannot reach a party without an address")
        return self

    @property
    def secure_console(self) -> bool:
        """Whether browsers reach the console by https."""
        return self.console_certificate is not None or self.behind_proxy


def load_settings(folder: StateFolder) -> ServiceSettings:
    """The settings of a service that was set up."""
    if not folder.settings.exists():
        raise InputError(f"{folder.root} holds no service: it has no {folder.settings.name}")
    return load_section(folder.settings, ServiceSettings)


def save_settings(folder: StateFolder, settings: ServiceSettings) -> None:
    write_toml(folder.settings, settings)
