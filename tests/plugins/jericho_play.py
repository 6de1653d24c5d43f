"""Helpers for the tests that play Jericho's games."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbrcore.interfaces import Build
from cbrcore.types import Action, Observation, StepResult, fill


def open_game(games_dir: Path, cache_dir: Path, game: str = "zork1", **settings: Any) -> JerichoEnvironment:
    """The environment with the published story files; use it in a ``with closing(...)``."""
    config = JerichoConfig(game=game, rom_dir=str(games_dir / "jericho"), **settings)
    return JerichoEnvironment(config, Build(cache_dir=cache_dir))


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
