"""The run folder: what a run leaves behind for people and other tools (README, "The run folder")."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import logging
import os
import platform
import secrets
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import Recorder

log = logging.getLogger(__name__)

RECIPE_FILE = "recipe.yaml"
VERSIONS_FILE = "versions.json"
METRICS_FILE = "metrics.jsonl"
RESULTS_FILE = "results.json"
TIMING_FILE = "timing.json"
LOG_FILE = "run.log"
PROGRESS_FILE = "progress.json"
"""How far the run is; there as long as a process works on it (`cbrcore.console.RecordedProgress`)."""
LOCK_FILE = ".lock"
USER_FILE = ".lock.user"
"""Who holds the lock, for people. Whether somebody does, the lock alone knows."""
SECONDS_TO_LOCK = 0.5
"""A look at the lock (`user_of`) is over long before that; a run holds it longer."""
PACKAGES = ("torch", "torch-geometric", "transformers", "numpy", "textworld", "jericho", "pluggy", "pydantic")


class RunFolder:
    """One run's folder, locked by this process until `close`. Make one with `create` or `resume`."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path, self.checkpoints, self.memory = path, path / "checkpoints", path / "memory"
        self._lock = lock
        self._log_handler = logging.FileHandler(path / LOG_FILE, encoding="utf-8")
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
        if (path / RECIPE_FILE).exists():
            if not overwrite:
                _release(lock, path)
                hint = f"continue it with --resume {path}, or replace it with --overwrite"
                raise RunFolderError(f"{path} already holds a run", hint=hint)
            _clear(path)
        return cls(path, lock)

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """An existing run's folder.

        Raises:
            RunFolderError: it holds no run, or another process uses it.
        """
        stored_recipe(path)
        path = path.resolve()
        return cls(path, _locked(path))

    def close(self) -> None:
        """Release the lock and the log file; safe to call twice. A run that never began leaves no folder."""
        logging.getLogger().removeHandler(self._log_handler)
        self._log_handler.close()
        if self._lock.is_locked and not (self.path / RECIPE_FILE).exists():
            shutil.rmtree(self.path, ignore_errors=True)
        _release(self._lock, self.path)

    def write_text(self, name: str, text: str) -> None:
        """Write a file atomically: it is whole or it is the old one."""
        write_atomically(self.path / name, text)

    def write_json(self, name: str, data: Mapping[str, Any]) -> None:
        self.write_text(name, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def stored_recipe(folder: Path) -> Path:
    """The resolved recipe of a run; RunFolderError if the folder holds none."""
    path = folder / RECIPE_FILE
    if not path.is_file():
        raise RunFolderError(f"{folder} holds no run (no {RECIPE_FILE})", hint="give the folder of a run")
    return path


def holds_nothing(folder: Path) -> bool:
    """Whether a run may begin in `folder`: it is empty, or a run died there before it wrote down its recipe."""
    traces = (LOG_FILE, PROGRESS_FILE, LOCK_FILE, USER_FILE)
    return all(path.name in traces or path.name.startswith(f"{LOCK_FILE}.") for path in folder.iterdir())


def _refuse_other_things(path: Path) -> None:
    """RunFolderError if something lies at `path` that is neither a run nor free; nothing is written there."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, not a folder", hint="choose another --out")
    if path.is_dir() and not holds_nothing(path) and not (path / RECIPE_FILE).exists():
        if user := user_of(path):  # it has just begun
            raise _in_use(path, user)
        raise RunFolderError(f"{path} is not empty and holds no run", hint="choose another --out")


def _clear(folder: Path) -> None:
    """Remove all that is in a locked folder but the lock; what says that it is a run goes last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == RECIPE_FILE):
        if path.name in (LOCK_FILE, USER_FILE):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


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


def write_atomically(path: Path, text: str) -> None:
    """Write to a temporary name in the same folder, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """A JSON file of a run folder; RunFolderError if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read: {error}") from error


class MetricsLog:
    """metrics.jsonl: one line per episode, each episode once and in order, also after a resume.

    Args:
        keep_bytes: on a resume, the length at the checkpoint; what a dead run wrote later is dropped.
    """

    def __init__(self, path: Path, *, keep_bytes: int = 0) -> None:
        self._file = path.open("ab")
        self._file.truncate(keep_bytes)

    def write(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def position(self) -> int:
        """Bytes on disk after everything written so far."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._file.close()


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


# -- versions ----------------------------------------------------------------------------------------------------


def versions(device: str, plugins: dict[str, str]) -> dict[str, Any]:
    """What versions.json holds: enough to tell why two runs differ."""
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "plugins": plugins,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch_threads": torch.get_num_threads(),
        "git_commit": _git_commit(),
    }


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _git_commit() -> str | None:
    """The commit of this source tree, if it is one."""
    here = Path(__file__).parents[1]
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(here.parents[1])}
    words = ["git", "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(words, cwd=here, env=env, capture_output=True, text=True, timeout=5, check=False)
        return done.stdout.strip() or None
    return None
