"""A run's cases to look at: as rows to list and search, one with its nearest neighbours, situations as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cbr_cases.exchange import MEMORY, checkpoint_with_cases
from cbr_memory.files import read_cases
from cbr_open.door import Run, RunMemory
from cbrcore import Case, CbrError, EntityTuple, Match, Situation, StateGraph, StoredCases, Triple, suggest
from cbrcore.runs import newest_checkpoint
from cbrcore.runs.checkpoint import read_state
from cbrcore.runs.folder import read_json

Order = Literal["age", "success", "used", "rewarded"]
STATE_FILE = "state.json"


class EffectRow(NamedTuple):
    """Executing `template` made `enables` admissible for the entity in slot `slot`, which is in its slot `there`:
    in `times` of `executed` executions. Slots count from 0."""

    template: str
    slot: int
    enables: str
    there: int
    times: int
    executed: int

    def cells(self) -> tuple[str, ...]:
        """As a table shows it; slots count from 1."""
        return (
            self.template, f"slot {self.slot + 1}", self.enables, f"slot {self.there + 1}",
            str(self.times), str(self.executed),
        )  # fmt: skip


def effects_of(run: Path) -> list[EffectRow]:
    """What the run's reuse policy has learned of templates, the most frequent effects first.

    Raises:
        RunFolderError: the run has no checkpoint.
        CbrError: its reuse policy learns no effects.
    """
    kept = _kept(run, "effects", "has learned no effects", "learn some: reuse_policy: {use: cbr_goals/goals}")
    rows = [EffectRow._make([*effect, kept["executed"][effect[0]]]) for effect in kept["seen"]]
    return sorted(rows, key=lambda row: (-row.times, row))


class SequenceRow(NamedTuple):
    """A case whose solution is a sequence of commands from the start of a game.

    Attributes:
        score: the points it ends with; of several that end with as many the shortest is listed.
        case: its number; None where the game is over, so that nothing starts from there.
    """

    game: str
    score: float
    case: int | None
    commands: tuple[str, ...]

    def cells(self) -> tuple[str, ...]:
        """As a table shows it."""
        about = (self.game, f"{self.score:g}", shown(self.case), str(len(self.commands)))
        return (*about, "; ".join(self.commands))


def sequences_of(run: Path) -> list[SequenceRow]:
    """The sequences that the run's reuse policy keeps, those of a game together, the best score first.

    Raises:
        RunFolderError: the run has no checkpoint.
        CbrError: its reuse policy keeps none.
    """
    lack, mend = "keeps no sequences of commands", "keep some: reuse_policy: {use: cbr_explorer/explorer}"
    kept = _kept(run, "sequences", lack, mend)
    rows = [SequenceRow(**{**each, "commands": tuple(each["commands"])}) for each in kept]
    return sorted(rows, key=lambda row: (row.game, -row.score))


def _kept(run: Path, name: str, lack: str, mend: str) -> Any:
    """What the newest checkpoint keeps of the reuse policy under a name; CbrError with these words if nothing."""
    kept = read_state(newest_checkpoint(run))[0].get("kept", {}).get("reuse_policy", {}).get(name)
    if kept is None:
        raise CbrError(f"{run} {lack}", hint=f"its recipe's reuse policy must {mend}")
    return kept


@dataclass(frozen=True)
class CaseRow:
    """A case as a row.

    Attributes:
        game, seed, episode, step, reward: of the step from which it was retained first.
        rewarded: how often it was retained with a reward.
        reused, reuse_rewarded: how often it was reused while training, and how often that earned a reward.
        success: reuse_rewarded / reused; None if it was never reused.
        age: environment steps of the run since it was last retained.
    """

    id: int
    command: str
    template: str
    entities: tuple[str, ...]
    game: str
    seed: int
    episode: int
    step: int
    reward: float
    rewarded: int
    reused: int
    reuse_rewarded: int
    success: float | None
    age: int

    @classmethod
    def of(cls, case: Case, env_steps: int) -> CaseRow:
        p = case.provenance
        return cls(
            case.id,
            case.text,
            case.template,
            case.entities,
            p.game,
            p.seed,
            p.episode,
            p.step,
            p.reward,
            case.rewarded,
            case.reused,
            case.reuse_rewarded,
            case.reuse_rewarded / case.reused if case.reused else None,
            max(0, env_steps - case.last_step),  # a case of another run may have a later step
        )


@dataclass(frozen=True)
class Listed:
    """The cases of a run's latest checkpoint, as stored and as rows in the same order."""

    rows: tuple[CaseRow, ...]
    stored: StoredCases


@dataclass(frozen=True)
class Shown:
    """A case, its situation as text, and its nearest neighbours with their similarities, most similar first."""

    row: CaseRow
    situation: tuple[str, ...]
    neighbours: tuple[tuple[float, CaseRow], ...]


