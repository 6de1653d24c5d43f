"""The suites for authors notice what breaks the contract: each fault is planted in a part that is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy import ToyEnvironment

from cbrcore.interfaces import Build
from cbrcore.testing import EnvironmentSuite, QuantizerSuite, sample_observation


class Playing(ToyEnvironment):
    """One that works at once and answers later, as an engine in another process does."""

    def send(self, action):
        self._answer = self.step(action)

    def receive(self):
        return self._answer


class ForgetsASplit(Playing):
    def games(self, split):
        return () if split == "out" else super().games(split)


class KnowsEverySplit(Playing):
    def games(self, split):
        return super().games(split if split in self.splits() else "train")


class ShufflesASplit(Playing):
    asked = 0

    def games(self, split):
        self.asked += 1
        return super().games(split)[:: 1 if self.asked % 2 else -1]


class PlaysOneSplitOnly(Playing):
    def reset(self, game, seed):
        seen = super().reset(game, seed)
        return replace(seen, admissible=seen.admissible[::-1]) if game == "coats" else seen


class RemembersPlays(Playing):
    plays = 0

    def reset(self, game, seed):
        self.plays += 1
        return replace(super().reset(game, seed), feedback=f"Play {self.plays}.")


class AnswersTheCommandBefore(Playing):
    _late = None

    def receive(self):
        late, self._late = self._late or self._answer, self._answer
        return late


class Suite(EnvironmentSuite):
    """pytest collects it by no name of its own."""

    made = Playing

    def make(self, build):
        return self.made()


CHECKS = [name for name in dir(EnvironmentSuite) if name.startswith("test_")]
FAULTS = {
    ForgetsASplit: {"test_every_split_has_games_and_each_can_be_begun"},
    KnowsEverySplit: {"test_an_unknown_split_is_refused"},
    ShufflesASplit: {"test_every_split_has_games_and_each_can_be_begun"},
    PlaysOneSplitOnly: {"test_every_split_has_games_and_each_can_be_begun"},
    RemembersPlays: {"test_equal_seeds_give_equal_plays"},
    AnswersTheCommandBefore: {"test_sending_and_receiving_is_a_step"},
    Playing: set(),
}


@pytest.mark.parametrize("made", FAULTS, ids=lambda made: made.__name__)
def test_an_environment_with_this_fault_fails_these_tests(made):
    failed = set()
    for name in CHECKS:
        suite = Suite()
        suite.made = made
        try:
            getattr(suite, name)(Build())
        except (AssertionError, pytest.fail.Exception):
            failed.add(name)
    assert failed == FAULTS[made]


class Reporting:
    def __init__(self, said):
        self.said = said

    @property
    def part(self):
        kind = type("Part", (), {"metrics": lambda self: {"hits": 1.0, "misses": 0.0}})
        kind.metrics.__doc__ = self.said
        return kind()


@pytest.mark.parametrize(
    ("said", "documented"),
    [
        ("Of the cache.\n\nhits: what it knew.\nmisses: what it did not.", True),
        ("Of the cache.\n\nhits: what it knew.", False),
        ("hits and misses: of the cache.", False),
        ("hits:\nmisses: what it did not know.", False),
        (None, False),
    ],
)
def test_metrics_without_a_meaning_are_noticed(said, documented):
    suite = type("Asked", (QuantizerSuite,), {"make": lambda self, build: Reporting(said).part})()
    if documented:
        suite.test_each_of_its_metrics_is_documented(Build())
    else:
        with pytest.raises(AssertionError):
            suite.test_each_of_its_metrics_is_documented(Build())


def test_the_sample_is_an_observation_that_the_suite_accepts():
    Suite().check_observation(sample_observation())
