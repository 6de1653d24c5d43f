"""The learner keeps the contract of its kind. What its losses are: `tests/test_a2c.py` and its like."""

from __future__ import annotations

from cbr_a2c.learner import A2cLearner
from cbrcore.config import NoSettings
from cbrcore.interfaces import Build
from cbrcore.testing import LearnerSuite


class TestA2cLearner(LearnerSuite):
    def make(self, build: Build) -> A2cLearner:
        return A2cLearner(NoSettings(), build)
