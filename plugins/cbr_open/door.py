"""The Python door: a run to start, or to look at: its records as plain data, its agent to play with, its cases.

>>> import cbrcore as cbr
>>> run = cbr.run("recipes/smoke/text_cbr_generated.yaml", seed=3)  # or cbr.open("runs/...")
>>> len(run.metrics) == run.results["training"]["episodes"]  # plain data
True
>>> with run:
...     first, *others = run.play(split="out")  # step by step
...     why = run.why(first)  # cases with their relevance, admissible actions with pi
...     alike = run.memory.similar(first.observation, first.decision.action)  # whatever tau says
>>> why.decision == first.decision, f"{sum(why.probabilities.values()):.6f}"
(True, '1.000000')

In a notebook a run, its memory and the answer to why are shown as tables.
Looking changes nothing in a run's folder, and the run may go on meanwhile. torch is imported when it is needed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_open.play import Play
from cbrcore.console import checked_recipe, overrides_of, plugins_of, run_folder
from cbrcore.cycle.runner import Seat
from cbrcore.errors import CbrError, RunFolderError, suggest
from cbrcore.interfaces import CaseStore, Memory
from cbrcore.recipe import load_recipe
from cbrcore.recipe.text import parse
from cbrcore.rng import generator
from cbrcore.runs import built, newest_checkpoint, start
from cbrcore.runs.files import damaged
from cbrcore.runs.folder import METRICS_FILE, RESULTS_FILE, read_json, run_command, stored_recipe
from cbrcore.runs.resuming import naming_plugin_files
from cbrcore.types import Match

if TYPE_CHECKING:
    from torch import Tensor

    from cbr_open.why import Why
    from cbrcore.config import Recipe
    from cbrcore.cycle.retriever import Retriever
    from cbrcore.plugins import PluginReport
    from cbrcore.runs.assemble import Parts
    from cbrcore.runs.checkpoint import Progress
    from cbrcore.types import Action, Case, Observation, Transition

log = logging.getLogger(__name__)


def run(
    recipe: Path | str,
    *,
    seed: int | None = None,
    sets: Sequence[str] = (),
    out: Path | str | None = None,
    overwrite: bool = False,
    plugins: Sequence[Path | str] = (),
) -> Run:
    """Train and evaluate what a recipe describes, as ``cbr run`` does.

    Args:
        recipe: a recipe file; the shipped ones are found by ``recipes/NAME.yaml`` from any folder.
        sets: ``a.b=c`` texts, as after ``--set``.
        out: the run's folder; a new one in runs/ if left out. `overwrite` replaces the run in it.
        plugins: loose plugin files.

    Raises:
        CbrError: something is wrong with the recipe, or the run failed.
    """
    checked, report = checked_recipe(Path(recipe), overrides_of(sets, seed=seed), list(map(Path, plugins)))
    _, folder = start(checked, report, None if out is None else Path(out), overwrite=overwrite)
    return Run(folder, report)


def open(path: Path | str, *, plugins: Sequence[Path | str] = ()) -> Run:
    """The run in a folder, or in a shared file (FILE.cbr), to look at; nothing there changes, and the run may go
    on meanwhile.

    Raises:
        RunFolderError: the folder holds no run.
        CbrError: the file is damaged, or needs a plugin that is not installed.
    """
    return Run(run_folder(Path(path)), plugins_of(list(map(Path, plugins))))


class Run:
    """A run's folder, and its parts with the weights and the memory of the latest checkpoint.

    The parts are built when they are first needed. A ``with`` block, or `close`, releases their engines.

    Raises:
        RunFolderError: the folder holds no run.
    """

    def __init__(self, path: Path | str, plugins: PluginReport) -> None:
        self.path = Path(path)
        self.plugins = plugins
        self._open: tuple[Parts, Progress] | None = None
        self._playing: Play | None = None
        stored_recipe(self.path)
        for fault in damaged(self.path):
            log.warning("%s: %s", self.path, fault)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from cbr_open.notebook import run_html

        return run_html(self)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the engines; safe to call twice. Whatever needs the parts later opens them again, at the
        checkpoint that is the latest one by then."""
        self._leave_play("the run was closed")
        if self._open is not None:
            self._open[0].close()
            self._open = None

    # -- its records -------------------------------------------------------------------------------------------

    @property
    def recipe(self) -> dict[str, Any]:
        """What recipe.yaml holds, as plain data, whatever is installed here."""
        data: dict[str, Any] = parse(stored_recipe(self.path).read_text(encoding="utf-8")).data
        return data

    @property
    def results(self) -> dict[str, Any]:
        """What results.json holds. RunFolderError: the run is not finished."""
        if not (self.path / RESULTS_FILE).is_file():
            raise RunFolderError(
                f"{self.path} is not finished", hint=f"go on: {run_command('run --resume', self.path)}"
            )
        found: dict[str, Any] = read_json(self.path / RESULTS_FILE)
        return found

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl: one for each episode so far."""
        path = self.path / METRICS_FILE
        written = path.read_bytes() if path.is_file() else b""
        *lines, _ = written.split(b"\n")  # the last one is empty, or not written to its end yet
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise RunFolderError(f"{path} is damaged: {error}", hint="put a copy of it back") from error

    # -- its parts ---------------------------------------------------------------------------------------------

    @cached_property
    def checked(self) -> Recipe:
        """Its recipe, to be looked at: one game at a time, and without a GPU where there is none."""
        given = [Path(info.distribution) for info in self.plugins.plugins if info.version.startswith("sha256:")]
        with naming_plugin_files(self.path, given):
            recipe = load_recipe(stored_recipe(self.path), registry=self.plugins.registry)
        device = "auto" if recipe.run.device == "cuda" else recipe.run.device
        return recipe.model_copy(update={"run": recipe.run.model_copy(update={"num_envs": 1, "device": device})})

    @property
    def parts(self) -> Parts:
        """Its parts. RunFolderError: there is no checkpoint yet. CbrError: a part cannot be built here (missing
        games, model, module)."""
        return self._opened()[0]

    @property
    def progress(self) -> Progress:
        """How far it came; see `parts`."""
        return self._opened()[1]

    def _opened(self) -> tuple[Parts, Progress]:
        if self._open is None:
            checkpoint = newest_checkpoint(self.path)  # nothing is built in vain
            parts = built(self.checked, self.plugins)
            try:
                self._open = parts, self._restored(parts, checkpoint)
            except BaseException:
                parts.close()
                raise
        return self._open

    def _restored(self, parts: Parts, checkpoint: Path) -> Progress:
        """Fill the parts from the checkpoint; a run that goes on may have replaced it by a newer one."""
        from cbrcore.runs.checkpoint import restore_agent

        while True:
            try:
                return restore_agent(checkpoint, parts.reasoner, parts.keepers())[0]
            except RunFolderError:
                tried, checkpoint = checkpoint, newest_checkpoint(self.path)
                if checkpoint == tried:
                    raise

    # -- its agent plays ---------------------------------------------------------------------------------------

    def play(
        self, game: str | None = None, *, split: str | None = None, seed: int | None = None, greedy: bool = False
    ) -> Play:
        """A game play of the trained agent, step by step: ``for step in run.play(): step.decision``.

        A run has one set of engines: the play that was begun before ends here.

        Args:
            game: the split's first one, if left out.
            split: the one that holds `game`, or the first that is evaluated.
            seed: of the agent's draws and the game's chance; the run's, if left out.
            greedy: take the agent's most probable action instead of drawing one.

        Raises:
            CbrError: there is no such split or game.
        """
        return next(self.plays(split, game, seed=seed, greedy=greedy))

    def plays(
        self,
        split: str | None = None,
        game: str | None = None,
        *,
        episodes: int = 1,
        seed: int | None = None,
        greedy: bool = False,
    ) -> Iterator[Play]:
        """Game plays, one after the other; see `play`. Without `seed` and `game`, and each played to its end, they
        are those that the evaluation measured.

        Args:
            episodes: how many; the split's games in turn, and from the start again.
        """
        split = split or self._split_of(game)
        games = self.parts.environment.games(split)
        if game is not None and game not in games:
            raise CbrError(f"the split {split!r} has no game {game!r}. {suggest(game, games)}")
        seed = self.checked.seed if seed is None else seed
        return self._plays(split, games if game is None else (game,), episodes, seed, greedy=greedy)

    def _plays(
        self, split: str, games: Sequence[str], episodes: int, seed: int, *, greedy: bool
    ) -> Iterator[Play]:
        from cbrcore.cycle.evaluation import FrozenActor, game_seed, pass_seed

        parts = self.parts
        for number in range(-(-episodes // len(games))):
            stream = pass_seed(seed, split, number)
            seat = Seat(parts.environment, FrozenActor(parts.reasoner, generator(stream), greedy=greedy))
            for game in games[: episodes - number * len(games)]:
                self._leave_play("another play of this run began")
                self._playing = Play(seat, game, game_seed(stream, game), split=split, number=number)
                yield self._playing

    def _split_of(self, game: str | None) -> str:
        """The split that holds the game; without one the first that is evaluated, else one that is not trained
        on. CbrError: there is no such game."""
        environment, evaluated = self.parts.environment, self.checked.evaluation.splits
        splits = list(dict.fromkeys([*evaluated, *environment.splits()]))
        if game is None:
            others = [split for split in splits if split != "train"]
            return [*evaluated, *others, *splits][0]
        for split in splits:
            if game in environment.games(split):
                return split
        known = [name for split in splits for name in environment.games(split)]
        raise CbrError(f"this run's environment has no game {game!r}. {suggest(game, known)}")

    def _leave_play(self, why: str) -> None:
        if self._playing is not None:
            self._playing.leave(why)
            self._playing = None

    def why(self, step: Transition) -> Why:
        """Why a step of this run's play was taken: cases with their relevance, admissible actions with pi.

        Raises:
            CbrError: the step was not taken by an agent.
        """
        from cbr_open.why import Why

        return Why.of(step, self.parts.reasoner)

    # -- its cases ---------------------------------------------------------------------------------------------

    @property
    def memory(self) -> RunMemory:
        """Its cases. RunFolderError: it has no case memory."""
        return self.memories["memory"]

    @property
    def memories(self) -> dict[str, RunMemory]:
        """Everything that it remembers, by name: "memory", and "failures" where those are kept. RunFolderError: it
        has no case memory."""
        retriever = self.parts.reasoner.retriever
        if retriever is None:
            hint = "its recipe has none: add 'memory: {}' and what a memory needs"
            raise RunFolderError(f"{self.path} has no case memory", hint=hint)
        return {name: RunMemory(self.path, retriever, store) for name, store in retriever.memory.stores().items()}


class RunMemory:
    """Cases of a run, to look into; looking changes nothing, not even in a play that goes on.

    Attributes:
        store: the cases with their keys.
    """

    def __init__(self, run: Path, retriever: Retriever, store: CaseStore) -> None:
        self.store = store
        self._run = run
        self._retriever = retriever

    def __repr__(self) -> str:
        return f"RunMemory({len(self)} cases of {str(self._run)!r})"

    def _repr_html_(self) -> str:
        from cbr_open.notebook import memory_html

        return memory_html(self)

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.store.cases)

    def similar(
        self, observation: Observation, action: Action, *, count: int = 5, past: Sequence[Observation] = ()
    ) -> list[Match]:
        """The cases that are most similar to an action in a state, with their relevance, whatever tau says. None
        for an action without entities, for which nothing is ever retrieved.

        Args:
            past: earlier observations of the episode, for encoders that look back.
        """
        seeds = self._retriever.view(action).seeds
        if not seeds or not len(self):
            return []
        situation = self._retriever.encoder.situation(observation, past)
        return self.compared(self._retriever.key(situation, seeds))[:count]

    def compared(self, key: Tensor) -> list[Match]:
        """All cases with their similarity to a key, the most similar first; of equals the more often rewarded,
        then the more recent one. Those at which an approximate index does not look are left out."""
        if not isinstance(self.store, Memory):  # it keeps cases, and compares none
            return []
        values = self.store.similarities(key.unsqueeze(0))[0].tolist()  # [m]
        found = [Match(case, value) for case, value in zip(self, values, strict=True) if value >= 0]
        found.sort(key=lambda m: (m.relevance, m.case.rewarded, m.case.last_step, m.case.id), reverse=True)
        return found
