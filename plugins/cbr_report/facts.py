"""What must be equal in runs for their numbers to stand beside each other: the one place where that is decided.

The training's length, the environment's settings and the uniform random agent are decided in `comparable`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cbr_sweep.finished import lacks

Plain = Mapping[str, Any]
UNKNOWN = "unknown"
HASH = re.compile(r"sha|md5|hash|digest", re.IGNORECASE)
"""In the name of a fact: it tells the game's content. Without any, all that is known of a game does."""
SCALE = ("max_score", "initial_score")
OF_A_RUN = ("seed",)
"""What a game's facts tell of the run."""


def game_contents(results: Plain) -> dict[str, str]:
    """ "split/game" -> what tells it from other games of that name; empty where the results do not say."""
    return {
        f"{split}/{game}": ", ".join(f"{name} {value}" for name, value in _content(facts))
        for split, games in sorted(mapping_at(results, "protocol", "games").items())
        for game, facts in sorted(games.items())
    }


def _content(facts: Plain) -> Iterator[tuple[str, Any]]:
    hashed = any(HASH.search(name) for name in facts)
    for name, value in sorted(facts.items()):
        told = HASH.search(name) or name in SCALE if hashed else name not in OF_A_RUN
        if told and value is not None:
            yield name, value


def games_digest(results: Plain) -> str:
    """Equal for runs of the same games."""
    games = {
        f"{split}/{game}": list(_content(facts))
        for split, found in mapping_at(results, "protocol", "games").items()
        for game, facts in found.items()
    }
    return (
        hashlib.sha256(repr(sorted(games.items())).encode("utf-8", "replace")).hexdigest()[:6]
        if games
        else UNKNOWN
    )


def measured_alike(recipe: Plain, results: Plain, versions: Plain) -> dict[str, str]:
    """What is asked -> the answer, in words: how the numbers of one run came about."""
    protocol, evaluation = mapping_at(results, "protocol"), mapping_at(results, "evaluation")
    modes = dict.fromkeys(str(found["mode"]) for found in evaluation.values() if "mode" in found)
    return {
        "evaluated splits": ", ".join(sorted(evaluation)) or "none",
        "evaluation passes": str(protocol.get("evaluation_passes", UNKNOWN)),
        "actions": ", ".join(modes) or UNKNOWN,
        "environment": ", ".join(_versions(recipe, results, versions)) or UNKNOWN,
        "training": "to the end" if (short := stopped(recipe, results)) is None else f"stopped after {short}",
        "schema of results.json": str(results.get("schema", UNKNOWN)),
    }


def _versions(recipe: Plain, results: Plain, versions: Plain) -> Iterator[str]:
    """Of the environment: its plugin's, and those that the games' facts tell, as texts that are no hashes."""
    plugin = str(mapping_at(recipe, "environment").get("use", "")).partition("/")[0]
    yield str(mapping_at(versions, "plugins").get(plugin, f"{plugin} {UNKNOWN}"))
    found: dict[str, dict[str, None]] = {}
    for games in mapping_at(results, "protocol", "games").values():
        for facts in games.values():
            hashed = any(HASH.search(name) for name in facts)
            for name, value in facts.items():
                if hashed and isinstance(value, str) and not HASH.search(name) and name not in OF_A_RUN:
                    found.setdefault(name, {})[value] = None
    yield from (f"{name} {' / '.join(sorted(values))}" for name, values in sorted(found.items()))


def stopped(recipe: Plain, results: Plain) -> str | None:
    """How far it came, if the run was measured before its training was over ("3 of 10 game plays")."""
    run = mapping_at(recipe, "run")
    with suppress(LookupError, TypeError, AttributeError):
        return lacks(results, run.get("episodes"), run.get("env_steps"))
    return None


def handicaps(results: Plain) -> dict[str, str]:
    """What makes the task easier than the bare text game."""
    return {str(name): str(value) for name, value in mapping_at(results, "protocol", "handicaps").items()}


def protocol_of(results: Plain) -> str:
    """ "P1" or "P2"; what an older run does not say is P1."""
    return handicaps(results).get("protocol", "P1").partition(":")[0]


def mapping_at(data: Any, *keys: str) -> Plain:
    """The mapping at these keys; an empty one where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}
