"""The TWC environment [P §6.1]: splits of games, one of which is played at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from cbr_twc.compiling import story_file, textworld_version
from cbr_twc.config import TwcConfig
from cbr_twc.files import FOLDERS, GameFiles, benchmark_folder, find_games, refuse_doubles
from cbr_twc.interpreter import Engines, Interpreter
from cbr_twc.places import read_places
from cbr_twc.planner import solve
from cbr_twc.play import Play
from cbr_twc.reading import load_game
from cbrcore.errors import GameError, suggest
from cbrcore.interfaces import Build, Places
from cbrcore.types import Action, Observation, StepResult


class TwcEnvironment:
    """TextWorld Commonsense games of one level, or of all; those to train on may be of another.

    Splits: "train"; "in", whose objects come from the same pool as the training objects; "out", whose objects
    are new. Attributes:
        handicaps: what makes the task easier than the bare text game.
    """

    def __init__(self, config: TwcConfig, build: Build) -> None:
        self.config = config
        self.build = build
        dropped = ", ".join(sorted(set(config.drop_commands)))
        self.handicaps: Mapping[str, Any] = {
            "state_graph": f"ground truth, {'all facts' if config.graph == 'full' else 'partially observable'}",
            "commands": f"admissible without: {dropped}" if dropped else "full admissible list",
        }
        if config.levels("train") != config.levels("in"):
            self.handicaps = {**self.handicaps, "train_level": config.train_level}
        self._engines = Engines()
        self._splits: dict[str, list[GameFiles]] = {}
        self._plays: dict[str, Play] = {}
        self._playing: Play | None = None
        self._furniture: dict[str, frozenset[str]] = {}

    def __repr__(self) -> str:
        return f"TwcEnvironment({self.config.source}, {self.config.level})"

    def splits(self) -> tuple[str, ...]:
        return tuple(FOLDERS)

    def games(self, split: str) -> tuple[str, ...]:
        """Names of the split's games, sorted.

        Raises:
            GameError: there is no such split, or something is wrong with its games.
        """
        return tuple(game.name for game in self._files(split))

    def game_info(self, game: str) -> Mapping[str, Any]:
        """Content hashes, max score, optimal steps, numbers of objects and rooms, TextWorld's version.

        `sha256` is that of the .json. `sha256_z8` is None where the story file is compiled here: the compiler
        writes the date into it. `optimal_steps` is None for a game that the planner cannot solve.
        """
        files = self._find(game)
        given = None if files.made_here else files.z8
        description = load_game(files.json)
        try:
            steps = len(solve(description))
        except GameError:
            steps = None
        return {
            "sha256": files.sha256,
            "sha256_z8": given and hashlib.sha256(given.read_bytes()).hexdigest(),
            "max_score": description.max_score,
            "optimal_steps": steps,
            "objects": len(description.things),
            "rooms": len(description.rooms),
            "textworld": textworld_version(),
        }

    def content(self, game: str) -> str:
        """Equal for games that differ in name and metadata only."""
        return self._find(game).content

    def object_places(self, split: str) -> dict[str, frozenset[str]]:
        """The places where the split's games want each of their objects. For reports alone; no agent is told."""
        found: dict[str, set[str]] = {}
        for files in self._files(split):
            for goal in load_game(files.json).goals:
                found.setdefault(goal.thing, set()).update(goal.places)
        return {name: frozenset(places) for name, places in sorted(found.items())}

    def places(self, observation: Observation) -> Places:
        """The map that the observation's graph holds; of its game, which need not be played now, the kinds of the
        graph's entities are looked up. GameError: there is no such game.
        """
        game = observation.game
        if game not in self._furniture:
            rooms = load_game(self._find(game).json).furniture.values()
            self._furniture[game] = frozenset().union(*rooms)
        return read_places(observation.graph, self._furniture[game])

    def reset(self, game: str, seed: int) -> Observation:
        """Start `game` anew. Nothing in these games is random: every seed gives the same game."""
        if game not in self._plays:
            files = self._find(game)
            interpreter = Interpreter(lambda: story_file(files, self.build.cache_dir), self._engines)
            self._plays[game] = Play(load_game(files.json), interpreter, self.config)
        self._playing = self._plays[game]
        return self._playing.reset()

    def step(self, action: Action) -> StepResult:
        """Execute an action; commands that are not admissible are played too (the game says no).

        Raises:
            RuntimeError: no episode is running.
            GameError: the command is none of this game.
        """
        if self._playing is None:
            raise RuntimeError("no game was started: call reset() before step()")
        return self._playing.step(action.text)

    def close(self) -> None:
        """Close all engines; a later reset opens them again."""
        self._playing = None
        self._engines.close()

    def _files(self, split: str) -> list[GameFiles]:
        if split not in FOLDERS:
            raise GameError(f"TWC has no split {split!r}. {suggest(split, FOLDERS)}")
        if split not in self._splits:
            generate = self.config.source == "generate"
            found = self._generated[split] if generate else self._published(split)
            if split == "train" and self.config.houses:
                found = [*found, *self._houses()]
            self._refuse_namesakes(found)
            self._splits[split] = found
        return self._splits[split]

    def _refuse_namesakes(self, found: list[GameFiles]) -> None:
        """Games are told apart by name alone; the same game may be in two splits (to try things out)."""
        known = {files.name: files for split in self._splits.values() for files in split}
        for files in found:
            other = known.setdefault(files.name, files)
            if files.sha256 != other.sha256:
                raise GameError(
                    f"{files.json} and {other.json} are two games of one name",
                    hint="Rename one of them, with all its files.",
                )

    def _published(self, split: str) -> list[GameFiles]:
        folder = benchmark_folder(self.config, self.build.recipe_dir)
        levels = self.config.levels(split)
        games = [game for level in levels for game in find_games(folder / level / FOLDERS[split])]
        refuse_doubles(games)
        return sorted(games, key=lambda game: game.name)

    def _houses(self) -> list[GameFiles]:
        """The generated games that are trained on as well; from now on `handicaps` tells of them."""
        from cbr_twc.pool import houses

        others = [split for split in FOLDERS if split != "train" and self.config.leave_out is not None]
        measured = [files for split in others for files in self._files(split)]
        found, told = houses(self.config, self.build.cache_dir, measured)
        self.handicaps = {**self.handicaps, "houses": told}
        return found

    @cached_property
    def _generated(self) -> dict[str, list[GameFiles]]:
        from cbr_twc.generate import generated_games

        config = self.config
        levels = {split: config.levels(split) for split in FOLDERS}
        sets = {
            level: generated_games(level, config.games_per_split, config.generation_seed, self.build.cache_dir)
            for level in dict.fromkeys(chain.from_iterable(levels.values()))
        }
        return {
            split: [
                GameFiles(path.with_suffix(".json"), path, made_here=True)
                for level in levels[split]
                for path in sets[level][split]
            ]
            for split in FOLDERS
        }

    def _find(self, game: str) -> GameFiles:
        """The files of a game, by name, in any split."""
        names = []
        for split in FOLDERS:
            for files in self._files(split):
                if files.name == game:
                    return files
                names.append(files.name)
        raise GameError(f"no TWC game (level: {self.config.level}) is called {game!r}. {suggest(game, names)}")
