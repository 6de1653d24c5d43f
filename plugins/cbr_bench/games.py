"""Jericho's games: what remembered valid actions and a tuned interpreter are worth; what the explorer costs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cbr_bench.children import NOT_MEASURED, trained
from cbr_bench.figures import Figure
from cbr_bench.measures import Setting

SIX = ("zork1", "zork3", "detective", "pentari", "inhumane", "zenon")
RECIPE = "explorer_jericho.yaml"


def view(setting: Setting) -> Iterator[Figure]:
    """Valid actions remembered by view, against a search in each state that is not precisely known."""
    yield from _against(setting, "cache_key", "view", "state", steps=5000)


def interpreter(setting: Setting) -> Iterator[Figure]:
    """A search in each state by the interpreter that ``cbr games tune`` made, against the installed one."""
    yield from _against(setting, "interpreter", "tuned", "installed", steps=200, cache_key="state")


def _against(
    setting: Setting, what: str, one: str, other: str, *, steps: int, **settings: str
) -> Iterator[Figure]:
    """Steps a second of the explorer's first steps of six games, nothing cached, with one value of a setting and
    with the other; and the geometric mean of the ratios."""
    steps, games = (min(steps, 200), SIX[:2]) if setting.quick else (steps, SIX)
    ratios = []
    for game in games:
        rates = []
        for value in (one, other):
            folder = setting.folder / f"{game}-{value}"
            chosen = {"game": game, **settings, what: value}
            given = [f"environment.{name}={each}" for name, each in chosen.items()]
            cache = folder.with_suffix(".cache")
            found = trained(RECIPE, folder, *given, f"run.env_steps={steps}", NOT_MEASURED, cache=cache)
            rates.append(found["steps_per_second"])
        ratios.append(rates[0] / rates[1])
        yield Figure(f"{game}, {what}: {one}", rates[0], "steps/s", f"{what}: {other}", rates[1])
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    yield Figure(f"mean of {len(games)} games, {what}: {one}", mean, f"times {what}: {other}")


def explorer(setting: Setting) -> Iterator[Figure]:
    """zork1, nothing cached: steps a second of what is not the environment, against all of it."""
    steps = f"run.env_steps={500 if setting.quick else 5000}"
    found = trained(RECIPE, setting.folder / "run", steps, NOT_MEASURED, cache=setting.folder / "cache")
    own = found["seconds"] * (1 - found["shares"]["environment"])
    whole = found["steps_per_second"]
    yield Figure(
        "explorer on zork1, besides the environment", found["env_steps"] / own, "steps/s", "all of it", whole
    )
