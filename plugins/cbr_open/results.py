"""The tables of a run's results, and the notes below them: what `cbr run` prints, a card and a notebook show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cbrcore.tables import markdown, number


def results_table(results: dict[str, Any]) -> str:
    """The run's tables, as plain text that reads the same in a terminal, a log and a README."""
    found, notes = result_rows(results)
    return "\n\n".join([*map(markdown, found), *notes])


def result_rows(results: dict[str, Any]) -> tuple[list[Sequence[Sequence[str]]], list[str]]:
    """The run's tables, each with its header, and the notes below them. Per split steps and normalized score, with
    the random and the optimal row; for games that are scored by raw points (they tell an `initial_score`) the
    training's own scores too, and points instead of shares."""
    evaluation, games = results["evaluation"], results["protocol"]["games"]
    raw = {split for split, facts in games.items() if any("initial_score" in each for each in facts.values())}
    trained = [_training_rows(results["training"], games["train"])] if "train" in raw or not evaluation else []
    measured = [_evaluation_rows(results["name"], evaluation, raw)] if evaluation else []
    notes = [
        note
        for split, found in evaluation.items()
        if split not in raw
        for note in without_share(split, found.get("games", {}), games.get(split, {}))
    ]
    return [*trained, *measured], [*notes, *_spread(evaluation), *_trained(results.get("training", {}))]


def _spread(evaluation: Mapping[str, Any]) -> list[str]:
    """Steps of the game that takes the fewest, and of the one that takes the most: a mean hides them."""
    steps = {
        split: [steps for each in found.get("games", {}).values() if (steps := each.get("steps")) is not None]
        for split, found in evaluation.items()
    }
    told = [f"{split.upper()} {min(of):.1f} to {max(of):.1f}" for split, of in steps.items() if len(of) > 1]
    return [f"#steps by game: {', '.join(told)}"] if told else []


def _trained(training: Mapping[str, Any]) -> list[str]:
    """What was played before the training counts too; nothing where nothing was."""
    before = training.get("pretraining") or {}
    told = f"{before['steps']:,} of pretraining" if before.get("steps") is not None else "pretraining, not counted"
    return [f"trained: {training['env_steps']:,} steps + {told}"] if before else []


def without_share(split: str, measured: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Which games of a split were measured and have no normalized score, with the reason; none if all have one."""
    found: dict[str, list[str]] = {}
    for game in (name for name, of_game in measured.items() if of_game.get("norm_score") is None):
        best = facts.get(game, {}).get("max_score")
        why = "the game tells no maximum" if best is None else f"the game's maximum is {best:g}"
        found.setdefault(why, []).append(game)
    return [
        f"{split.upper()} norm. score of {', '.join(names)}: not available: {why}" for why, names in found.items()
    ]


def _training_rows(training: dict[str, Any], games: dict[str, dict[str, Any]]) -> list[list[str]]:
    """What was scored while training, beside the score that a game starts with."""
    facts = next(iter(games.values())) if len(games) == 1 else {}
    found = {
        "training on": ", ".join(games),
        "initial": number(facts.get("initial_score"), 0),
        f"last {min(100, training['episodes'])} episodes": number(training["avg_score_last_100"], 1),
        "best": number(training["best_score"], 0),
        "maximum": number(facts.get("max_score"), 0),
    }
    return [list(found), list(found.values())]


def _evaluation_rows(name: str, evaluation: dict[str, Any], raw: set[str]) -> list[tuple[str, ...]]:
    """A header, the agent in each mode, then the random and the optimal policy."""
    first = next(iter(evaluation.values()))
    modes = [mode for mode in ("sampled", "greedy") if mode in first and mode != first["mode"]]
    columns = [["agent", *(f"{name} ({mode})" for mode in (first["mode"], *modes)), "uniform random", "optimal"]]
    for split, found in evaluation.items():
        measured = [found, *(found[key] for key in (*modes, "random"))]
        steps = [_mean_std(each["steps"], 1) for each in measured]
        columns.append([f"{split.upper()} #steps", *steps, number(found["optimal_steps"], 1)])
        title, key, digits = ("score", "score", 1) if split in raw else ("norm. score", "norm_score", 2)
        scores = [_mean_std(each[key], digits) + _of_some(each, key) for each in measured]
        best = "1.00" if key == "norm_score" and found[key]["mean"] is not None else "-"
        columns.append([f"{split.upper()} {title}", *scores, best])
    *rows, optimal = zip(*columns, strict=True)
    known = any(found["optimal_steps"] is not None for found in evaluation.values())
    return [*rows, optimal] if known else rows


def _mean_std(value: dict[str, float | None], digits: int) -> str:
    return f"{number(value['mean'], digits)} ± {number(value['std'], digits)}"


def _of_some(measured: dict[str, Any], key: str) -> str:
    """Over how many games a mean is that is not over all."""
    count = measured[key].get("games")
    return "" if count is None else f" ({count} of {len(measured['games'])} games)"
