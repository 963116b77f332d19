"""Fetch the three data sets from their publisher, the UCI Machine Learning Repository, and convert them.

Only the format changes (separator, quoting, spreadsheet, padding, a header line), never a cell. The original is checked
by its sha256 before it is read, and the converted text against all published facts before it is kept.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import http.client
import io
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl

from unpooled.atomic import write_bytes
from unpooled.data.datasets import PUBLISHED, Published, check, published
from unpooled.errors import InputError

SIZE_LIMIT = 32 * 2**20  # the largest original has 6 MB
CHUNK = 2**16
TIMEOUT_SECONDS = 30

OpenUrl = Callable[[str], IO[bytes]]
Advance = Callable[[str, int], None]


def open_https(url: str) -> IO[bytes]:
    """Open an address with a timeout; a redirect away from https is an error."""
    response: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 (checked next)
    if not response.url.startswith("https://"):
        response.close()
        raise InputError(f"{url}: the answer came from {response.url}, not over https")
    return response


def _bank_text(original: bytes) -> bytes:
    rows = csv.reader(io.StringIO(original.decode("ascii")), delimiter=";")
    return _lines(",".join(cells) for cells in rows)


def _credit_text(original: bytes) -> bytes:
    """The first line of the sheet numbers the columns (X1, X2 ...), the second names them."""
    try:
        sheet = pl.read_excel(io.BytesIO(original), engine="calamine", read_options={"header_row": 1})
    except ModuleNotFoundError as problem:
        raise InputError(
            "credit: reading the publisher's .xls file needs `pip install unpooled[datasets]`"
        ) from problem
    return sheet.cast(pl.Int64).write_csv().encode()


ADULT_COLUMNS = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours-per-week,native-country,income"
)


def _adult_text(original: bytes) -> bytes:
    """The originals have no header, cells padded with a space, empty last lines, and in the test file a remark."""
    lines = original.decode("ascii").splitlines()
    return _lines([ADULT_COLUMNS, *(line.replace(", ", ",") for line in lines if line and not line.startswith("|"))])


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


URLS = {
    "bank": "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
    "credit": "https://archive.ics.uci.edu/static/public/350/default+of+credit+card+clients.zip",
    "census": "https://archive.ics.uci.edu/static/public/2/adult.zip",
}
CONVERT = {"bank": _bank_text, "credit": _credit_text, "census": _adult_text}


def fetch(names: Iterable[str], folder: Path, advance: Advance, open_url: OpenUrl = open_https) -> list[Path]:
    """Download, check and convert data sets into `folder`; `advance` is called with the name and the bytes received."""
    names = list(names)
    for name in names:
        published(name)  # find a misspelt name before the first download
    written = []
    for name in names:
        archive = download(URLS[name], partial(advance, name), open_url)
        for expected in PUBLISHED[name].values():
            text = CONVERT[name](original(archive, expected, URLS[name]))
            check(text, expected, f"{URLS[name]}, converted")
            written.append(_keep(text, folder / expected.file))
    return written


def download(url: str, advance: Callable[[int], None], open_url: OpenUrl) -> bytes:
    """Download an address into memory, up to the size limit."""
    received = bytearray()
    try:
        with open_url(url) as response:
            while chunk := response.read(CHUNK):
                received += chunk
                if len(received) > SIZE_LIMIT:
                    raise InputError(f"{url}: more than {SIZE_LIMIT:,} bytes, which is not the data set")
                advance(len(chunk))
    except (OSError, http.client.HTTPException) as problem:
        raise InputError(f"{url}: the download failed: {problem}") from problem
    return bytes(received)


def original(archive: bytes, expected: Published, source: str) -> bytes:
    """Extract the original from the publisher's zip, and check it."""
    content = archive
    for name in expected.inside:
        source = f"{source} > {name}"
        content = _unzip(content, name, source)
    found = hashlib.sha256(content).hexdigest()
    if found != expected.original_sha256:
        reason = f"sha256 {found} instead of {expected.original_sha256}"
        raise InputError(f"{source}: this is not the published file: {reason}")
    return content


def _unzip(archive: bytes, name: str, source: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened, opened.open(name) as member:
            content = member.read(SIZE_LIMIT + 1)
    except KeyError as problem:
        raise InputError(f"{source}: the zip has no such file") from problem
    # RuntimeError: a password or an unknown compression
    except (zipfile.BadZipFile, EOFError, RuntimeError, zlib.error) as problem:
        raise InputError(f"{source}: the zip cannot be read: {problem}") from problem
    if len(content) > SIZE_LIMIT:
        raise InputError(f"{source}: more than {SIZE_LIMIT:,} bytes once unpacked, which is not the data set")
    return content


def _keep(text: bytes, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, gzip.compress(text, mtime=0))
    except OSError as problem:
        raise InputError(f"{path}: the data set cannot be written: {problem.strerror}") from problem
    return path
