"""The Jericho environment [P §6.3]: one game, which is at once the training game and the measure."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cbr_isolate.files import named_path
from cbr_isolate.protocol import Message
from cbr_jericho.config import LARGEST_SEED, JerichoConfig
from cbr_jericho.graphs import SceneReader, TextScenes, TreeScenes
from cbr_jericho.interpreter import tuned_interpreter
from cbr_jericho.places import read_places
from cbr_jericho.play import Play
from cbr_jericho.stories import Story, check_story_file, find_story, generated_story
from cbr_jericho.stories.check import read_story, story_md5
from cbr_jericho.stories.titles import titles_by_md5
from cbr_jericho.supervisor import Supervisor
from cbr_jericho.tagging import installed_model
from cbr_jericho.transitions import Transitions
from cbr_jericho.views import Views
from cbrcore.errors import GameError, suggest
from cbrcore.interfaces import Build, Places
from cbrcore.rng import derive_seed
from cbrcore.types import Action, Observation, StepResult

log = logging.getLogger(__name__)

NAME = "cbr_jericho"
SPLIT = "train"
GENERATED = "generated"
SEED_WITHOUT_WALKTHROUGH = 1
"""Jericho would take the time of day."""


REMEMBERED = {
    "world": "; remembered per world within a run, not quite exact",
    "view": "; remembered per view (room, what is there and carried, look, inventory) within a run, approximate",
}
"""cache_key -> what that makes of the valid actions."""
LEARNED = "; what is tried in vain again and again is tried less often, approximate"


SAME_CHANCE, BY_WALKTHROUGH = "the same in every episode", ", with the seed of the walkthrough"
P1 = "P1: one seed; the measure is the mean of the last 100 training episodes"
P2 = "P2: a seed for each episode; the measure is the evaluation, with seeds that were never trained on"


class JerichoEnvironment:
    """One interactive fiction, played by Jericho in a process of its own.

    `step` is `send` and `receive`: several environments step at once if all are sent to before any is received
    from.
    """

    random_passes = 10
    """A random policy comes where nobody was, so each play costs ten seconds of searching for valid actions."""

    def __init__(self, config: JerichoConfig, build: Build) -> None:
        self.config = config
        self.build = build
        self._views: Views = build.shared.setdefault(f"{NAME}: views", Views())
        self._transitions: Transitions = build.shared.setdefault(
            f"{NAME}: transitions", Transitions(0 if self._own_chance else config.transitions)
        )

    @property
    def _own_chance(self) -> bool:
        return self.config.seed == "episode"

    @property
    def handicaps(self) -> Mapping[str, Any]:
        """For a story that Jericho does not know, once it was found: what is left of them."""
        config = self.config
        known = "_story" not in self.__dict__ or self._story.known
        searched = f"found by Jericho's search; words to try from the {config.tagger} tagger"
        searched += REMEMBERED.get(config.cache_key, "") + LEARNED * config.learns
        by_walkthrough = config.seed == "walkthrough" and known and config.game != GENERATED
        return {
            "valid_actions": searched if known else "none: no search, as Jericho does not know the story",
            "look_and_inventory": "asked at every step and taken back",
            "state_graph": "the game's object tree" if config.graph == "tree" else "from the texts",
            **({} if self._own_chance else {"chance": SAME_CHANCE + BY_WALKTHROUGH * by_walkthrough}),
            "protocol": P2 if self._own_chance else P1,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.game!r}, graph={self.config.graph!r})"

    def splits(self) -> tuple[str, ...]:
        """One: a game of Jericho is trained on and measured on."""
        return (SPLIT,)

    def games(self, split: str) -> tuple[str, ...]:
        """The configured game.

        Raises:
            GameError: there is no such split; the story file is missing or unsound; a spaCy model is missing.
        """
        if split != SPLIT:
            raise GameError(f"Jericho has no split {split!r}. {suggest(split, (SPLIT,))}")
        if self.config.tagger == "spacy" or self.config.graph == "text":
            installed_model()
        return (self._story.name,)

    def game_info(self, game: str) -> Mapping[str, Any]:
        """MD5, scores, seed and versions; starts the engine if it does not run."""
        facts = dict(self._play_of(game).supervisor.facts)
        steps = len(facts.pop("walkthrough"))
        del facts["vocabulary"]
        if self._own_chance:
            facts["seed"] = "episode"
        return {**facts, "walkthrough_steps": steps}

    def walkthrough(self, game: str) -> tuple[str, ...]:
        """The published solution, command by command; empty if Jericho has none."""
        return tuple(self._play_of(game).supervisor.facts["walkthrough"])

    def reset(self, game: str, seed: int) -> Observation:
        """Start the game anew. Its chance is a setting (`seed`); with `episode` it is the argument.

        Raises:
            GameError: this is not the configured game, or it cannot be used.
            RunFailed: the engine fails again and again.
        """
        return self._play_of(game).reset(seed=seed if self._own_chance else None)

    def step(self, action: Action) -> StepResult:
        """Execute an action. What is no valid action is executed too, unless it speaks to the interpreter.

        At a time limit the last observation has its texts and graph, but valid actions only if the run remembers
        them by world or view (fallback commands otherwise): nothing is played after it. At the game's own end it
        has the answer only.

        Raises:
            RuntimeError: no episode is running.
            RunFailed: the engine fails again and again.
        """
        self.send(action)
        return self.receive()

    def send(self, action: Action) -> None:
        """The first half of `step`: the engine starts to work."""
        self._play.send(action.text)

    def receive(self) -> StepResult:
        """The second half of `step`: wait for what comes of it."""
        return self._play.receive()

    def places(self, observation: Observation) -> Places:
        """The map that an observation holds (`places.py`). After the game's end it is that of the step before."""
        return read_places(observation)

    def replay(
        self, game: str, commands: Iterable[str], *, effort: Literal["actions", "things", "nothing"] = "nothing"
    ) -> Iterator[Observation | StepResult]:
        """Play known commands from the start, as they are and without a limit.

        Args:
            effort: "actions" finds the valid actions at each step; "things" what is in sight, for the graph;
                "nothing" neither.

        Yields:
            The first observation, then the result of each command, to the end of the game or of the commands.
        """
        play = self._play_of(game)
        yield play.reset(known=effort)
        for command in commands:
            play.send(command)
            result = play.receive()
            yield result
            if result.ending is not None:
                return

    def best_gain(self) -> int:
        """The most points that an admissible action would earn at once (each is tried and taken back)."""
        return self._play.best_gain()

    @property
    def counts(self) -> Mapping[str, int]:
        """What went otherwise than it should: see `Play.counts`, `Supervisor.counts` and `SceneReader.counts`."""
        play = self._play
        return play.counts + play.supervisor.counts + play.scenes.counts

    def figures(self) -> Mapping[str, Any]:
        """What the present worker did: `counts` of observations, and `seconds` per part."""
        return self._play.supervisor.figures()

    def close(self) -> None:
        """End the worker; a later reset starts another one."""
        if "_play" in self.__dict__:
            self._play.close()
            if counts := self.counts:
                log.info("%s: %s", self._story.name, dict(counts))
            if counts["checked"]:
                log.info("%s: %s", self._story.name, told_of_checks(counts))

    def _play_of(self, game: str) -> Play:
        if game != self._story.name:
            raise GameError(f"this environment plays {self._story.name!r}, not {game!r}", hint=f"game: {game}")
        return self._play

    @cached_property
    def _story(self) -> Story:
        """The story file, found and checked.

        Raises:
            GameError: it is not there, or not sound.
        """
        game, folder = self.config.game, self.config.rom_dir
        base = self.build.recipe_dir
        if game == GENERATED:
            return generated_story(0, self.build.cache_dir)
        if "/" in game or Path(game).suffix:
            return check_story_file(named_path(game, base), allow_unknown=self.config.allow_unknown_rom)
        return find_story(game, None if folder is None else named_path(folder, base))

    @cached_property
    def _play(self) -> Play:
        scenes: SceneReader = TextScenes() if self.config.graph == "text" else TreeScenes()
        label = f"{self._story.name} (seed {self.config.seed})"
        supervisor = Supervisor(self._request(), label, self.config, self._views)
        return Play(self._story.name, supervisor, scenes, self.config, self._transitions)

    def _request(self) -> Message:
        """Opens the story in a worker, which gets a copy under a name of ours: long, odd or vanished paths never
        reach native code. (It takes stories called tw-... for TextWorld's.)"""
        story, cache = self._story, self.build.cache_dir / "jericho" / f"{self._story.md5}.sqlite"
        content = read_story(story.path)
        if story_md5(content) != story.md5:
            raise GameError(f"{story.path} has changed while it was being loaded", hint="Start again.")
        interpreter = tuned_interpreter() if self.config.interpreter == "tuned" else None
        told: set[str] = self.build.shared.setdefault(f"{NAME}: told", set())
        if (line := f"the interpreter is the {'installed' if interpreter is None else 'tuned'} one") not in told:
            told.add(line)
            log.info("%s: %s", story.name, line)
        return {
            "name": ("tw-story.z" if story.path.name.startswith("tw-") else "story.z") + str(story.version),
            "story": base64.b64encode(content).decode(),
            "seed": self._seed(),
            "interpreter": None if interpreter is None else str(interpreter),
            "templates": list(story.templates),
            "tagger": self.config.tagger,
            "cache": str(cache) if self.config.cache else None,
            "cache_key": self.config.cache_key,
            "learns": self.config.learns,
        }

    def _seed(self) -> int | None:
        """The seed of the interpreter's random numbers, but where each episode has its own; None for that of the
        walkthrough."""
        if self.config.seed == "walkthrough" or self.config.seed == "episode":
            return None if self._story.md5 in titles_by_md5() else SEED_WITHOUT_WALKTHROUGH
        if self.config.seed == "run":
            return derive_seed(self.build.seed, "jericho") % LARGEST_SEED + 1
        return self.config.seed


class RemembersViews(JerichoEnvironment):
    """One whose valid actions are remembered by a key that is not exact; a `cbrcore.interfaces.KeepsState`."""

    def state(self) -> Mapping[str, str]:
        """What is remembered, by all environments of the run."""
        return self._views.state()

    def load_state(self, state: Mapping[str, str]) -> None:
        """Go on from what `state` gave."""
        self._views.load_state(state)
        self._transitions.forget()


def jericho(config: JerichoConfig, build: Build) -> JerichoEnvironment:
    """The environment of a recipe."""
    return (JerichoEnvironment if config.cache_key == "state" else RemembersViews)(config, build)


def told_of_checks(counts: Mapping[str, int]) -> str:
    """How far the cache's answers were from what a search finds."""
    offered, stale, missing = (counts.get(f"checked_{what}", 0) for what in ("offered", "stale", "missing"))
    share = f"{stale / offered:.1%}" if offered else "none"
    told = f"{stale} of {offered} actions stale ({share}), {missing} missing"
    return f"{counts['checked']} remembered answers checked: {told}"
