"""What the tests of the TWC environment share: games, random plays, and plain TextWorld to compare with."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbr_twc.files import FOLDERS
from cbrcore.interfaces import Build
from cbrcore.types import Action, Observation, StepResult

LEVELS = ("easy", "medium", "hard")
IDLE = ("look", "examine", "close")

DESK_AND_DESK_CHAIR = "tw-iqa-cleanup-objects7-take7-rooms1-train-DbQVhRbSZXBSZYV"
TOWEL_AND_TOWEL_RAIL = "tw-iqa-cleanup-objects3-take2-rooms1-train-y5o3f0af12OtKQa"
SCREEN_DOOR = "tw-iqa-cleanup-objects7-take5-rooms2-train-oEEOtZdKSPpLC3MO"
FOOD_AND_OBJECTS = "tw-iqa-cleanup-objects7-take7-rooms2-train-vN82FVkWTEKxh7Zk"


def published(games_dir: Path, level: str = "easy", **settings) -> TwcEnvironment:
    return TwcEnvironment(TwcConfig(games_dir=str(games_dir / "twc"), level=level, **settings), Build())


def json_files(games_dir: Path) -> list[Path]:
    return [
        path
        for level in LEVELS
        for split in FOLDERS.values()
        for path in sorted((games_dir / "twc" / level / split).glob("*.json"))
    ]


def level_of(path: Path) -> str:
    return path.parent.parent.name


def choose(observation: Observation, rng: random.Random, idle: float = 0.3) -> Action:
    """A random action; looking, examining and closing only now and then, so that more happens."""
    busy = [action for action in observation.admissible if not action.text.startswith(IDLE)]
    return rng.choice(busy if busy and rng.random() > idle else observation.admissible)


def play_at_random(
    environment: TwcEnvironment, game: str, rng: random.Random
) -> Iterator[tuple[Observation, Action, StepResult]]:
    """(observation, action, result) until the episode ends."""
    observation, ending = environment.reset(game, 0), None
    while ending is None:
        action = choose(observation, rng)
        result = environment.step(action)
        yield observation, action, result
        observation, ending = result.observation, result.ending


class TextWorld:
    """Plain TextWorld, asked for all that we claim to know."""

    def __init__(self, story: Path) -> None:
        import textworld

        wanted = (
            "feedback",
            "description",
            "inventory",
            "admissible_commands",
            "score",
            "max_score",
            "won",
            "lost",
        )
        self.env = textworld.start(str(story), textworld.EnvInfos(**dict.fromkeys(wanted, True)))
        self.state = self.env.reset()
        self.done = False

    def step(self, command: str) -> None:
        """`command` in lower case; TextWorld gets its own spelling."""
        own = {text.lower(): text for text in self.state.admissible_commands}
        self.state, _, self.done = self.env.step(own.get(command, command))

    def close(self) -> None:
        self.env.close()


def plain(feedback: str) -> str:
    """A feedback without banner, prompt and status line; TextWorld's tags leave some more blank lines."""
    text = re.sub(r"\n> +-= .*", "", feedback.split("$$$$$$$")[-1])
    return re.sub(r"\n\n+", "\n\n", text).strip()


def edit_json(path: Path, change) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
