"""House-cleaning games in the manner of TextWorld Commonsense [P §6.1], made on the spot: no download needed.

`house.yaml` says where things belong; `plan` and `draw` decide what stands where in each game; `build` writes the
games with TextWorld and its Inform compiler; `cache` keeps complete sets.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from cbr_twc.generate.build import build_game, compile_game
from cbr_twc.generate.cache import GameSet, new_set, one_builder, publish, read_set, write_manifest
from cbr_twc.generate.draw import GamePlan
from cbr_twc.generate.house import House, load_house
from cbr_twc.generate.plan import SHAPES, plan_games, plan_houses
from cbrcore.errors import GameError, suggest
from cbrcore.rng import undisturbed_randomness

if TYPE_CHECKING:
    from textworld.generator import Game

__all__ = ["generated_games", "generated_houses", "objects"]

log = logging.getLogger(__name__)

Planner = Callable[[House], Mapping[str, list[GamePlan]]]
"""Decides what stands where: split -> its games."""

COMPILERS = 2
"""Inform compilers at work at once, each a process of its own on one core."""


def generated_games(level: str, games_per_split: int, seed: int, cache_dir: Path) -> GameSet:
    """Compiled games of one level, from `cache_dir` or made now (about a second each).

    The same arguments give the same games, whatever else the process or another one does. Base objects (a hoodie,
    clean, dirty or wet) are split by `seed`: "train" and "in" share two thirds of them, "out" has the others, and
    all splits share the furniture.

    Args:
        level: "easy", "medium" or "hard", with as many rooms and objects as the published games of that level.
        games_per_split: how many games each split gets; the published sets have 5.
        seed: decides the split and the games.
        cache_dir: sets are kept in its folder `twc-generated`, one complete folder each.

    Returns:
        "train", "in", "out" -> paths of `.z8` files, each with its `.json` (and Inform source, `.ni`) beside it.

    Raises:
        GameError: unknown level, no games asked for, no TextWorld, no working compiler, or no place to write.
    """
    _check(level, games_per_split, "games_per_split", "game per split")
    name = f"{level}-{games_per_split}-seed{seed}"
    return _kept(cache_dir, name, level, seed, lambda house: plan_games(house, level, games_per_split, seed))


def generated_houses(
    level: str,
    count: int,
    seed: int,
    cache_dir: Path,
    left_out: frozenset[str] = frozenset(),
    after: Sequence[str] = (),
) -> list[Path]:
    """Compiled games to train on beside others, of the sizes of the level's training games; see `generated_games`.

    All base objects occur but those that are `left_out`; none comes again while there are others that were in no
    game before, as many games of each level in `after` included. The first games are the same for every `count` if
    there is no such level.

    Raises:
        GameError: as `generated_games`, or too few objects are left.
    """
    _check(level, count, "houses", "house per level")
    apart = hashlib.sha256("\n".join(sorted(left_out)).encode()).hexdigest()[:12]
    name = "-".join(["houses", *after, level, str(count), f"seed{seed}", "without", apart])
    kept = _kept(
        cache_dir, name, level, seed, lambda house: plan_houses(house, level, count, seed, left_out, after)
    )
    return kept["train"]


def objects() -> tuple[str, ...]:
    """The base objects that there are, without their states."""
    return load_house().bases


def _check(level: str, count: int, setting: str, what: str) -> None:
    if level not in SHAPES:
        raise GameError(f"there is no level {level!r}", hint=suggest(level, SHAPES))
    if count < 1:
        raise GameError(f"{setting} is {count}", hint=f"Ask for at least 1 {what}.")


def _kept(cache_dir: Path, name: str, level: str, seed: int, plan: Planner) -> GameSet:
    """The set of this name, from the cache or made now."""
    folder = cache_dir / "twc-generated" / f"{name}-{_generator_digest()}"
    ready = read_set(folder)
    if ready is not None:
        return ready
    try:
        with one_builder(folder):
            return read_set(folder) or _make_set(folder, level, seed, plan)
    except OSError as error:
        hint = "Choose a cache folder that can be written to and has space."
        raise GameError(f"cannot write generated games to {folder.parent}: {error}", hint=hint) from error


def _generator_digest() -> str:
    """Changes with the house, with this package's code and with TextWorld: old sets are then left alone."""
    try:
        digest = hashlib.sha256(version("textworld").encode())
    except PackageNotFoundError as error:
        raise GameError("TextWorld is not installed", hint="Type: pip install 'textworld>=1.7'") from error
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.glob("*.yaml")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _make_set(folder: Path, level: str, seed: int, plan: Planner) -> GameSet:
    if os.path.lexists(folder):
        log.warning("the generated games in %s are damaged: they are made anew", folder)
    plans = plan(load_house())
    with undisturbed_randomness():
        games = _build_all(plans, level, seed)
    with new_set(folder) as fresh:
        _compile_all({fresh / name: game for members in games.values() for name, game in members.items()})
        write_manifest(fresh, folder, {split: list(members) for split, members in games.items()})
        publish(fresh, folder)
    return {split: [folder / name for name in members] for split, members in games.items()}


def _build_all(plans: Mapping[str, list[GamePlan]], level: str, seed: int) -> dict[str, dict[str, Game]]:
    """Split -> file (relative, `.z8`) -> game; the names sort in the order of the games."""
    games: dict[str, dict[str, Game]] = {split: {} for split in plans}
    for split, members in plans.items():
        for index, plan in enumerate(members):
            size = {"objects": len(plan.objects), "take": plan.take, "rooms": len(plan.rooms)}
            words = "-".join(f"{part}{count}" for part, count in size.items())
            name = f"house-{split}-{index:02d}-{words}-{plan.digest}"
            game = build_game(plan, name, {"level": level, "split": split, "seed": seed, **size})
            games[split][f"{split}/{name}.z8"] = game
    return games


def _compile_all(games: Mapping[Path, Game]) -> None:
    """Compile each game to its path; the first failure stops the rest."""
    with ThreadPoolExecutor(COMPILERS) as executor:
        futures = [executor.submit(compile_game, game, path) for path, game in games.items()]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                log.info("compiled %d/%d %s", done, len(futures), future.result().stem)
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
