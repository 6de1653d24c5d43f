"""The case memory keeps the contract of its kind, with each of its options."""

from __future__ import annotations

import pytest
import torch
from parts import DenseIndex, item

from cbr_memory.config import CaseMemoryConfig
from cbr_memory.memory import CaseMemory, case_memory
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.testing import MemorySuite
from cbrcore.types import Action, Provenance


class TestCaseMemory(MemorySuite):
    def make(self, build: Build) -> CaseMemory:
        return case_memory(CaseMemoryConfig(), build)

    def test_without_a_quantizer_it_says_what_to_do(self):
        with pytest.raises(CbrError, match="add a quantizer"):
            case_memory(CaseMemoryConfig(), Build())


class TestCaseMemoryWithEverything(MemorySuite):
    def make(self, build: Build) -> CaseMemory:
        return case_memory(CaseMemoryConfig(capacity=9, neighbours=3, outcome="both"), build)


def test_prototypes_are_the_different_keys_that_answer():
    """Cases of one key and other templates share one; one that leaves takes its key along if no other has it."""
    memory = CaseMemory(DenseIndex(), capacity=3)
    told = []
    first, second, third, fourth = (1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.2, 0.8)
    seen = [(first, "take"), (first, "put"), (first, "take"), (second, "take"), (third, "take"), (fourth, "take")]
    for step, (key, template) in enumerate(seen):
        action = Action(template, template, ("cup",))
        memory.add(item(torch.tensor(key), action), Provenance("game", 0, 1, step, 1.0), step=step)
        told.append((len(memory), memory.facts()["prototypes"]))
    assert told == [(1, 1), (2, 1), (2, 1), (3, 2), (3, 3), (3, 3)]
