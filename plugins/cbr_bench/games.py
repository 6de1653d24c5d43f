"""Jericho's games: what remembering valid actions is worth, and what the explorer costs beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cbr_bench.children import NOT_MEASURED, trained
from cbr_bench.figures import Figure
from cbr_bench.measures import Setting

SIX = ("zork1", "zork3", "detective", "pentari", "inhumane", "zenon")
STEPS = 1000
RECIPE = "explorer_jericho.yaml"


def view(setting: Setting) -> Iterator[Figure]:
    """The explorer's first steps of six games, nothing cached: valid actions remembered by view, against a search
    in each state that is not precisely known; and the geometric mean of the six."""
    steps, games = (200, SIX[:2]) if setting.quick else (STEPS, SIX)
    ratios = []
    for game in games:
        rates = {}
        for key in ("view", "state"):
            folder = setting.folder / f"{game}-{key}"
            settings = f"environment.game={game}", f"environment.cache_key={key}", f"run.env_steps={steps}"
            found = trained(RECIPE, folder, *settings, NOT_MEASURED, cache=folder.with_suffix(".cache"))
            rates[key] = found["steps_per_second"]
        ratios.append(rates["view"] / rates["state"])
        yield Figure(f"{game}, cache_key: view", rates["view"], "steps/s", "cache_key: state", rates["state"])
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    yield Figure(f"mean of {len(games)} games, cache_key: view", mean, "times cache_key: state")


def explorer(setting: Setting) -> Iterator[Figure]:
    """zork1, nothing cached: steps a second of what is not the environment, against all of it."""
    steps = f"run.env_steps={500 if setting.quick else 5000}"
    found = trained(RECIPE, setting.folder / "run", steps, NOT_MEASURED, cache=setting.folder / "cache")
    own = found["seconds"] * (1 - found["shares"]["environment"])
    whole = found["steps_per_second"]
    yield Figure(
        "explorer on zork1, besides the environment", found["env_steps"] / own, "steps/s", "all of it", whole
    )
