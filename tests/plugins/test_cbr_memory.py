"""The case memory keeps the contract of its kind, with each of its options."""

from __future__ import annotations

import pytest

from cbr_memory.config import CaseMemoryConfig
from cbr_memory.memory import CaseMemory, case_memory
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.testing import MemorySuite


class TestCaseMemory(MemorySuite):
    def make(self, build: Build) -> CaseMemory:
        return case_memory(CaseMemoryConfig(), build)

    def test_without_a_quantizer_it_says_what_to_do(self):
        with pytest.raises(CbrError, match="add a quantizer"):
            case_memory(CaseMemoryConfig(), Build())


class TestCaseMemoryWithEverything(MemorySuite):
    def make(self, build: Build) -> CaseMemory:
        return case_memory(CaseMemoryConfig(capacity=9, neighbours=3, outcome="both"), build)
