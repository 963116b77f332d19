"""`unpooled certs`: keys, certificates and revocation lists from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unpooled.cli.options import Json
from unpooled.transport import certificates, trust

certs_app = typer.Typer(
    no_args_is_help=True,
    help="Make and check the keys and certificates with which parties prove who they are.",
    epilog="Each party: request, then check. The authority: authority once, then sign, revoke and refresh. "
    "On one machine, to try things out: trial.",
)

AuthorityFolder = Annotated[Path, typer.Option("--authority", help="The authority's folder.", metavar="FOLDER")]
Days = Annotated[int, typer.Option(min=1, max=36_500, help="How many days the certificate is valid.")]


@certs_app.command()
def authority(
    folder: Annotated[Path, typer.Argument(help="A new folder for the authority's key and records.")],
    name: Annotated[str, typer.Option(help="The authority's name.")] = "unpooled authority",
    days: Days = certificates.AUTHORITY_DAYS,
) -> None:
    """Make an authority, which signs the parties' requests."""
    certificate = certificates.make_authority(folder, name, days)
    typer.echo(f"The authority is in {folder}. Keep {folder / certificates.AUTHORITY_KEY_FILE} secret.")
    typer.echo(f"Its fingerprint, for the parties to compare: {certificates.fingerprint(certificate)}")
    typer.echo("Next: sign the requests that the parties send, with `unpooled certs sign`.")


@certs_app.command()
def request(
    party: Annotated[str, typer.Argument(help="The party's name, as in the plan.")],
    folder: Annotated[Path, typer.Option("--dir", help="The party's new folder.", metavar="FOLDER")],
) -> None:
    """Make a party's key and its request for a certificate."""
    made = certificates.make_request(folder, party)
    typer.echo(f"Send {folder / certificates.REQUEST_FILE} to the authority. Keep {trust.KEY_FILE} secret.")
    typer.echo(f"The request's fingerprint, to tell the authority by telephone: {certificates.fingerprint(made)}")
    typer.echo(f"Next: put the files that come back into {folder}, then run `unpooled certs check {folder}`.")


@certs_app.command()
def sign(
    request_file: Annotated[Path, typer.Argument(metavar="REQUEST", help="The request.pem that a party sent.")],
    authority: AuthorityFolder,
    out: Annotated[Path, typer.Option(help="Where to put the files for the party.", metavar="FOLDER")],
    days: Days = certificates.PARTY_DAYS,
) -> None:
    """Sign a party's request."""
    certificate = certificates.sign(authority, request_file, out, days)
    party = trust.name_in(certificate)
    typer.echo(f"Signed: the certificate of {party} is valid until {trust.moment(certificate.not_valid_after_utc)}.")
    typer.echo(f"The request's fingerprint: {certificates.fingerprint(certificate)}")
    typer.echo(f"Next: compare it with {party} by telephone, then send the files in {out} back.")


@certs_app.command()
def revoke(
    certificate: Annotated[Path, typer.Argument(help="The certificate; the authority has a copy in issued/.")],
    authority: AuthorityFolder,
) -> None:
    """Revoke a certificate, for example because its key was lost or stolen."""
    certificates.revoke(authority, certificate)
    _say_next(authority, "now: a party without this list still accepts the revoked certificate")


@certs_app.command()
def refresh(authority: AuthorityFolder) -> None:
    """Renew the revocation list before it expires."""
    certificates.refresh_revoked(authority)
    _say_next(authority, "before the list that they have expires")


def _say_next(authority: Path, when: str) -> None:
    typer.echo(f"Next: send {authority / trust.REVOKED_FILE} to every party {when}.")
    typer.echo(f"The list is valid for {certificates.LIST_DAYS} days; `unpooled certs refresh` renews it.")


@certs_app.command()
def check(folder: Annotated[Path, typer.Argument(help="A party's folder.")], as_json: Json = False) -> None:
    """Check a party's folder, and say what is wrong with it."""
    certificate = trust.read_certificate(folder / trust.CERTIFICATE_FILE)
    identity = trust.load_identity(folder, trust.name_in(certificate))
    end, revoked = certificate.not_valid_after_utc, identity.revoked
    fingerprint = certificates.fingerprint(trust.read_authority(folder))
    if as_json:
        listed = None
        if revoked is not None:
            listed = {"certificates": len(revoked), "as_of": revoked.last_update_utc.isoformat()}
        found = {"party": identity.party, "until": end.isoformat(), "authority": fingerprint, "revoked": listed}
        typer.echo(json.dumps(found))
        return
    typer.echo(f"Valid: {identity.party}, until {trust.moment(end)}.")
    typer.echo(f"The authority's fingerprint: {fingerprint}")
    if revoked is None:
        typer.echo(f"There is no {trust.REVOKED_FILE}: revoked certificates cannot be detected.")
    else:
        typer.echo(f"Revoked certificates: {len(revoked)}, as of {trust.moment(revoked.last_update_utc)}.")


@certs_app.command()
def trial(
    parties: Annotated[list[str], typer.Argument(help="The names of all parties.")],
    folder: Annotated[Path, typer.Option("--dir", help="A new folder for all of them.", metavar="FOLDER")],
    days: Days = certificates.TRIAL_DAYS,
) -> None:
    """Make all keys and certificates at once, for a trial on one machine."""
    certificates.make_trial(folder, parties, days)
    typer.echo(f"Each party has its own folder in {folder}, ready for use for {days} days.")
    typer.echo("For trials only: whoever made these can pose as any of the parties.")
