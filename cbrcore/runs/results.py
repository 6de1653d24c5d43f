"""What results.json and timing.json hold: how the frozen agent plays, and how it was trained and measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cbrcore.errors import Interrupted
from cbrcore.interfaces import PlaysSlowly, TellsFacts, TellsHandicaps
from cbrcore.runs.folder import run_command

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.cycle.reasoner import CaseBasedReasoner
    from cbrcore.runs import Work
    from cbrcore.runs.assemble import Parts
    from cbrcore.runs.checkpoint import Progress

RANDOM_PASSES = 100


def evaluation(work: Work, splits: Sequence[str]) -> dict[str, Any]:
    """Steps and scores of the frozen agent on each split: figures of the first mode, under their names the other
    modes and the uniform random policy, and the optimal steps where the games tell them."""
    from cbrcore.cycle.evaluation import mean

    environment, (first, *others) = work.parts.environment, work.recipe.evaluation.modes
    found = {}
    for split in splits:
        found[split] = _measured(work, split, first) | {"mode": first}
        found[split] |= {mode: _measured(work, split, mode) for mode in (*others, "random")}
        facts = [environment.game_info(game) for game in environment.games(split)]
        found[split]["optimal_steps"] = mean(fact.get("optimal_steps") for fact in facts)
        if all(map(unscored, facts)):
            for figures in (found[split], *(found[split][mode] for mode in (*others, "random"))):
                figures["score"] |= dict.fromkeys(figures["score"])
    return found


def _measured(work: Work, split: str, mode: str) -> dict[str, Any]:
    """Figures of one way to act on a split."""
    from cbrcore.cycle.evaluation import FrozenActor, UniformActor, play_passes, summarize

    def after_play() -> None:
        work.reporter.advance()
        if work.stop:
            hint = f"evaluate it with: {run_command('evaluate', work.folder.path)}"
            raise Interrupted("interrupted while evaluating; the trained agent is saved", hint=hint)

    parts, seed = work.parts, work.recipe.seed
    passes = _random_passes(work) if mode == "random" else work.recipe.evaluation.passes
    count = passes * len(parts.environment.games(split))
    work.reporter.phase(f"evaluating on {split!r}, {mode} (game plays)", count)
    frozen = partial(FrozenActor, parts.reasoner, greedy=mode == "greedy")
    actor = UniformActor if mode == "random" else frozen
    plays = play_passes(parts.environment, actor, split, passes=passes, seed=seed, after_play=after_play)
    figures = summarize(plays)
    if mode == "random":
        figures["passes"] = passes
        for name in ("steps", "norm_score", "score"):
            figures[name]["interval"] = _interval(figures[name], passes)
    return figures


def _random_passes(work: Work) -> int:
    """A mean over few plays of a random policy says little; more cost seconds, unless an environment is slow."""
    config, environment = work.recipe.evaluation, work.parts.environment
    usual = environment.random_passes if isinstance(environment, PlaysSlowly) else RANDOM_PASSES
    return config.random_passes or max(config.passes, usual)


def _interval(figure: Mapping[str, float | None], passes: int) -> list[float] | None:
    """The 95 % interval of the mean over passes, by Student's t to first order; None for fewer than ten."""
    mean, std = figure["mean"], figure["std"]
    if mean is None or std is None or passes < 10:
        return None
    half = (1.96 + (1.96**3 + 1.96) / (4 * (passes - 1))) * std / math.sqrt(passes)
    return [mean - half, mean + half]


def results_of(work: Work, progress: Progress, evaluation: dict[str, Any]) -> dict[str, Any]:
    """What results.json holds. There is no clock in it."""
    from cbrcore.cycle.evaluation import ood_gap

    retriever, protocol = work.parts.reasoner.retriever, _protocol(work.recipe, work.parts)
    scored = not all(map(unscored, protocol["games"]["train"].values()))
    scores = progress.recent_scores if scored else ()
    return {
        "schema": 1,
        "name": work.recipe.name,
        "evaluation": evaluation,
        "ood_gap": ood_gap(evaluation),
        "training": {
            "avg_score_last_100": statistics.fmean(scores) if scores else None,
            "best_score": progress.best_score if scored else None,
            "endings": dict(sorted(progress.endings.items())),
            "env_steps": progress.env_steps,
            "episodes": progress.games_played,
            "memory_size": len(retriever.memory) if retriever else 0,
            "pretraining": progress.pretraining,
            "skipped_updates": progress.skipped_updates,
            **_facts(work.parts.reasoner),
        },
        "protocol": protocol,
    }


def _facts(reasoner: CaseBasedReasoner) -> dict[str, Any]:
    """What parts have to say; nothing where none has."""
    parts: dict[str, Any] = {"reuse_policy": reasoner.reuse_policy}
    if reasoner.retriever is not None:
        parts["memory"] = reasoner.retriever.memory
    found = {name: dict(part.facts()) for name, part in parts.items() if isinstance(part, TellsFacts)}
    return {"facts": found} if found else {}


def unscored(facts: Mapping[str, Any]) -> bool:
    """Whether a game is one of points (it tells an `initial_score`) that nobody can read."""
    return facts.get("initial_score", 0) is None


def _protocol(recipe: Recipe, parts: Parts) -> dict[str, Any]:
    """What makes the task easier than the bare text game, and how it was measured."""
    from cbrcore.cycle.evaluation import same_games

    environment, reasoner = parts.environment, parts.reasoner
    games = {
        split: {game: dict(environment.game_info(game)) for game in environment.games(split)}
        for split in environment.splits()
    }
    handicaps = dict(environment.handicaps)  # some are known once the games are
    encoder = reasoner.retriever.encoder if reasoner.retriever else None
    for part in (reasoner.agent, reasoner.reuse_policy, encoder):
        handicaps |= part.handicaps if isinstance(part, TellsHandicaps) else {}
    return {
        "seed": recipe.seed,
        "handicaps": handicaps,
        "retry_failed": recipe.reuse_policy.settings.retries() if recipe.reuse_policy else None,
        "win_bonus": recipe.training.win_bonus,
        "evaluation_passes": recipe.evaluation.passes,
        **({"isolated": True} if recipe.run.isolate else {}),
        "games": games,
        **({"duplicates": same} if (same := same_games(environment)) else {}),
    }


def timing(progress: Progress) -> dict[str, Any]:
    """What timing.json holds: the clock's part of the records."""
    seconds = dict(progress.seconds)
    total = seconds.pop("total", 0.0)
    return {
        "seconds": total,
        "steps_per_second": progress.env_steps / total if total else 0.0,
        "shares": {name: part / total if total else 0.0 for name, part in sorted(seconds.items())},
    }
