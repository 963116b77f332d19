"""A service's state as one archive: made while the service runs, and restored into an empty folder.

An archive holds keys and everything else that the service keeps, so it is for its owner only. What was done since is
not in it. So a restored service ends the jobs that were open, and all sessions and tokens, and shows its peers that it
has begun anew (`peering.post`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.serve.context import Context
from unpooled.serve.folder import StateFolder
from unpooled.serve.jobs.news import cancel_open
from unpooled.serve.peering.post import begin_anew
from unpooled.serve.settings import load_settings
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import back_up, open_database

_REASON = "this service was restored from a backup: offer the job again"


def make_backup(folder: StateFolder, to: Path) -> int:
    """Write an archive and return its size in bytes."""
    load_settings(folder)  # refuses a folder without a service
    if folder.root.resolve() in to.resolve().parents:
        raise InputError(f"{to}: keep the backup outside the state folder")
    with atomic.naming(to), atomic.replacing(to) as temporary, TemporaryDirectory(dir=folder.root, prefix=".") as name:
        copy = Path(name) / folder.database.name
        back_up(folder.database, copy)
        with tarfile.open(temporary, "w:gz", compresslevel=1) as archive:
            archive.add(copy, folder.database.name)
            for path in _parts(folder):
                _add(archive, path, path.name)
    return to.stat().st_size


def restore(archive: Path, folder: StateFolder) -> str:
    """Restore an archive into a folder that is empty or not there yet; returns the party's name."""
    if folder.root.exists() and (not folder.root.is_dir() or any(folder.root.iterdir())):
        raise InputError(f"{folder.root} is not empty: a backup is restored into an empty folder only")
    target = folder.root.resolve()
    atomic.make_folder(target.parent)
    fresh = StateFolder(target.with_name(f".{target.name}-{secrets.token_hex(4)}"))
    try:
        _unpack(archive, fresh)
        party = _begin_anew(fresh)
        fresh.root.replace(target)
    except BaseException:
        shutil.rmtree(fresh.root, ignore_errors=True)
        raise
    atomic.flush_folder(target.parent)
    return party


def _parts(folder: StateFolder) -> tuple[Path, ...]:
    """What an archive holds besides the database; anchors come before books, which may be ahead of them, not behind."""
    keys = (folder.certificates.parent, folder.authority)
    return (folder.settings, *keys, folder.books.anchors, folder.books.books, folder.ledger, folder.runs)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file or folder as it is now; one that is just removed or renamed is left out."""
    try:
        info = archive.gettarinfo(path, name)
        if info.islnk():  # another name of a file that is in the archive already
            info.type, info.size = tarfile.REGTYPE, path.stat().st_size
        if info.isreg():
            with path.open("rb") as file:
                info.size = os.fstat(file.fileno()).st_size
                archive.addfile(info, file)
        elif info.isdir() or info.issym():
            archive.addfile(info)
        inside = sorted(path.iterdir()) if info.isdir() else []
    except FileNotFoundError:
        return
    for each in inside:
        _add(archive, each, f"{name}/{each.name}")


def _unpack(path: Path, fresh: StateFolder) -> None:
    """Unpack what an archive of this software has: files, folders, and the link to the certificate in use."""
    names = {each.name for each in (*_parts(fresh), fresh.database)}
    fresh.make()
    try:
        with atomic.naming(path, "read"), tarfile.open(path, "r:gz") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if not parts or ".." in parts or parts[0] not in names:
                    raise InputError(f"{path}: {member.name[:80]!r} does not belong into a backup")
                _unpack_one(archive, member, fresh.root.joinpath(*parts), fresh)
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{path}: not a whole backup: {error}") from None
    if not fresh.database.exists() or not fresh.settings.exists():
        raise InputError(f"{path}: not a whole backup: the settings or the state are missing")


def _unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, fresh: StateFolder) -> None:
    if member.isdir():
        atomic.close_folder(to)
    elif member.issym() and to == fresh.certificates and len(PurePosixPath(member.linkname).parts) == 1:
        to.symlink_to(member.linkname, target_is_directory=True)
    elif member.isreg() and (file := archive.extractfile(member)):
        atomic.make_folder(to.parent)
        if fresh.certificates.is_symlink() and fresh.certificates in to.parents:
            raise InputError(f"{member.name[:80]!r} would be written through a link")
        with file, open(to, "xb", opener=atomic.owner_only) as written:
            shutil.copyfileobj(file, written)
    else:
        raise InputError(f"{member.name[:80]!r} is neither a file nor a folder of a backup")


def _begin_anew(fresh: StateFolder) -> str:
    context = Context(load_settings(fresh), fresh, open_database(fresh.database))
    try:
        with context.database.transaction() as connection:
            begin_anew(connection)
            cancel_open(context, connection, _REASON)
            connection.execute("DELETE FROM sessions")
            connection.execute("DELETE FROM tokens")
            note(connection, "service", "was restored from a backup")
    finally:
        context.database.close()
    return context.party
