"""Helpers for the tests that play Jericho's games."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment, jericho
from cbrcore.interfaces import Build
from cbrcore.types import Action, Observation, StepResult, fill


def open_game(games_dir: Path, cache_dir: Path, game: str = "zork1", **settings: Any) -> JerichoEnvironment:
    """The environment with the published story files; use it in a ``with closing(...)``."""
    config = JerichoConfig(game=game, rom_dir=str(games_dir / "jericho"), **settings)
    return JerichoEnvironment(config, Build(cache_dir=cache_dir))


def players(games_dir: Path, cache_dir: Path, count: int, **settings: Any) -> list[JerichoEnvironment]:
    """Environments of one run at zork1, which remembers views."""
    build = Build(cache_dir=cache_dir)
    config = JerichoConfig(rom_dir=str(games_dir / "jericho"), cache_key="view", **settings)
    return [jericho(config, build) for _ in range(count)]


def play_in_step(environments: Sequence[JerichoEnvironment], seed: int, episodes: int) -> list[Observation]:
    """What players see who go in step, at random, until the episode of one ends."""
    rng, seen = random.Random(seed), []
    for _ in range(episodes):
        now, ended = [environment.reset("zork1", 0) for environment in environments], False
        seen += now
        while not ended:
            for environment, before in zip(environments, now, strict=True):
                environment.send(rng.choice(before.admissible))
            results = [environment.receive() for environment in environments]
            now = [result.observation for result in results]
            seen += now
            ended = any(result.ending is not None for result in results)
    return seen


def say(environment: JerichoEnvironment, text: str) -> StepResult:
    """Execute a command that may not be admissible."""
    return environment.step(Action(text, text))


def observations(played: Iterable[Observation | StepResult]) -> list[Observation]:
    return [item.observation if isinstance(item, StepResult) else item for item in played]


def texts(observation: Observation) -> list[str]:
    return [action.text for action in observation.admissible]


def check_contract(observation: Observation) -> None:
    """What holds for every observation of every game."""
    offered = observation.admissible
    assert texts(observation) == sorted({action.text for action in offered})
    assert offered
    for action in offered:
        assert action.text == fill(action.template, action.entities)
        assert action.seeds
        assert set(action.seeds) <= set(observation.graph.nodes)
    assert "you" in observation.graph.nodes
    for name in observation.graph.nodes:
        assert name == name.strip().lower()
        assert name
