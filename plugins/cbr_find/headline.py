"""The figures by which one knows a run again: IN and OUT, or its score by its protocol, P1 or P2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbr_report.facts import protocol_of
from cbrcore.tables import number

LAST, EVALUATED = "score, last 100", "score, evaluation"


def headline_numbers(results: Mapping[str, Any]) -> dict[str, float | None]:
    """Name -> number of what results.json holds: steps and normalized score of each split; of games that are told
    by points (they have an `initial_score`) the training's mean score instead, by P2 that of the evaluation."""
    games = results["protocol"]["games"].get("train", {}).values()
    if any("initial_score" in facts for facts in games):
        if protocol_of(results) == "P2" and results["evaluation"]:
            *_, last = results["evaluation"].values()
            return {EVALUATED: last["score"]["mean"]}
        return {LAST: results["training"]["avg_score_last_100"]}
    return {
        f"{split.upper()} {title}": of[key]["mean"]
        for split, of in results["evaluation"].items()
        for title, key in (("#steps", "steps"), ("norm. score", "norm_score"))
    }


def headline(results: Mapping[str, Any]) -> str:
    """As in "IN 8.3 steps, 0.98; OUT 8.0 steps, 0.98", or "score 44.3 (last 100 episodes)"."""
    found = headline_numbers(results)
    if EVALUATED in found:
        return f"score {number(found[EVALUATED], 1)} (evaluation, P2)"
    if LAST in found:
        last = min(100, int(results["training"]["episodes"]))
        return f"score {number(found[LAST], 1)} (last {last} episodes)"
    return "; ".join(
        f"{split.upper()} {number(found[f'{split.upper()} #steps'], 1)} steps,"
        f" {number(found[f'{split.upper()} norm. score'], 2)}"
        for split in results["evaluation"]
    )
