"""A planned game made real: TextWorld's world and text, then the Inform compiler that TextWorld ships."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_twc.generate.draw import GamePlan
from cbrcore.errors import GameError
from cbrcore.rng import derive_seed

if TYPE_CHECKING:
    from textworld.generator import Game, GameMaker
    from textworld.generator.data import KnowledgeBase

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
INTRODUCTION = "Welcome! This house is in a mess, and it is up to you to tidy it."
GOAL = "Find the things that are out of place, and put each of them where it belongs."

SEEDS = ("map", "objects", "quest", "grammar")
"""TextWorld's random sources; any that is left out would be drawn from a global generator."""

UNUSED_LOGIC = frozenset({"food.twl"})
"""Nothing can be eaten, as in the published games: a game must stay winnable."""

INVENTORY_RULE = re.compile(r"^\s*inventory ::.*\n", re.MULTILINE)
"""The published games never list `inventory` among the admissible commands."""


def build_game(plan: GamePlan, name: str, config: dict[str, Any]) -> Game:
    """The TextWorld game of a plan, with the quests and metadata that the published games have.

    Args:
        plan: what stands where.
        name: the game's file name and `uuid`.
        config: kept in the metadata; its "seed" also decides the wording.
    """
    from textworld import GameMaker, GameOptions

    options = GameOptions()
    options.kb = _knowledge()
    options.seeds = {part: derive_seed(config["seed"], f"{name}/{part}") % 2**31 for part in SEEDS}
    maker = GameMaker(options)
    entities = _place(maker, plan)
    maker.quests = [_quest(maker, entities, thing.name, thing.goals) for thing in plan.objects]
    game = maker.build()
    game.grammar = None  # its options list names in hash order; the published games keep none either
    game.kb.text_grammars_path = ""  # a path of this machine
    game.objective = f"{INTRODUCTION} {GOAL}"
    game.metadata = {
        "seeds": options.seeds,
        "config": config,
        "entities": list(entities),
        "max_score": len(plan.objects),
        "goal": GOAL,
        "goal_locations": plan.goal_locations,
        "uuid": name,
    }
    return game


def _knowledge() -> KnowledgeBase:
    """TextWorld's own rules, read in a fixed order and wherever the process was started, less what is not used."""
    from textworld.generator.data import LOGIC_DATA_PATH, TEXT_GRAMMARS_PATH, KnowledgeBase
    from textworld.logic import GameLogic

    files = [path for path in sorted(Path(LOGIC_DATA_PATH).glob("*.twl")) if path.name not in UNUSED_LOGIC]
    text = "\n".join(INVENTORY_RULE.sub("", path.read_text("utf-8")) for path in files)
    return KnowledgeBase(GameLogic.deserialize(text), TEXT_GRAMMARS_PATH)


def _place(maker: GameMaker, plan: GamePlan) -> dict[str, Any]:
    """Put the plan's rooms, holders, objects and player into the world; name -> entity."""
    entities: dict[str, Any] = {room: maker.new_room(room) for room in plan.rooms}
    if plan.direction is not None:
        first, second = (entities[room] for room in plan.rooms)
        path = maker.connect(first.exits[plan.direction], second.exits[OPPOSITE[plan.direction]])
        if plan.door is not None:
            entities[plan.door] = maker.new_door(path, plan.door)
            entities[plan.door].add_property("open")
    for holder in plan.holders:
        entities[holder.name] = _new(maker, holder.kind, holder.name)
        entities[holder.room].add(entities[holder.name])
        if holder.kind == "c":
            entities[holder.name].add_property("open")
    for thing in plan.objects:
        entities[thing.name] = _new(maker, "o", thing.name)
        spot = maker.inventory if thing.start is None else entities[thing.start]
        spot.add(entities[thing.name])
    maker.set_player(entities[plan.player])
    return entities


def _new(maker: GameMaker, kind: str, name: str) -> Any:
    entity = maker.new(kind, name)
    entity.infos.noun = name  # the room's description speaks of the noun
    return entity


def _quest(maker: GameMaker, entities: dict[str, Any], thing: str, goals: tuple[str, ...]) -> Any:
    """One point for having the thing on or in any of its right holders; it cannot be failed."""
    from textworld.generator.game import Event, Quest

    relation = {"s": "on", "c": "in"}
    facts = [maker.new_fact(relation[entities[goal].type], entities[thing], entities[goal]) for goal in goals]
    return Quest(win_events=[Event(conditions=[fact]) for fact in facts], reward=1, desc="")


def compile_game(game: Game, path: Path) -> Path:
    """Write `path` (.z8) with its .json and its Inform source (.ni) beside it; returns `path`.

    Raises:
        GameError: the Inform compiler cannot be run or refuses the game.
        OSError: the files cannot be written.
    """
    from textworld import GameOptions
    from textworld.generator import CouldNotCompileGameError
    from textworld.generator import compile_game as compile_with_inform

    options = GameOptions()
    options.path = str(path)
    options.force_recompile = True
    try:
        compile_with_inform(game, options)
    except CouldNotCompileGameError as error:
        hint = "A name in house.yaml that Inform cannot use, or very many objects, can be the cause."
        raise GameError(f"Inform refuses the game {path.stem}: {str(error)[-1500:]}", hint=hint) from error
    except (FileNotFoundError, PermissionError) as error:
        hint = "It is part of TextWorld on Linux and macOS: unset INFORM_HOME, or reinstall TextWorld."
        raise GameError(f"cannot run the Inform compiler: {error}", hint=hint) from error
    return path
