"""Which numbers of results.json a table is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from cbr_report.facts import mapping_at, protocol_of
from cbr_report.runs import Group, number_at
from cbr_report.statistics import Summary, summarize

LAST_100 = "avg_score_last_100"


@dataclass(frozen=True)
class Measure:
    """One number of a run.

    Attributes:
        keys: the way to it in results.json.
        better: "lower" or "higher".
    """

    title: str
    keys: tuple[str, ...]
    digits: int
    better: str

    def of(self, group: Group) -> list[float]:
        """One number per run that has it."""
        return group.numbers(*self.keys)

    def summary(self, group: Group) -> Summary | None:
        return summarize(self.of(group))


def in_points(group: Group) -> bool:
    """Whether the measure is the raw score while training [P §6.3], not a share of the points in test games.

    So it is for games that tell an initial score, as the tables of `cbr run` have it.
    """
    games = group.runs[0].results.get("protocol", {}).get("games", {}).get("train", {})
    raw = any("initial_score" in facts for facts in games.values() if isinstance(facts, Mapping))
    return raw or not group.splits


def split_measures(split: str, mode: str = "") -> list[Measure]:
    """Steps and normalized score of a split; `mode` is "random", or a mode of play that is not the first one."""
    way = ("evaluation", split, *([mode] if mode else []))
    return [
        Measure(f"{split.upper()} #Steps", (*way, "steps", "mean"), 2, "lower"),
        Measure(f"{split.upper()} Norm. Score", (*way, "norm_score", "mean"), 2, "higher"),
    ]


def by_evaluation(group: Group) -> bool:
    """Whether its score is that of an evaluation: under P2, where each episode has a chance of its own."""
    return bool(group.splits) and protocol_of(group.runs[0].results) == "P2"


def points(group: Group) -> list[Measure]:
    """What the paper measures on Jericho, and the best score. Under P2 what counts is the evaluation, with seeds
    that were never trained on."""
    main = Measure("Last 100 episodes", ("training", LAST_100), 2, "higher")
    if by_evaluation(group):
        main = Measure("Evaluation", ("evaluation", group.splits[-1], "score", "mean"), 2, "higher")
    return [main, Measure("Best", ("training", "best_score"), 2, "higher")]


def main_measure(group: Group) -> Measure:
    """The one by which agents of a place are compared: the score, or the steps on the last split (OUT)."""
    return points(group)[0] if in_points(group) else split_measures(group.splits[-1])[0]


def measures_of(group: Group) -> list[Measure]:
    """All that its runs measured."""
    if in_points(group):
        return points(group)
    return [measure for split in group.splits for measure in split_measures(split)]


def random_measures(group: Group) -> list[Measure]:
    """What is measured of the uniform random agent beside these runs."""
    if not in_points(group):
        return [measure for split in group.splits for measure in split_measures(split, "random")]
    keys = [("evaluation", split, "random", "score", "mean") for split in group.splits]
    return [
        Measure(f"{split.upper()} Score", way, 2, "higher") for split, way in zip(group.splits, keys, strict=True)
    ]


def interval_of_plays(group: Group, measure: Measure) -> tuple[float, float] | None:
    """The 95 % interval of the mean over runs, from those of the runs' own plays; None if one of them has none."""
    bounds = [mapping_at(run.results, *measure.keys[:-1]).get("interval") for run in group.runs]
    known = [pair for pair in bounds if isinstance(pair, list) and len(pair) == 2]
    if not known or len(known) < len(bounds):
        return None
    middle = fmean((low + high) / 2 for low, high in known)
    half = sqrt(sum(((high - low) / 2) ** 2 for low, high in known)) / len(known)
    return middle - half, middle + half


def splits_of(groups: Sequence[Group]) -> list[str]:
    """All splits, in the order of the first runs that have them."""
    return list(dict.fromkeys(split for group in groups for split in group.splits))


def total_steps(evaluation: Mapping[str, object]) -> float | None:
    """Steps of all plays. Runs of older versions do not tell: every pass plays every game once, so it is the mean
    times the number of plays."""
    told = number_at(evaluation, ["total_steps"])
    mean = number_at(evaluation, ["steps", "mean"])
    endings = evaluation.get("endings")
    if told is not None or mean is None or not isinstance(endings, Mapping):
        return told
    return mean * sum(endings.values())
