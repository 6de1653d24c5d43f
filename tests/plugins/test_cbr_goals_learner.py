"""The learner around another one: when it fits, and what it leaves to the other."""

from __future__ import annotations

import pytest
import torch
from goal_parts import Goals, Table

from cbr_a2c.learner import A2cLearner
from cbr_goals.config import FitConfig
from cbr_goals.learner import Fit
from cbrcore.config import NoSettings, Part
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Stopwatch
from cbrcore.rng import Streams
from cbrcore.testing import LearnerSuite, sample_player

INNER = Part(use="cbr_a2c/a2c", settings=NoSettings())


def fit_learner(every: int = 2) -> Fit:
    return Fit(FitConfig(every=every, learner=INNER), Build(make=lambda setting, build: A2cLearner()))


def with_goals() -> CaseBasedReasoner:
    cases = Goals(Table({"cup": [1.0, 0.0], "rack": [0.0, 1.0]}))
    player = sample_player()
    player.retriever = Retriever(cases.encoder, cases.kernel, cases.memory)
    return player


class TestFit(LearnerSuite):
    def make(self, build):
        return fit_learner()

    def player(self, build):
        return with_goals()


@pytest.mark.parametrize("every", [1, 2, 4])
def test_it_fits_after_so_many_plays_also_where_a_run_was_resumed(every, monkeypatch):
    player, fitted = with_goals(), []
    monkeypatch.setattr(player.retriever.memory, "fit", lambda: fitted.append(learner._plays) or {})
    learner = fit_learner(every)
    learner.begin([player], LearnerSuite.training, Streams(0), Stopwatch())
    TestFit().play(learner, player, Streams(0))  # six plays
    assert fitted == list(range(every, 7, every))
    tensors = dict(learner.tensors())
    learner = fit_learner(every)
    learner.begin([player], LearnerSuite.training, Streams(0), Stopwatch())
    learner.load_tensors(tensors)
    fitted.clear()
    TestFit().play(learner, player, Streams(0))
    assert fitted == [plays for plays in range(7, 13) if plays % every == 0]


def test_without_evidence_it_says_what_to_do():
    with pytest.raises(CbrError, match="cbr_goals/evidence"):
        fit_learner().begin([sample_player()], LearnerSuite.training, Streams(0), Stopwatch())


def test_the_agent_learns_as_with_the_learner_within():
    weights = []
    for learner in (fit_learner(), A2cLearner()):
        player = with_goals()
        learner.begin([player], LearnerSuite.training, Streams(0), Stopwatch())
        TestFit().play(learner, player, Streams(0))
        weights.append([value.clone() for value in player.agent.state_dict().values()])
    assert all(map(torch.equal, *weights))
