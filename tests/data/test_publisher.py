"""Fetching from the publisher: the originals are rebuilt byte for byte from the checked copies, and converted again."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import io
import os
import re
import threading
import urllib.error
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import polars as pl
import pytest

from unpooled.data import datasets, publisher
from unpooled.errors import InputError


def checked_text(name: str, part: str) -> str:
    """The text of a data set; skips where nobody promised it, fails where UNPOOLED_DATA is set and it is absent."""
    path = datasets.folder() / datasets.published(name, part).file
    if not os.environ.get(datasets.FOLDER_VARIABLE) and not path.is_file():
        pytest.skip(f"{name}: neither in the cache nor in {datasets.FOLDER_VARIABLE}")
    return gzip.decompress(path.read_bytes()).decode()


def bank_original() -> bytes:
    def quoted(cell: str) -> str:
        return cell if re.fullmatch(r"-?[\d.]+", cell) else f'"{cell}"'

    lines = checked_text("bank", "train").splitlines()
    return "".join(";".join(map(quoted, line.split(","))) + "\r\n" for line in lines).encode()


def adult_original(part: str) -> bytes:
    lines = checked_text("census", part).splitlines()[1:]
    remark = "|1x3 Cross validator\n" if part == "test" else ""
    return (remark + "".join(line.replace(",", ", ") + "\n" for line in lines) + "\n").encode()


def zipped(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return archive.getvalue()


def bank_archive(original: bytes) -> bytes:
    outer, inner = datasets.PUBLISHED["bank"]["train"].inside
    return zipped({outer: zipped({inner: original}), "bank.zip": b"something else"})


def serving(content: bytes) -> publisher.OpenUrl:
    return lambda url: io.BytesIO(content)


def ignore(name: str, size: int) -> None:
    pass


def test_every_set_has_an_address_and_a_conversion() -> None:
    assert set(publisher.URLS) == set(publisher.CONVERT) == set(datasets.PUBLISHED)
    assert all(url.startswith("https://archive.ics.uci.edu/") for url in publisher.URLS.values())


def test_bank_is_fetched_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = bank_original()
    assert hashlib.sha256(original).hexdigest() == datasets.PUBLISHED["bank"]["train"].original_sha256
    archive = bank_archive(original)
    received: dict[str, int] = {}

    def advance(name: str, size: int) -> None:
        received[name] = received.get(name, 0) + size

    written = publisher.fetch(["bank"], tmp_path / "new", advance, serving(archive))
    assert written == [tmp_path / "new" / "bank.csv.gz"]
    assert received == {"bank": len(archive)}
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path / "new"))
    assert datasets.load("bank").label.sum() == 4_640


def test_census_is_fetched_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    originals = {"adult.data": adult_original("train"), "adult.test": adult_original("test")}
    for part in ("train", "test"):
        (name,) = datasets.PUBLISHED["census"][part].inside
        assert hashlib.sha256(originals[name]).hexdigest() == datasets.PUBLISHED["census"][part].original_sha256
    publisher.fetch(["census"], tmp_path, ignore, serving(zipped(originals)))
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    assert datasets.load("census", "test").frame.height == 16_281


# A sheet in the publisher's form: numbered columns, their names, then two rows.
SMALL_XLS = (
    "eNrtWE1oE1EQ/t4maX5I06SmYiOUULBq7aV46aVdW6ol0JYqglWEujURpWlSwgrWi7U1R0HwpHgp9OLBqhd/UEFvHoSKHgRBSOqxJ0GhhzbrvN"
    "mNprGHBrSovG958+bNm9k3y8yb3bdvlyKF+YexIqrQAxdKlh91FTJBzV8ehEHzliXZcu+jZin8U/D7KJB1Hjyrf+OVMZTxLkLDA/crosAytdOY"
    "wnA2k4pvI/rYB0NIH7qJCtwhSQjN7FUj07NMdzC9z5rPmR5iyXWm3aRbEKewpA+3dzlZPKq18lwI8r6P2eYjSzrRhNcyi6/cELauB725C0b675"
    "xocQexAIrbQCqTyhnpAqIUwAV8s+LA1/JOfRlX8u2VC5B8daPcu4n8puYGZmCd4QTPI4hll5xxo98wjTXoFGhwo+Qc7aTgnyQm0U9FeDAxlDg+"
    "1tc7GAOSqXPGxbQZnzKmJ1MZM55JXTLjk9mMeT4gKzbv8PCGHV7PmR8kmkQD8xHO/zDV8LW7X94NjY/oYyyZ4apu1/490l1YuCotyDgE21kJ6X"
    "c7WxxgOst33c18jGmUHoT6tpEmhzkyxzrXeLaN1jnIeK/vreD3EZ9fOfqkJf9Z30/84kDxcnTxgz6PVnoXJcleXnPoEB3i9i2Jp3q5F06d+MS0"
    "+Zea4dPCju+W84JrgNDsN14E6wjwc0d4bI80GgnHUlRZSg3BlpqjL9ja9WMkrd2OtVZl/QK7WBbh+EQw2yUcXmN91yb6LtYM2GveW7XslTX0aI"
    "14JFmqhD8RgIKCgoKCgoKCgoKwDxf8Lel2Dhvyq9Pr/NdZp1ZSv0n+WxxDli6TDqaHkaE+h+ma8mcnPKJ8L7FFm/L/QokTtHoOExhnPyZqzl86"
    "4YnK59myYfj3baFa1y/V4ucfXv87y9TTNA=="
)


def test_credit_sheet_becomes_text() -> None:
    pytest.importorskip("fastexcel", reason="reading .xls takes the extra `datasets`")
    sheet = zlib.decompress(base64.b64decode(SMALL_XLS))
    text = publisher.CONVERT["credit"](sheet)
    assert text == b"ID,LIMIT_BAL,default payment next month\n1,20000,1\n2,-120000,0\n"


def test_credit_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("required package 'fastexcel' not found")

    monkeypatch.setattr(pl, "read_excel", absent)
    with pytest.raises(InputError, match=r"pip install unpooled\[datasets\]"):
        publisher.CONVERT["credit"](b"")


def locked_zip() -> bytes:
    """A zip whose only file claims to need a password."""
    content = bytearray(zipped({"adult.data": b"x", "adult.test": b"x"}))
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(header) + flags] |= 1
    return bytes(content)


def damaged_zip() -> bytes:
    content = bytearray(zipped({"adult.data": bytes(1000)}))
    content[45] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (lambda: b"<html>not found</html>", "adult.data: .*zip"),
        (lambda: zipped({"other": b""}), "adult.data: .*zip"),
        (lambda: zipped({"adult.data": b"39, State-gov"}), "adult.data: .*sha256"),
        (lambda: zipped({"adult.data": bytes(publisher.SIZE_LIMIT + 1)}), "bytes"),
        (locked_zip, "adult.data: .*zip"),
        (damaged_zip, "adult.data: .*zip"),
    ],
    ids=["no zip", "other files", "other content", "bomb", "locked", "damaged"],
)
def test_wrong_archives_are_refused(tmp_path: Path, archive: Callable[[], bytes], message: str) -> None:
    with pytest.raises(InputError, match=message):
        publisher.fetch(["census"], tmp_path, ignore, serving(archive()))
    assert list(tmp_path.iterdir()) == []


def test_endless_download_is_cut_off(tmp_path: Path) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return bytes(size)

    with pytest.raises(InputError, match="33,554,432"):
        publisher.fetch(["bank"], tmp_path, ignore, lambda url: Endless())  # type: ignore[arg-type,return-value]


def test_failed_download_says_why(tmp_path: Path) -> None:
    def offline(url: str) -> IO[bytes]:
        raise urllib.error.URLError("no route to host")

    with pytest.raises(InputError, match=r"bank\+marketing.zip: .*no route to host"):
        publisher.fetch(["bank"], tmp_path, ignore, offline)


def test_misspelt_name_is_found_before_any_download(tmp_path: Path) -> None:
    def forbidden(url: str) -> IO[bytes]:
        raise AssertionError("downloaded")

    with pytest.raises(InputError, match="credits"):
        publisher.fetch(["bank", "credits"], tmp_path, ignore, forbidden)


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    archive = bank_archive(bank_original())
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match="taken"):
        publisher.fetch(["bank"], tmp_path / "taken", ignore, serving(archive))


class Greeter(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def local_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.HTTPServer(("127.0.0.1", 0), Greeter) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_answers_without_https_are_refused(local_server: str) -> None:
    with pytest.raises(InputError, match="https"):
        publisher.open_https(local_server)
