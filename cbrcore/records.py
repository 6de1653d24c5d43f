"""The run folder: what a run leaves behind for people and other tools (README, "The run folder")."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import Recorder

log = logging.getLogger(__name__)

RECIPE_FILE = "recipe.yaml"
VERSIONS_FILE = "versions.json"
METRICS_FILE = "metrics.jsonl"
RESULTS_FILE = "results.json"
TIMING_FILE = "timing.json"
LOG_FILE = "run.log"
LOCK_FILE = ".lock"


class RunFolder:
    """One run's folder, locked by this process until `close`.

    Make one with `create` or `resume`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock()
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
        path = (out or Path("runs") / _unique(name)).resolve()
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file, not a folder", hint="choose another --out")
        if path.is_dir() and not holds_nothing(path):
            _refuse_live(path)
            if not (path / RECIPE_FILE).exists():
                raise RunFolderError(f"{path} is not empty and holds no run", hint="choose another --out")
            if not overwrite:
                raise RunFolderError(
                    f"{path} already holds a run",
                    hint=f"continue it with --resume {path}, or replace it with --overwrite",
                )
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """An existing run's folder."""
        stored_recipe(path)
        path = path.resolve()
        _refuse_live(path)
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def memory(self) -> Path:
        return self.path / "memory"

    def close(self) -> None:
        """Release the lock and the log file; safe to call twice. A run that never began leaves no folder."""
        logging.getLogger().removeHandler(self._log_handler)
        self._log_handler.close()
        (self.path / LOCK_FILE).unlink(missing_ok=True)
        if not (self.path / RECIPE_FILE).exists():
            shutil.rmtree(self.path, ignore_errors=True)

    def write_text(self, name: str, text: str) -> None:
        """Write a file atomically: it is whole or it is the old one."""
        write_atomically(self.path / name, text)

    def write_json(self, name: str, data: Mapping[str, Any]) -> None:
        self.write_text(name, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def _lock(self) -> None:
        """Linking a complete file makes the lock appear at once with its content; the second one fails."""
        lock = self.path / LOCK_FILE
        mine = self.path / f"{LOCK_FILE}.{os.getpid()}"
        mine.write_text(_signature(os.getpid()))
        try:
            _refuse_live(self.path)
            _remove_stale(lock)
            os.link(mine, lock)
        except FileExistsError as error:
            raise RunFolderError(f"{self.path} was taken by another process just now") from error
        finally:
            mine.unlink(missing_ok=True)


class MetricsLog:
    """metrics.jsonl: one line per episode, each episode once and in order, also after a resume.

    Args:
        path: the file.
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

    def __repr__(self) -> str:
        return f"Recorders({[name for name, _ in self._recorders]})"

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
        for named in [*self._recorders]:
            name, recorder = named
            try:
                say(recorder)
            except Exception as error:
                self._recorders.remove(named)
                log.warning("%s failed and records no more: %s: %s", name, type(error).__name__, error)
                with contextlib.suppress(Exception):
                    recorder.close()


class TensorBoardLog:
    """The numbers of metrics.jsonl as TensorBoard scalars; does nothing where tensorboard is not installed."""

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            log.info("no TensorBoard files: pip install 'cbr-textrl[tensorboard]'")
            self._writer = None
            return
        self._writer = SummaryWriter(str(folder), purge_step=purge_step)

    def write(self, row: Mapping[str, Any]) -> None:
        """Scalars of one metrics row at its episode number."""
        if self._writer is None:
            return
        for name, value in row.items():
            if isinstance(value, int | float) and name != "episode":
                self._writer.add_scalar(name, value, row["episode"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def stored_recipe(folder: Path) -> Path:
    """The resolved recipe of a run; RunFolderError if the folder holds none."""
    path = folder / RECIPE_FILE
    if not path.is_file():
        raise RunFolderError(f"{folder} holds no run (no {RECIPE_FILE})", hint="give the folder of a run")
    return path


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


def _unique(name: str) -> str:
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"{name}-{now}-{secrets.token_hex(3)}"


def holds_nothing(folder: Path) -> bool:
    """Whether a run may begin in `folder`: it is empty, or a run died there before it wrote down its recipe."""
    return all(path.name == LOG_FILE or path.name.startswith(LOCK_FILE) for path in folder.iterdir())


def user_of(folder: Path) -> str | None:
    """The process that works on the run in `folder` ("process 12"); None if there is none, or it is gone.

    A process on another machine cannot be asked; it is taken to be alive.
    """
    try:
        return _alive((folder / LOCK_FILE).read_text())
    except OSError:
        return None


def _refuse_live(path: Path) -> None:
    """RunFolderError if a living process holds the folder's lock."""
    user = user_of(path)
    if user is None:
        return
    elsewhere = f", or remove {path / LOCK_FILE} if it is gone" if " on " in user else ""
    raise RunFolderError(f"{path} is in use by {user}", hint=f"wait for it{elsewhere}, or choose another --out")


def _signature(pid: int) -> str:
    """What a lock says: process, machine, start time (the number of a dead process may be given to another)."""
    return f"{pid} {socket.gethostname()} {_start_time(pid)}"


def _alive(signature: str) -> str | None:
    """Whose signature it is; None if that process is gone."""
    number, host, started = [*signature.split(), "", "", ""][:3]
    if not number.isdigit():
        return None
    if host not in ("", socket.gethostname()):
        return f"process {number} on {host}"
    gone = not _exists(int(number)) or started not in ("", _start_time(int(number)))
    return None if gone else f"process {number}"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # it is somebody else's
        return True
    except (OSError, OverflowError):
        return False
    return True


def _start_time(pid: int) -> str:
    """In the clock ticks of /proc; nothing where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _remove_stale(lock: Path) -> None:
    """Remove the lock of a dead process. Of several processes that try, each renames what it found; who finds that
    another one has locked the folder meanwhile puts that lock back."""
    found = lock.with_name(f"{LOCK_FILE}.{os.getpid()}.old")
    try:
        lock.rename(found)
    except FileNotFoundError:
        return
    if _alive(found.read_text()) is not None:
        with contextlib.suppress(FileExistsError):
            os.link(found, lock)
    found.unlink()