def list_cases(run: Path, memory: str = MEMORY) -> Listed:
    """The cases of a run's latest checkpoint. Neither games nor models are needed.

    Args:
        memory: `FAILURES` for the cases that failed when they were reused.

    Raises:
        RunFolderError: the run has no checkpoint or no such memory.
    """
    checkpoint = checkpoint_with_cases(run, memory)
    stored = read_cases(checkpoint / memory)
    env_steps = int(read_json(checkpoint / STATE_FILE)["progress"]["env_steps"])
    return Listed(tuple(CaseRow.of(case, env_steps) for case in stored.cases), stored)


def select(
    rows: Sequence[CaseRow],
    *,
    search: str | None = None,
    template: str | None = None,
    game: str | None = None,
    sort: Order | None = None,
) -> list[CaseRow]:
    """Rows that fit, in the order asked for (else as retained).

    Args:
        search: a text that the command, the template or the game's name holds, in upper or lower case.
        template, game: exactly this one.
        sort: "age": longest not retained first; "success": the share of rewarded reuses, never reused last;
            "used": most often reused; "rewarded": most often retained with a reward.

    Raises:
        CbrError: no case has this template or game.
    """
    _check("template", template, {row.template for row in rows})
    _check("game", game, {row.game for row in rows})
    found = [row for row in rows if template in (None, row.template) and game in (None, row.game)]
    if search is not None:
        text = search.lower()
        found = [row for row in found if text in f"{row.command}\n{row.template}\n{row.game}".lower()]
    return sorted(found, key=lambda row: _order(row, sort), reverse=True) if sort else found


def _check(what: str, name: str | None, known: set[str]) -> None:
    if name is not None and name not in known:
        raise CbrError(f"no case has the {what} {name!r}. {suggest(name, known)}")


def _order(row: CaseRow, sort: Order) -> tuple[float, ...]:
    if sort == "success":
        return (-1.0 if row.success is None else row.success), row.reused, -row.id
    return {"age": row.age, "used": row.reused, "rewarded": row.rewarded}[sort], -row.id


def shown(value: object) -> str:
    """A value as people read it: shares with two digits, "-" for none."""
    if value is None:
        return "-"
    return f"{value:.2f}".removesuffix(".00") if isinstance(value, float) else str(value)


def show_case(run: Run, number: int, *, memory: str = MEMORY, neighbours: int = 5) -> Shown:
    """A case with the cases of its memory whose keys the memory itself finds most similar.

    Raises:
        RunFolderError: the run has no checkpoint or no such memory.
        CbrError: there is no case of this number, or a part of the run cannot be built here.
    """
    checkpoint_with_cases(run.path, memory)
    kept, now = run.memories[memory], run.progress.env_steps
    case = next((case for case in kept if case.id == number), None)
    if case is None:
        hint = f"see which there are: cbr cases list {run.path}"
        raise CbrError(f"{run.path} has no case {number}", hint=hint)
    near = neighbours_of(kept, case)[:neighbours]
    return Shown(
        CaseRow.of(case, now),
        tuple(situation_lines(kept.store.situations.get(case.id), case.seeds)),
        tuple((match.relevance, CaseRow.of(match.case, now)) for match in near),
    )


def neighbours_of(memory: RunMemory, case: Case) -> list[Match]:
    """The other cases, those with the most similar keys first, with that similarity."""
    return [match for match in memory.compared(memory.store.key_of(case)) if match.case is not case]


def situation_lines(situation: Situation, seeds: EntityTuple = ()) -> list[str]:
    """What a key was made of, as lines: the edges of state graphs (those at the seeds first), and texts."""
    lines: list[str] = []
    for part in _parts(situation):
        lines += _graph_lines(part, seeds) if isinstance(part, StateGraph) else [str(part)]
    return lines


def _parts(value: Any) -> Iterator[Any]:
    """State graphs and plain values, in order, out of tuples and sets."""
    if isinstance(value, tuple | frozenset):
        for part in sorted(value, key=str) if isinstance(value, frozenset) else value:
            yield from _parts(part)
    elif value is not None:
        yield value


def _graph_lines(graph: StateGraph, seeds: EntityTuple) -> list[str]:
    def near(triple: Triple) -> bool:
        return triple[0] in seeds or triple[2] in seeds

    joined = {name for head, _, tail in graph.triples for name in (head, tail)}
    alone = [name for name in graph.nodes if name not in joined]
    edges = sorted(graph.triples, key=lambda triple: not near(triple))  # the order within stays
    return [*(f"{head} --{relation}--> {tail}" for head, relation, tail in edges), *alone]
