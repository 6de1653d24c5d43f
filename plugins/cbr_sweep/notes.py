"""What to know before a sweep works: results that do not count, and what its seeds leave as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from cbr_sweep.folder import PlannedRun, RunState
from cbr_sweep.status import RunStatus


@runtime_checkable
class StaysTheSame(Protocol):
    """Settings of an environment that keep something from changing with the run's seed (`cbr sweep` says so)."""

    def same_for_all_seeds(self) -> Iterable[str]:
        """What stays the same, in words, with the setting that would change it."""
        ...


def notes(runs: Sequence[RunStatus]) -> Iterator[str]:
    """One line each; what several runs have in common is said once."""
    for text in same_for_all_seeds([status.planned for status in runs]):
        yield f"note: all seeds share {text}"
    for status in runs:
        if status.state is RunState.STARTED and status.why:
            yield f"note: {status.id}: {status.why}; it continues from its checkpoint"


def same_for_all_seeds(planned: Iterable[PlannedRun]) -> list[str]:
    """What does not change among runs of several seeds, as their settings tell."""
    seeds: dict[str, set[int]] = {}
    for item in planned:
        settings = item.recipe.environment.settings
        for text in settings.same_for_all_seeds() if isinstance(settings, StaysTheSame) else ():
            seeds.setdefault(text, set()).add(item.recipe.seed)
    return [text for text, found in seeds.items() if len(found) > 1]
