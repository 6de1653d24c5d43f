"""Retrieve and revise, at the start of an episode."""

from __future__ import annotations

import random

from cbr_explorer.config import ExplorerConfig
from cbr_explorer.memory import GameMemory
from cbr_explorer.retrieval import RETRIEVALS
from cbr_explorer.revision import REVISIONS, Plan


def begin_plan(memory: GameMemory, config: ExplorerConfig, rng: random.Random, *, exploits: bool) -> Plan:
    """What an episode replays; nothing where there is no case yet."""
    if exploits:
        return best_plan(memory)
    number = RETRIEVALS[config.retrieval](memory, config, rng)
    if number is None:
        return Plan(0, [])
    steps = memory.solution(number)
    if config.revise and rng.random() < config.revise_share:
        for name in rng.sample(config.revise, len(config.revise)):
            plan = REVISIONS[name](memory, number, steps, rng)
            if plan is not None:
                return plan
    return Plan(number, steps)


def best_plan(memory: GameMemory) -> Plan:
    """The whole episode that ended with the best score, if no case has a better one; else that case."""
    archive = memory.archive
    if archive.best is None:
        return Plan(0, [])
    score, node = archive.best
    if archive.final is not None and archive.final[0] >= score:
        node = archive.final[1]
    steps = archive.steps(node)
    return Plan(archive.nearest_case(node), steps)
