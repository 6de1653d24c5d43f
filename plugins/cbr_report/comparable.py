"""What is not comparable: training of another length, and uniform random agents that did not play alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cbr_report.runs import Group, Run, number_at

RANDOM = "uniform random"
MEASURED = ("steps", "score", "norm_score")


@dataclass(frozen=True)
class Baseline:
    """The uniform random agent as some runs measured it.

    Attributes:
        runs: one of each seed: what does not depend on the agent counts once.
        agents: whose runs these are.
    """

    runs: Group
    agents: tuple[str, ...]


def baselines(groups: Iterable[Group]) -> list[Baseline]:
    """The uniform random agents of these groups; several if runs of one seed tell different numbers, or the number
    of passes differs."""
    found: list[tuple[Any, dict[int, Run], dict[str, None]]] = []
    members = [(group.agent, run) for group in groups for run in group.runs]
    for agent, run in sorted(
        members, key=lambda member: not _random(member[1])
    ):  # those that do not tell come last
        passes = run.results.get("protocol", {}).get("evaluation_passes")
        for known, by_seed, agents in found:
            same = by_seed.setdefault(run.seed, run) if known == passes or not _random(run) else None
            if same is not None and _random(run) in ({}, _random(same)):
                agents[agent] = None
                break
        else:
            found.append((passes, {run.seed: run}, {agent: None}))
    return [Baseline(Group(tuple(by_seed.values())), tuple(agents)) for _, by_seed, agents in found]


def _random(run: Run) -> dict[tuple[str, str], float]:
    """(split, what is measured) -> mean of the uniform random agent."""
    return {
        (split, what): value
        for split, evaluation in run.results.get("evaluation", {}).items()
        for what in MEASURED
        if (value := number_at(evaluation, ["random", what, "mean"])) is not None
    }


def random_name(each: Baseline, everyone: Sequence[Baseline]) -> str:
    """ "uniform random"; with whose runs it is of where there are several."""
    return RANDOM if len(everyone) == 1 else f"{RANDOM} ({', '.join(each.agents)})"


def budgets_differ(groups: Iterable[Group]) -> bool:
    """Whether agents that are compared were trained for different lengths."""
    return len({group.budget for group in groups}) > 1


def not_alike(place: str, groups: Sequence[Group]) -> list[str]:
    """What to know before the agents of a place are compared."""
    found = []
    if budgets_differ(groups):
        by_budget: dict[str, list[str]] = {}
        for group in groups:
            by_budget.setdefault(group.budget, []).append(group.agent)
        told = "; ".join(f"{budget}: {', '.join(agents)}" for budget, agents in by_budget.items())
        found.append(f"{place}: not trained alike ({told}); the best is marked among agents of one budget")
    if len(baselines(groups)) > 1:
        found.append(
            f"{place}: the uniform random agent did not play alike in all runs (other games, passes or versions),"
            " so it stands several times"
        )
    return found
