"""A story that the project makes itself with TextWorld, so that everything runs without any story file.

Jericho reads score, moves and changes of TextWorld's stories as of its own titles, but has no templates for them.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_cache.sealed import is_whole, keep
from cbr_jericho.stories.check import Story, read_story, story_md5
from cbr_jericho.stories.plot import DIRECTIONS, REWARD_PUT, REWARD_TAKE, Plot, draw_plot
from cbrcore.errors import GameError
from cbrcore.rng import derive_seed, undisturbed_randomness

if TYPE_CHECKING:
    from textworld.generator import Game, GameMaker
    from textworld.generator.data import KnowledgeBase

log = logging.getLogger(__name__)

TEMPLATES = (
    *(f"go {direction}" for direction in DIRECTIONS),
    "open {}",
    "close {}",
    "take {}",
    "drop {}",
    "put {} on {}",
    "insert {} into {}",
)
"""TextWorld's own commands that can change the state of a story, with "{}" for each entity. "take {} from {}"
does no more than "take {}", and is left out: a template with two entities costs a test for each pair of names."""

PREFIX = "tw-"
"""Jericho takes a story for one of TextWorld's by its file name, and by nothing else."""

SERIAL = b"220425"
"""Stands in the header where Inform writes the day of compilation; a story is the same whenever it is made."""

BANNER = re.compile(r"(Rule for printing the banner text:\n)(?:\tsay .*\n)+")
"""TextWorld's logo; its '>' would be taken for the game's prompt."""

SEEDS = ("map", "objects", "quest", "grammar")
"""TextWorld's random sources; any that is left out would be drawn from a global generator."""

UNUSED_LOGIC = frozenset({"food.twl"})
"""Nothing can be eaten: a story stays winnable."""


def generated_story(seed: int, cache_dir: Path) -> Story:
    """A small treasure hunt, from `cache_dir` or made now (some seconds).

    The same seed gives the same file, byte for byte. Two or three rooms, two or three treasures in closed
    containers: 1 point for taking each, 2 points for bringing it where all belong; it cannot be lost.

    Args:
        seed: decides everything.
        cache_dir: stories are kept in its folder `jericho-generated`.

    Raises:
        GameError: no TextWorld, no working compiler, or no place to write.
    """
    path = story_path(seed, cache_dir)
    if not is_whole(path, _identity(seed)):
        _make(seed, path)
    content = read_story(path)
    return Story(path.stem, path, story_md5(content), content[0], generated=True, templates=TEMPLATES)


def story_path(seed: int, cache_dir: Path) -> Path:
    """Where the story of this seed is kept."""
    return cache_dir / "jericho-generated" / _makers_digest() / f"{PREFIX}treasure-{seed}.z8"


def _makers_digest() -> str:
    """Changes with this package's code and with TextWorld: old stories are then left alone."""
    try:
        digest = hashlib.sha256(version("textworld").encode())
    except PackageNotFoundError as error:
        raise GameError("TextWorld is not installed", hint="Type: pip install 'textworld>=1.7'") from error
    for module in ("generated.py", "plot.py"):
        digest.update(Path(__file__).with_name(module).read_bytes())
    return digest.hexdigest()[:12]


def _identity(seed: int) -> str:
    """What the content of a story depends on."""
    return f"{_makers_digest()} seed {seed}"


def _make(seed: int, path: Path) -> None:
    """Compile in a folder of our own, then rename: two processes that do this at once do no harm."""
    log.info("making the story %s (once) ...", path.stem)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as folder, undisturbed_randomness():
            fresh = Path(folder) / path.name
            _compile(_write_game(draw_plot(seed), seed), fresh)
            keep(fresh, path, _identity(seed))
    except OSError as error:
        hint = "Choose a cache folder (CBR_CACHE) that can be written to and has space."
        raise GameError(f"cannot write the generated story {path}: {error}", hint=hint) from error


