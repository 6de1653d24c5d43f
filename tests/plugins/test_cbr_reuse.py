"""The paper's rule of reuse and revise; how it decides step by step is in test_reasoner.py."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from parts import paper_rule

from cbr_reuse.config import DoubtingConfig, MostRelevantConfig
from cbr_reuse.doubting import Doubting
from cbr_reuse.most_relevant import MostRelevant
from cbrcore.interfaces import KeepsState, Places
from cbrcore.testing import PUT, ReusePolicySuite, sample_observation
from cbrcore.types import Decision, StepResult


class TestMostRelevant(ReusePolicySuite):
    def make(self, build):
        return MostRelevant(MostRelevantConfig(), build)

    @pytest.mark.parametrize(("retry", "again"), [(True, "admissible"), (False, "solved")])
    def test_an_object_whose_goal_was_reached_is_left_alone_if_asked_to(self, build, retry, again):
        seen = sample_observation()
        reuse = paper_rule(retry_solved=retry).begin(self.retriever(build), learning=False)
        chosen = self.decide(reuse, seen)
        assert chosen.action == PUT
        reuse.observe(Decision(PUT, "reuse", chosen=chosen), StepResult(seen, 1.0))
        offered = [candidate for candidate in reuse.offer(seen, seen.graph) if candidate.action == PUT]
        assert {candidate.verdict for candidate in offered} == {again}
        assert (self.decide(reuse, seen) is None) is not retry

    @pytest.mark.parametrize("mapped", [True, False])
    def test_what_failed_in_a_room_may_be_tried_in_the_next_and_not_there_again(self, build, mapped):
        seen = sample_observation()
        here = ["hall"]
        told = replace(build, places=(lambda _: Places(here[0], {}, {})) if mapped else None)
        rule = MostRelevant(MostRelevantConfig(retry_failed=False), told)
        reuse = rule.begin(self.retriever(build), learning=False)

        def tried(room: str) -> bool:
            here[0] = room
            chosen = self.decide(reuse, seen)
            if chosen is not None:
                reuse.observe(Decision(PUT, "reuse", chosen=chosen), StepResult(seen, 0.0))
            return chosen is not None

        rooms = ("hall", "hall", "attic", "hall", "attic", "cellar")
        assert [tried(room) for room in rooms] == (
            [True, False, True, False, False, True] if mapped else [True, *[False] * 5]
        )

    @pytest.mark.parametrize(
        ("reward", "rescored", "failed"),
        [(0.0, False, True), (-1.0, False, True), (1.0, False, False), (0.0, True, False)],
    )
    def test_a_reuse_fails_where_nothing_is_or_was_earned(self, build, reward, rescored, failed):
        seen = sample_observation()
        reuse = paper_rule(retry_failed=False).begin(self.retriever(build), learning=False)
        result = StepResult(seen, reward, rescored=rescored)
        assert reuse.observe(Decision(PUT, "reuse", chosen=self.decide(reuse, seen)), result) is failed
        assert reuse.observe(Decision(PUT, "agent"), result) is False  # nothing was reused
        tried_again = self.decide(reuse, seen) is not None
        assert tried_again is not failed  # what was put back in its place may be put there again


class TestDoubting(ReusePolicySuite):
    def make(self, build):
        return Doubting(DoubtingConfig(doubt=0.5), build)

    def reused(self, policy: Doubting, build, times: int, *, learning: bool = True) -> list[bool]:
        """Of so many episodes, whether the fitting case was reused in the first step."""
        seen, retriever = sample_observation(), self.retriever(build)
        return [self.decide(policy.begin(retriever, learning=learning), seen) is not None for _ in range(times)]

    def test_so_many_cases_are_doubted_while_it_learns_and_none_when_it_is_measured(self, build):
        for doubt, least, most in [(0.0, 400, 400), (0.1, 340, 380), (0.5, 170, 230), (1.0, 0, 0)]:
            policy = Doubting(DoubtingConfig(doubt=doubt), build)
            assert least <= sum(self.reused(policy, build, 400)) <= most
            assert all(self.reused(policy, build, 20, learning=False))

    def test_its_draws_depend_on_the_seed_and_go_on_after_a_checkpoint(self, build):
        whole, other = (
            self.reused(self.make(build), build, 60),
            self.reused(self.make(replace(build, seed=9)), build, 60),
        )
        assert whole != other
        first, second = self.make(build), self.make(build)
        assert isinstance(first, KeepsState)
        begun = self.reused(first, build, 25)
        self.reused(first, build, 5, learning=False)  # draws nothing
        second.load_state(json.loads(json.dumps(first.state())))
        assert begun + self.reused(second, build, 35) == whole
