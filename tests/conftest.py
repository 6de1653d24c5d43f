"""Shared fixtures. Tests run on one torch thread, without network, and never write outside tmp_path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from slow_tests import is_slow

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"

GAMES = os.environ.pop("CBR_GAMES", "") or os.environ.get("CBR_GAMES_OF_TESTS", "")
"""Hidden from every test that does not ask for the games, so that a machine with them runs the others as one
without."""
os.environ["CBR_GAMES_OF_TESTS"] = GAMES  # for the processes that pytest-xdist starts

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=50, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "long", max_examples=10_000, deadline=None, database=None, print_blob=True, suppress_health_check=QUIET
)
settings.load_profile("quick")  # another one: pytest --hypothesis-profile=long tests/fuzz

pytest_plugins = ["plugin_fixtures", "taken_away"]
collect_ignore = ["third_party"]  # packages of others, whose tests run where they are installed


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is slow is marked so; what takes many minutes is not: it runs only when asked for."""
    for item in items:
        if is_slow(item.nodeid) and item.get_closest_marker("long") is None:
            item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """CBR_GAMES is set for those tests alone that ask for `games_dir`, themselves or through another fixture."""
    if GAMES and "games_dir" in getattr(item, "fixturenames", ()):
        os.environ["CBR_GAMES"] = GAMES
    else:
        os.environ.pop("CBR_GAMES", None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many kills of tests/test_crash.py were survived, also with ``-q`` and ``-n``."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    found = [value for report in reports for name, value in report.user_properties if name == "kills"]
    if found:
        survived, planned = (sum(column) for column in zip(*found, strict=True))
        terminalreporter.write_line(f"{survived} of {planned} kills: resumed to the bytes of a run never killed")


@pytest.fixture(scope="session")
def games_dir() -> Path:
    """The published games (CBR_GAMES). Skips without them, or fails where CBR_REQUIRE_GAMES=1."""
    value = GAMES
    if value and Path(value).is_dir():
        return Path(value).resolve()
    reason = "the published games are not here: set CBR_GAMES to the folder that holds twc/ and jericho/"
    if os.environ.get("CBR_REQUIRE_GAMES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that the whole test session shares: compiled games, encoded texts."""
    return tmp_path_factory.mktemp("cbr-cache")


@pytest.fixture(scope="module")
def cache_here(cache_dir: Path) -> Iterator[None]:
    """Runs that are opened in this process find the session's games."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBR_CACHE", str(cache_dir))
        yield


@pytest.fixture(scope="session")
def cbr(cache_dir: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own: ``cbr("run", recipe, env={...})``."""

    def call(
        *arguments: object, env: dict[str, str] | None = None, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cbrcore.cli", *map(str, arguments)],
            env={**os.environ, "CBR_CACHE": str(cache_dir), **(env or {})},
            capture_output=True,
            text=True,
            timeout=500,
            **settings,
        )

    return call


@dataclass(frozen=True)
class Done:
    """What a command left, as `subprocess.CompletedProcess` has it."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def here(cache_dir: Path) -> Callable[..., Done]:
    """Runs the command line in this process, as ``here("run", recipe)``: nothing is imported again."""
    from typer.testing import CliRunner

    from cbrcore.cli import app
    from cbrcore.errors import CbrError

    def call(*arguments: object, **settings: Any) -> Done:
        env = {"CBR_CACHE": str(cache_dir)}
        done = CliRunner().invoke(app, list(map(str, arguments)), env=env, prog_name="cbr", **settings)
        if isinstance(done.exception, CbrError):  # what `main` prints
            return Done(done.exception.exit_code, done.stdout, f"{done.stderr}error: {done.exception}\n")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    return call