def _write_game(plot: Plot, seed: int) -> Game:
    """The TextWorld game of a plot."""
    from textworld import GameMaker, GameOptions

    options = GameOptions()
    options.kb = _knowledge()
    options.seeds = {part: derive_seed(seed, f"jericho-generated/{part}") % 2**31 for part in SEEDS}
    options.grammar.theme = "basic"
    maker = GameMaker(options)
    entities = _place(maker, plot)
    maker.quests = _quests(maker, plot, entities)
    game = maker.build()
    names = [item.name for item in plot.treasures]
    where = {"c": "in", "s": "on"}[plot.goal.kind]
    game.objective = (
        f"The museum has lost its treasures: the {', the '.join(names[:-1])} and the {names[-1]}."
        f" Find them, and put each of them {where} the {plot.goal.name}."
    )
    return game


def _knowledge() -> KnowledgeBase:
    """TextWorld's own rules, read in a fixed order and wherever the process was started, less what is not used."""
    from textworld.generator.data import LOGIC_DATA_PATH, TEXT_GRAMMARS_PATH, KnowledgeBase
    from textworld.logic import GameLogic

    files = [path for path in sorted(Path(LOGIC_DATA_PATH).glob("*.twl")) if path.name not in UNUSED_LOGIC]
    text = "\n".join(path.read_text("utf-8") for path in files)
    return KnowledgeBase(GameLogic.deserialize(text), TEXT_GRAMMARS_PATH)


def _place(maker: GameMaker, plot: Plot) -> dict[str, Any]:
    """Put rooms, furniture, items and player into the world; name -> entity."""
    entities: dict[str, Any] = {room: maker.new_room(room) for room in plot.rooms}
    for (here, there), way in zip(pairwise(plot.rooms), plot.directions, strict=True):
        maker.connect(entities[here].exits[way], entities[there].exits[DIRECTIONS[way]])
    for piece in (*plot.furniture, plot.goal):
        entities[piece.name] = _new(maker, piece.kind, piece.name)
        entities[piece.room].add(entities[piece.name])
        if piece.kind == "c":
            entities[piece.name].add_property("closed")
    for item in plot.items:
        entities[item.name] = _new(maker, "o", item.name)
        entities[item.place].add(entities[item.name])
    maker.set_player(entities[plot.start])
    return entities


def _new(maker: GameMaker, kind: str, name: str) -> Any:
    entity = maker.new(kind, name)
    entity.infos.noun = name  # the room's description speaks of the noun
    return entity


def _quests(maker: GameMaker, plot: Plot, entities: dict[str, Any]) -> list[Any]:
    """Two for each treasure; each pays once."""
    from textworld.generator.game import Event, Quest

    relation = {"c": "in", "s": "on"}[plot.goal.kind]
    goals = [
        (points, maker.new_fact(name, entities[item.name], place))
        for item in plot.treasures
        for points, name, place in (
            (REWARD_TAKE, "in", maker.inventory),
            (REWARD_PUT, relation, entities[plot.goal.name]),
        )
    ]
    return [Quest(win_events=[Event(conditions=[fact])], reward=points, desc="") for points, fact in goals]


def _compile(game: Game, path: Path) -> None:
    """Write the story file `path`, with the work files beside it."""
    from textworld.generator import CouldNotCompileGameError
    from textworld.generator.inform7 import compile_inform7_game, generate_inform7_source

    source = BANNER.sub(r'\1\tsay "[objective][line break]".\n', generate_inform7_source(game))
    try:
        compile_inform7_game(source, str(path))
    except CouldNotCompileGameError as error:
        raise GameError(
            f"Inform refuses the generated story: {str(error)[-1500:]}", hint="Try another seed."
        ) from error
    except (FileNotFoundError, PermissionError) as error:
        hint = "It is part of TextWorld on Linux and macOS: unset INFORM_HOME, or reinstall TextWorld."
        raise GameError(f"cannot run the Inform compiler: {error}", hint=hint) from error
    with path.open("r+b") as file:  # the header's checksum does not cover the header
        file.seek(0x12)
        file.write(SERIAL)
