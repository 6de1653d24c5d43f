"""Download an archive of story files and add what it holds. Nothing is contacted unless the user asks for it."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cbr_jericho.stories.add import AddReport, add_stories
from cbr_jericho.stories.find import user_games_folder
from cbrcore.errors import GameError

DEFAULT_URL = "https://github.com/BYU-PCCL/z-machine-games/archive/master.zip"
"""The archive that Jericho's own documentation names. The games in it are third-party works."""

TIMEOUT = 30.0
"""Seconds without a byte from the server."""

BLOCK = 1 << 16
MAX_BYTES = 1 << 30

WITHOUT_NETWORK = (
    "Without a network: get the archive elsewhere and type cbr games add FILE.zip;"
    " or play a generated story, which needs no download."
)

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here, and how many there will be (None: the server does not say)."""


def fetch_stories(
    url: str = DEFAULT_URL,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> AddReport:
    """Download a zip archive of story files and add the supported ones to `folder`.

    An interrupted download goes on where it stopped, if the server can tell that the archive is still the same
    (an ETag or a date) and can send a part of it (Range); else it starts again.

    Args:
        url: http or https.
        sha256: of the archive; nothing is added if it differs.
        progress: told of each block that arrives.
        folder: None: `user_games_folder()`.

    Raises:
        GameError: the server cannot be reached or refuses, the transfer stops, the checksum differs, or the
            archive holds no supported story.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise GameError(
            f"cannot download {url!r}: not an http(s) address", hint="For a file, type cbr games add PATH."
        )
    folder = folder or user_games_folder()
    with _partial_file(folder, url) as partial:
        partial.complete(progress or (lambda done, total: None))
        partial.check(sha256)
        try:
            report = add_stories([partial.path], folder=folder)
        finally:
            partial.discard()
    if not report.added and not report.present:
        raise GameError(f"{url} gave no story: " + "; ".join(report.refused), hint=WITHOUT_NETWORK)
    return report


@contextmanager
def _partial_file(folder: Path, url: str) -> Iterator[_Partial]:
    """The file that holds what has arrived so far, for one process at a time."""
    path = folder / f".download-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("ab+")
    except OSError as error:
        raise GameError(
            f"cannot write to the games folder {folder}: {error.strerror}",
            hint="Set XDG_DATA_HOME to another folder.",
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GameError(
                f"{url} is being downloaded already", hint="Wait for the other command to end."
            ) from error
        partial = _Partial(url, path, file)
        try:
            yield partial
        finally:
            if not partial.size:
                partial.discard()


class _Partial:
    """An archive that is arriving: its bytes, and beside them the mark by which the server knows it again."""

    def __init__(self, url: str, path: Path, file: BufferedRandom) -> None:
        self.url = url
        self.path = path
        self.file = file
        self._mark = path.with_suffix(".mark")

    def __repr__(self) -> str:
        return f"_Partial({self.url!r}, {self.size} bytes)"

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def complete(self, progress: Progress) -> None:
        """Get what is missing."""
        try:
            with self._request() as response:
                self._receive(response, progress)
        except urllib.error.HTTPError as error:
            raise GameError(
                f"{self.url} answers: {error.code} {error.reason}", hint="Check --url, or try again later."
            ) from error
        except urllib.error.URLError as error:
            raise GameError(f"{self.url} cannot be reached: {error.reason}", hint=WITHOUT_NETWORK) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._stopped(str(error) or type(error).__name__) from error

    def check(self, sha256: str | None) -> None:
        """Compare the whole archive with the expected checksum; a wrong one is thrown away."""
        self.file.seek(0)
        found = hashlib.file_digest(self.file, "sha256").hexdigest()
        if sha256 is not None and found != sha256.lower():
            self.discard()
            raise GameError(
                f"{self.url} has the SHA-256 {found}, not {sha256}: it was changed, or damaged on the way",
                hint="Type the command again; or check --sha256.",
            )

    def discard(self) -> None:
        """Forget what has arrived."""
        self.file.truncate(0)
        self.path.unlink(missing_ok=True)
        self._mark.unlink(missing_ok=True)

    def _request(self) -> Any:
        """Ask for the rest, on condition that the archive is still the same; for all of it if that is refused."""
        request = urllib.request.Request(self.url, headers={"User-Agent": "cbr"})
        mark = self._mark.read_text("utf-8") if self._mark.is_file() else ""
        if not mark or not self.size:
            return urllib.request.urlopen(request, timeout=TIMEOUT)
        request.add_header("Range", f"bytes={self.size}-")
        request.add_header("If-Range", mark)
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            self._mark.unlink()
            return self._request()

    def _receive(self, response: Any, progress: Progress) -> None:
        """Write the answer behind what is there, or from the start if the server sends everything again."""
        expected = f"bytes {self.size}-"
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            self.file.truncate(0)
            self._mark.write_text(_mark(response.headers), "utf-8")
        elif not response.headers.get("Content-Range", "").startswith(expected):
            raise self._stopped("the server sent another part than was asked for")
        length = response.headers.get("Content-Length")
        total = self.size + int(length) if length else None
        progress(self.size, total)
        while block := response.read(BLOCK):
            self.file.write(block)
            self.file.flush()
            progress(self.size, total)
            if self.size > MAX_BYTES:
                self.discard()
                raise GameError(f"{self.url} has more than {MAX_BYTES >> 20} MiB", hint="Check --url.")
        if total is not None and self.size < total:
            raise self._stopped("the server closed the connection")

    def _stopped(self, why: str) -> GameError:
        kept = self._mark.is_file() and self._mark.read_text("utf-8")
        then = "goes on from there" if kept else "starts again"
        return GameError(
            f"the download of {self.url} stopped after {self.size:,} bytes: {why}",
            hint=f"Type the same command again: it {then}. {WITHOUT_NETWORK}",
        )


def _mark(headers: Any) -> str:
    """What If-Range needs: a strong ETag or a date; empty if the server gives neither."""
    etag = str(headers.get("ETag", ""))
    return etag if etag and not etag.startswith("W/") else str(headers.get("Last-Modified", ""))
