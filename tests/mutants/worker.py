"""A process that asks test files about one mutant after the other: it imports the libraries once, and forks.

It works in a copy of the repository, its working folder. Requests and answers are lines of JSON::

    {"path": "plugins/...", "code": "...", "files": ["tests/..."], "limit": 60.0}     path "" for the plain code
    {"outcome": "survived" | "killed" | "timeout", "seconds": 3.2, "output": "the end of what pytest said"}
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIBRARIES = (
    "numpy", "torch", "torch.optim", "safetensors.torch", "torch_geometric.nn", "pydantic",
    "yaml", "pluggy", "packaging", "filelock", "typer", "typer.testing",
    "rich.console", "jinja2", "networkx", "sklearn.cluster", "pytest", "hypothesis",
    "hypothesis.strategies",
)  # fmt: skip
PASSED, FAILED = 0, 1
RUNNING: list[int] = []
"""The process that runs tests, if there is one."""


def serve() -> None:
    """Answer until there are no more requests."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        answers.write(json.dumps(_answer(**json.loads(line))) + "\n")
        answers.flush()


def _answer(path: str, code: str, files: list[str], limit: float) -> dict[str, Any]:
    with _mutated(path, code), tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        outcome = _tested(files, limit, output)
        output.seek(0)
        said = output.read().decode(errors="replace")[-2000:]
    return {"outcome": outcome, "seconds": time.perf_counter() - started, "output": said}


@contextlib.contextmanager
def _mutated(path: str, code: str) -> Iterator[None]:
    if not path:
        yield
        return
    plain = Path(path).read_text(encoding="utf-8")
    try:
        Path(path).write_text(code, encoding="utf-8")
        yield
    finally:
        Path(path).write_text(plain, encoding="utf-8")


def _tested(files: list[str], limit: float, output: Any) -> str:
    child = os.fork()
    if child == 0:
        _child(files, output.fileno())
    RUNNING.append(child)
    try:
        code = _waited(child, limit)
    finally:
        RUNNING.clear()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started, too
    if code is None:
        os.waitpid(child, 0)
        return "timeout"
    return "survived" if code == PASSED else "killed"


def _waited(child: int, limit: float) -> int | None:
    """Its exit status; None if it did not end in time."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    return None


def _child(files: list[str], output: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = FAILED
    try:
        import pytest

        _plain_hypothesis()
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not long and not crash"]
        options += ["--basetemp", os.environ["MUTANTS_TMP"]]
        code = pytest.main([*options, *files])
    finally:
        sys.stdout.flush()
        os._exit(int(code))


def _plain_hypothesis() -> None:
    """The same examples for every mutant, and no search for the smallest one."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", database=None, derandomize=True, deadline=None, phases=phases)
    settings.load_profile("mutants")


def _leave(*_: object) -> None:
    """At once, whatever runs: an exception might be raised where it is ignored. The copy is thrown away."""
    for child in RUNNING:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    with contextlib.suppress(KeyboardInterrupt):
        serve()
