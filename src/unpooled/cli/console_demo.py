"""`unpooled demo --console`: four services on this machine, with example data and a job that waits for an approval."""

from __future__ import annotations

import signal
import webbrowser
from pathlib import Path

import typer

from unpooled.cli.running import interruptible
from unpooled.errors import InputError, Interrupted

_APPROVER, _DRAFTER = "shop", "bank"


def show_console(folder: Path, rows: int | None) -> None:
    """Start the services, let all parties but the shop approve a search, open the shop's inbox, and wait for Ctrl-C."""
    try:
        from unpooled.serve import example
    except ModuleNotFoundError as error:
        raise InputError(f"--console needs more packages ({error.name}): pip install 'unpooled[serve]'") from None
    typer.echo("setting up a service for each of shop, telco, bank and coordinator ...")
    services = example.make_services(folder, rows)
    job = example.offer_example(services, _DRAFTER)
    with interruptible(signal.SIGINT, signal.SIGTERM):
        try:
            with example.running(services) as processes:
                example.approve_when_offered(services, [party for party in services if party != _APPROVER], job)
                example.wait_for(services[_APPROVER], job, "offered")
                typer.echo("")
                for service in services.values():
                    typer.echo(f"{service.party:12} {service.console}  sign in as {service.name}  {service.password}")
                typer.echo(
                    f"\nThe bank offers the shop a search for look-alikes; the others have approved it. Sign in at the "
                    f"shop's console,\nlook at what would leave the shop, and approve: {services[_APPROVER].console}"
                    "/inbox\nCtrl-C ends all services."
                )
                webbrowser.open(f"{services[_APPROVER].console}/inbox")
                for process in processes.values():
                    process.wait()
        except Interrupted:
            typer.echo(f"ended; everything is in {folder}")
