"""The run folder: what a run leaves behind for people and other tools (docs/runs.md)."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import Recorder
from cbrcore.runs.files import CHECKSUMS_FILE, clear_leftovers, is_leftover, unreadable, writing
from cbrcore.runs.files import damaged as damaged  # also asked for here
from cbrcore.runs.files import read_json as read_json
from cbrcore.runs.files import write_atomically as write_atomically

log = logging.getLogger(__name__)

RECIPE_FILE = "recipe.yaml"
VERSIONS_FILE = "versions.json"
METRICS_FILE = "metrics.jsonl"
RESULTS_FILE = "results.json"
TIMING_FILE = "timing.json"
MEMORY = "memory"
LOG_FILE = "run.log"
PROGRESS_FILE = "progress.json"
"""How far the run is; there as long as a process works on it (`cbrcore.console.RecordedProgress`)."""
LOCK_FILE = ".lock"
USER_FILE = ".lock.user"
"""Who holds the lock, for people. Whether somebody does, the lock alone knows."""
SET_ASIDE, GONE = "replaced", "gone"
"""What was in the folder before, as ``.replaced.PID.tmp``, until the run that replaces it stands."""
WRITTEN_WHOLE = (RECIPE_FILE, VERSIONS_FILE, RESULTS_FILE, TIMING_FILE, CHECKSUMS_FILE, PROGRESS_FILE, MEMORY)
OURS = "|".join(map(re.escape, (*WRITTEN_WHOLE, GONE)))
"""What is written under a temporary name first."""
TRACES = (LOG_FILE, PROGRESS_FILE, LOCK_FILE, USER_FILE)
"""Of a process at work, or of one that died early."""
SECONDS_TO_LOCK = 0.5
"""A look at the lock (`user_of`) is over long before that; a run holds it longer."""


class RunFolder:
    """One run's folder, locked by this process until `close`. Make one with `create` or `resume`."""

    def __init__(self, path: Path, lock: FileLock, *, replaces: bool = False) -> None:
        self.path, self.checkpoints, self.memory = path, path / "checkpoints", path / MEMORY
        self._lock, self._replaces = lock, replaces
        _put_back(path)  # a process was killed before its run stood
        clear_leftovers(path, OURS)
        self._log_start = (path / LOG_FILE).stat().st_size if (path / LOG_FILE).exists() else 0
        self._log_handler = _LogFile(path / LOG_FILE, encoding="utf-8", errors="backslashreplace")
        self._log_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(self._log_handler)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @classmethod
    def create(cls, name: str, out: Path | None, *, overwrite: bool = False) -> RunFolder:
        """A new folder: `out`, or ``runs/<name>-<time>-<random>`` in the working directory.

        Raises:
            RunFolderError: `out` holds a run and `overwrite` is off, or another process uses it.
        """
        unique = f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        path = (out or Path("runs") / unique).resolve()
        _refuse_other_things(path)
        path.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
        replaces = (path / RECIPE_FILE).exists() or bool(_set_aside_in(path))
        if replaces and not overwrite:
            _release(lock, path)
            hint = f"continue it with {run_command('run --resume', path)}, or replace it with --overwrite"
            raise RunFolderError(f"{path} already holds a run", hint=hint)
        return cls(path, lock, replaces=replaces)

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """An existing run's folder.

        Raises:
            RunFolderError: it holds no run, or another process uses it.
        """
        stored_recipe(path)
        path = path.resolve()
        return cls(path, _locked(path))

    def set_aside(self) -> None:
        """Make room for a run that replaces the one that is here; see `stands`."""
        if self._replaces:
            _move_all(self.path, self.path / f".{SET_ASIDE}.{os.getpid()}.tmp")

    def stands(self) -> None:
        """The run has begun: the one that it replaces goes. One that never stood leaves the old one as it was."""
        if self._replaces:
            self._replaces = False
            aside = self.path / f".{SET_ASIDE}.{os.getpid()}.tmp"
            aside.rename(self.path / f".{GONE}.{os.getpid()}.tmp")
            clear_leftovers(self.path, GONE)
            own = (self.path / LOG_FILE).read_bytes()[self._log_start :]
            (self.path / LOG_FILE).write_bytes(own)  # the handler appends

    def close(self, *, failed: bool = False) -> None:
        """Release the lock and the log file; safe to call twice. A run that never began leaves no folder, or if it
        `failed` the log alone."""
        logging.getLogger().removeHandler(self._log_handler)
        self._log_handler.close()
        if self._lock.is_locked:
            _put_back(self.path)
            if not (self.path / RECIPE_FILE).exists() and not failed:
                shutil.rmtree(self.path, ignore_errors=True)
        _release(self._lock, self.path)

    @contextlib.contextmanager
    def replacing(self, path: Path) -> Iterator[Path]:
        """A new folder to write into; when that is done, it takes the place of `path`."""
        fresh, gone = (path.with_name(f".{name}.{os.getpid()}.tmp") for name in (path.name, GONE))
        fresh.mkdir()
        try:
            yield fresh
            if path.exists():
                path.rename(gone)
            fresh.rename(path)
        finally:
            clear_leftovers(self.path, f"{path.name}|{GONE}")

    def write_text(self, name: str, text: str) -> None:
        """Write a file atomically: it is whole or it is the old one."""
        write_atomically(self.path / name, text)

    def write_json(self, name: str, data: Mapping[str, Any]) -> None:
        self.write_text(name, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def stored_recipe(folder: Path) -> Path:
    """The resolved recipe of a run; RunFolderError if the folder holds none."""
    path = folder / RECIPE_FILE
    if not path.is_file() and _set_aside_in(folder):
        RunFolder(folder.resolve(), _locked(folder)).close()  # puts it back
    if not path.is_file():
        raise RunFolderError(f"{folder} holds no run (no {RECIPE_FILE})", hint="give the folder of a run")
    return path


def holds_nothing(folder: Path) -> bool:
    """Whether a run may begin in `folder`: it is empty, or a run died there before it wrote down its recipe."""
    return all(_is_trace(path) for path in folder.iterdir())


def _is_trace(path: Path) -> bool:
    return path.name in TRACES or path.name.startswith(f"{LOCK_FILE}.") or is_leftover(path, OURS)


def _refuse_other_things(path: Path) -> None:
    """RunFolderError if something lies at `path` that is neither a run nor free; nothing is written there."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, not a folder", hint="choose another --out")
    if path.is_dir() and not holds_nothing(path) and not (path / RECIPE_FILE).exists() and not _set_aside_in(path):
        if user := user_of(path):  # it has just begun
            raise _in_use(path, user)
        raise RunFolderError(f"{path} is not empty and holds no run", hint="choose another --out")


def _move_all(source: Path, to: Path) -> None:
    """Move all that is a run's from one folder into another; what says that it is a run goes last."""
    to.mkdir(exist_ok=True)
    for path in sorted(source.iterdir(), key=lambda path: path.name == RECIPE_FILE):
        if not _is_trace(path) and not is_leftover(path, SET_ASIDE):
            path.rename(to / path.name)


def _set_aside_in(folder: Path) -> list[Path]:
    return list(folder.glob(f".{SET_ASIDE}.*.tmp"))


def _put_back(folder: Path) -> None:
    """What was set aside for a run that never stood comes back; of that run nothing but the log stays."""
    for aside in _set_aside_in(folder):
        if (aside / RECIPE_FILE).exists():  # else it was not yet set aside as a whole
            _move_all(folder, folder / f".{GONE}.{os.getpid()}.tmp")
            clear_leftovers(folder, GONE)
        _move_all(aside, folder)
        aside.rmdir()


def run_command(words: str, folder: Path) -> str:
    """What to type about the run in `folder`: ``cbr run --resume DIR``, with its loose plugin files."""
    files = [word for file in plugin_files(folder) for word in ("--plugin", file)]
    return f"cbr {words} {shlex.join([str(folder), *files])}"


def plugin_files(folder: Path) -> dict[str, str]:
    """The loose plugin files that the run was last started with: path -> sha256."""
    with contextlib.suppress(CbrError, KeyError, IndexError, TypeError, AttributeError):
        return {str(path): str(digest) for path, digest in starts_of(folder)[-1]["plugin_files"].items()}
    return {}


def starts_of(folder: Path) -> list[dict[str, Any]]:
    """Every start of the run, as versions.json has them; older versions wrote down the last one alone."""
    if not (folder / VERSIONS_FILE).exists():
        return []
    facts = read_json(folder / VERSIONS_FILE)
    starts = facts.get("starts") or [facts] if isinstance(facts, dict) else None
    if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
        raise unreadable(folder / VERSIONS_FILE, "it does not tell the starts of a run")
    return starts


class _LogFile(logging.FileHandler):
    """A full disk does not stop a run from being logged elsewhere, nor show a traceback."""

    def handleError(self, record: logging.LogRecord) -> None: ...  # noqa: N802 (the name is logging's)


# -- the lock ----------------------------------------------------------------------------------------------------


def _locked(folder: Path) -> FileLock:
    """The lock of a folder that is for this process alone, until `_release`, or until the process is gone.

    The operating system keeps the lock (flock): there is nothing to clean up after a ``kill -9``. It holds between
    machines where their shared file system carries flock, as NFS does and Lustre if mounted so. Where there is no
    flock at all, `filelock` makes do with a file that says who it belongs to.

    Raises:
        RunFolderError: another process has it, or nothing can be locked there.
    """
    lock = FileLock(folder / LOCK_FILE, timeout=SECONDS_TO_LOCK, thread_local=False)
    try:
        lock.acquire(poll_interval=0.02)
    except Timeout:
        raise _in_use(folder, user_of(folder) or "another process") from None
    except OSError as error:
        raise RunFolderError(f"{folder} cannot be locked: {error}", hint="choose another --out") from error
    with contextlib.suppress(OSError):
        (folder / USER_FILE).write_text(f"{os.getpid()} {socket.gethostname()}\n", encoding="utf-8")
    return lock


def _release(lock: FileLock, folder: Path) -> None:
    """Let others have it; safe to call twice. The files go while the lock is held: who comes next makes new ones,
    and who has opened the old one meanwhile finds out that it is gone."""
    if lock.is_locked:
        for name in (USER_FILE, LOCK_FILE):
            (folder / name).unlink(missing_ok=True)
        lock.release()


def _in_use(folder: Path, user: str) -> RunFolderError:
    return RunFolderError(f"{folder} is in use by {user}", hint="wait for it, or choose another --out")


def user_of(folder: Path) -> str | None:
    """The process that works on the run in `folder`, as "process 12", or "process 12 on node7" if it is on another
    machine; None if there is none. The lock is looked at, not taken."""
    try:
        lock = (folder / LOCK_FILE).open("rb")
    except OSError:
        return None
    with lock, contextlib.suppress(OSError):  # refused, or no flock here: then the file itself is the lock
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a shared one: several may look at once
        return None
    try:
        pid, host = (folder / USER_FILE).read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"


# -- files -------------------------------------------------------------------------------------------------------


class MetricsLog:
    """metrics.jsonl: one line per episode, each episode once and in order, also after a resume.

    Args:
        keep_bytes: on a resume, the length at the checkpoint; what a dead run wrote later is dropped.
        sha256: of these bytes; empty if an older version took the checkpoint.

    Raises:
        RunFolderError: these bytes are not there any more. A run without the rows of its past would be another.
    """

    def __init__(self, path: Path, *, keep_bytes: int = 0, sha256: str = "") -> None:
        kept = b""
        if keep_bytes:
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                kept = file.read(keep_bytes)
        self._path, self._digest = path, hashlib.sha256(kept)
        if fault := _fault_of_rows(kept, keep_bytes, sha256, self.sha256):
            raise RunFolderError(
                f"{path}: {fault}",
                hint=f"put a copy of it back, or train anew (--overwrite). The agent is whole: "
                f"{run_command('evaluate', path.parent)}",
            )
        self._file = path.open("ab")
        self._file.truncate(keep_bytes)

    @property
    def sha256(self) -> str:
        """Of everything written so far."""
        return self._digest.hexdigest()

    def write(self, row: Mapping[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace") + b"\n"
        with writing(self._path):
            self._file.write(line)
        self._digest.update(line)

    def position(self) -> int:
        """Bytes on disk after everything written so far."""
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        with writing(self._path):
            self._file.close()


def _fault_of_rows(kept: bytes, keep_bytes: int, sha256: str, found: str) -> str:
    if len(kept) < keep_bytes:
        return f"the checkpoint was taken after {keep_bytes} bytes of it, and there are {len(kept)}"
    if (sha256 and sha256 != found) or b"\0" in kept or not kept.endswith(b"\n" * bool(kept)):
        return f"its first {keep_bytes} bytes are not those that were there when the checkpoint was taken"
    return ""


class Recorders:
    """All recorders of a run, told as one. One that fails after it began is logged, and told no more.

    Args:
        recorders: (the component's name, the recorder).
    """

    def __init__(self, recorders: Sequence[tuple[str, Recorder]]) -> None:
        self._recorders = list(recorders)

    def begin(self, folder: Path, recipe: Mapping[str, Any], *, after: int) -> None:
        """As `cbrcore.interfaces.Recorder.begin`.

        Raises:
            CbrError: one of them cannot begin; it is named, and all are closed.
        """
        for name, recorder in self._recorders:
            try:
                recorder.begin(folder, recipe, after=after)
            except Exception as error:
                self.close()
                hint = getattr(error, "hint", None) or f"mend the settings of {name}, or take it out of the recipe"
                said = error.message if isinstance(error, CbrError) else f"{type(error).__name__}: {error}"
                raise CbrError(f"{name}: {said}", hint=hint) from error

    def write(self, row: Mapping[str, Any]) -> None:
        """A row of metrics.jsonl."""
        self._tell(lambda recorder: recorder.write(row))

    def finish(self, results: Mapping[str, Any]) -> None:
        """The run is done."""
        self._tell(lambda recorder: recorder.finish(results))

    def close(self) -> None:
        """Safe to call twice, and without `finish`."""
        self._tell(lambda recorder: recorder.close())

    def _tell(self, say: Callable[[Recorder], None]) -> None:
        for name, recorder in [*self._recorders]:
            try:
                say(recorder)
            except Exception as error:
                self._recorders.remove((name, recorder))
                log.warning("%s failed and records no more: %s: %s", name, type(error).__name__, error)
                with contextlib.suppress(Exception):
                    recorder.close()
