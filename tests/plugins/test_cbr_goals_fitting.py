"""Fitting the weights: against loops, without a game's own cases, and whether it helps."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace

import pytest
import torch
from goal_parts import Goals

from cbr_goals.fitting import (
    CALIBRATION,
    RIDGE,
    Evidence,
    Ranks,
    Tried,
    Weights,
    fit,
    grouped,
    minimised,
    wrong_tries,
)


def sample(seed: int = 0, games: int = 4) -> Tried:
    """Cosines, tries and cases at random."""
    draw = torch.Generator().manual_seed(seed)

    def whole(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape, generator=draw)

    def real(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=draw, dtype=torch.float64)

    game = torch.arange(40) % games
    rows = torch.stack([whole(6, 40), whole(5, 40)], dim=1)
    first = real(6, 7, 2)
    first[1, 3], first[4, 3], first[2, 5, 0] = 1.0, 1.0, 1.0  # the same name twice; alike in one view
    return Tried(
        first=first,
        second=real(5, 4, 1),
        another=(first < 1).any(dim=2),
        rows=rows,
        cases=torch.stack([whole(7, 12), whole(4, 12)], dim=1),
        names=real(40),
        pair=real(40),
        right=whole(2, 40).bool(),
        game=game,
        origin=whole(games + 1, 12),
        groups=grouped(list(zip(game.tolist(), rows[:, 0].tolist(), strict=True))),
    )


def scores_by_loops(tried: Tried, values: list[float]) -> list[float]:
    """S of each try, a sum over the cases of other games and other first names."""
    *theta, w0, wc, w1, w2 = values
    found = []
    for row, (first, second) in enumerate(tried.rows.tolist()):
        total = 0.0
        for case, (one, other) in enumerate(tried.cases.tolist()):
            named = tried.first[first, one].tolist() == [1.0, 1.0]
            if tried.origin[case] != tried.game[row] and not named:
                cosines = [*tried.first[first, one].tolist(), *tried.second[second, other].tolist()]
                pairs = zip(theta, cosines, strict=True)
                total += math.exp(sum(max(0.0, weight) * (cosine - 1) for weight, cosine in pairs))
        own = w0 * tried.names[row].item() + wc * tried.pair[row].item()
        found.append(own + w1 * math.log(total + math.exp(w2)))
    return found


def loss_by_loops(tried: Tried, scores: list[float]) -> float:
    total = 0.0
    for group in tried.groups:
        right = [scores[row] for row in group if tried.right[row]]
        if 0 < len(right) < len(group):
            total -= math.log(sum(map(math.exp, right)) / sum(math.exp(scores[row]) for row in group))
    return total


VALUES = [[3.0, 1.0, 4.0, 2.0, 0.5, 1.0, -5.0], [0.0, 9.0, -2.0, 0.0, -1.0, 2.5, -1.0]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", VALUES)
def test_scores_and_loss_are_what_loops_compute(seed, values):
    tried = sample(seed)
    scores = Evidence(tried).scores(torch.tensor(values, dtype=torch.float64))
    expected = scores_by_loops(tried, values)
    assert scores.tolist() == pytest.approx(expected, abs=1e-12)
    loss = Ranks(tried.lists, tried.right).loss(scores)
    assert loss.item() == pytest.approx(loss_by_loops(tried, expected), abs=1e-9)


@pytest.mark.parametrize("values", VALUES)
def test_cases_of_the_same_game_change_nothing(values):
    """Not even in the last bit, whatever they are; cases of another game do."""
    tried, at = sample(), torch.tensor(values, dtype=torch.float64)
    before = Evidence(tried).scores(at)
    own = tried.game == 2
    cases = torch.cat([tried.cases, torch.tensor([[0, 0], [3, 2], [6, 3]])])
    more = replace(tried, cases=cases, origin=torch.cat([tried.origin, torch.tensor([2, 2, 2])]))
    after = Evidence(more).scores(at)
    assert torch.equal(after[own], before[own])
    assert (after[~own] != before[~own]).all()


@pytest.mark.parametrize("values", VALUES)
def test_cases_of_the_same_first_name_change_nothing(values):
    """Whatever game they are from."""
    tried, at = sample(), torch.tensor(values, dtype=torch.float64)
    own = (tried.rows[:, 0] == 1) | (tried.rows[:, 0] == 4)  # of the same name as the cases' name 3
    cases = torch.cat([tried.cases, torch.tensor([[3, 0], [3, 2], [3, 3]])])
    more = replace(tried, cases=cases, origin=torch.cat([tried.origin, torch.tensor([9, 9, 9])]))
    before, after = Evidence(tried).scores(at), Evidence(more).scores(at)
    assert torch.equal(after[own], before[own])
    assert (after[~own] != before[~own]).all()


def test_a_game_without_cases_of_others_has_no_evidence():
    tried = replace(sample(games=1), origin=torch.zeros(12, dtype=torch.int64))
    values = torch.tensor(VALUES[0], dtype=torch.float64)
    expected = 2.0 * tried.names + 0.5 * tried.pair - 5.0
    torch.testing.assert_close(Evidence(tried).scores(values), expected)
    assert math.isfinite(fit(tried, values[:3], Weights()).weights.w2)


def test_what_was_fitted_is_where_the_loss_is_least():
    """No step in any direction leads further down; and a, b fit the logistic loss."""
    tried = sample(1)
    theta, start = torch.tensor([1.5, 1.5, 3.0], dtype=torch.float64), Weights()
    found = fit(tried, theta, start)
    prior = [*theta.tolist(), start.w0, start.wC, start.w1, start.w2]
    best = [*found.theta.tolist(), found.weights.w0, found.weights.wC, found.weights.w1, found.weights.w2]

    def loss(values: list[float]) -> float:
        ridge = RIDGE * sum((one - other) ** 2 for one, other in zip(values, prior, strict=True))
        return loss_by_loops(tried, scores_by_loops(tried, values)) + ridge

    assert loss(best) < loss(prior)
    for at in range(len(best)):
        for step in (-0.05, 0.05):
            moved = [value + step * (place == at) for place, value in enumerate(best)]
            if moved[at] >= 0 or at >= 3:
                assert loss(moved) > loss(best) - 1e-9
    scores = scores_by_loops(tried, best)

    def logistic(a: float, b: float) -> float:
        right = zip(scores, tried.right.tolist(), strict=True)
        total = sum(math.log1p(math.exp(-(a * score + b) * (1 if good else -1))) for score, good in right)
        return total + RIDGE * ((a - CALIBRATION[0]) ** 2 + (b - CALIBRATION[1]) ** 2)

    a, b = found.weights.a, found.weights.b
    assert all(logistic(a + x, b + y) > logistic(a, b) for x, y in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)))


def test_no_view_and_no_case_is_ever_evidence_against(monkeypatch):
    """Where the tries say so, the weight is 0: that of a view, and that of all cases."""
    monkeypatch.setattr("cbr_goals.fitting.RIDGE", 0.01)  # few tries, at random
    theta = torch.tensor([1.5, 1.5, 3.0], dtype=torch.float64)
    fits = [fit(sample(seed), theta, Weights()) for seed in range(24)]
    for found in (torch.cat([one.theta for one in fits]), torch.tensor([one.weights.w1 for one in fits])):
        assert (found >= 0).all()
        assert (found == 0).any()


def test_the_minimum_of_a_parabola():
    found = minimised(torch.tensor([0.0], dtype=torch.float64), lambda at: (at - 5).square().sum())
    assert found.item() == pytest.approx(5 / (1 + RIDGE))
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("scores", "right", "groups", "expected"),
    [
        ([3, 2, 1], [True, False, False], [[0, 1, 2]], 0),
        ([1, 2, 3], [True, False, False], [[0, 1, 2]], 2),
        ([1, 2, 3], [True, False, True], [[0, 1, 2]], 0),  # before the first right one
        ([2, 2, 2], [True, False, False], [[0, 1, 2]], 1),  # equal ones: every second
        ([1, 2, 9, 9], [True, False, False, False], [[0, 1], [2, 3]], 1),  # nothing right: not counted
        ([1, 2, 5, 4], [True, False, True, False], [[0, 1], [2, 3]], 0.5),
        ([1, 2], [False, False], [[0, 1]], None),
    ],
)
def test_wrong_tries_by_hand(scores, right, groups, expected):
    assert wrong_tries(scores, right, groups) == expected


def test_every_field_of_the_weights_is_fitted():
    found = fit(sample(2), torch.tensor([1.5, 1.5, 3.0], dtype=torch.float64), Weights()).weights
    same = [
        field.name for field in fields(Weights) if getattr(found, field.name) == getattr(Weights(), field.name)
    ]
    assert same == []


# -- does it learn? ----------------------------------------------------------------------------------------------

KINDS = {"shirt": "wardrobe", "hat": "hat rack", "cup": "cupboard", "knife": "drawer", "apple": "fridge"}
COLOURS = ("red", "blue", "green", "black", "white", "old", "new", "plain")


class Words:
    """A text is the sum of random vectors of its words: things of a kind are alike, so are those of a colour."""

    dim, identity = 32, "sums"

    def encode(self, texts):
        return torch.stack([sum(self._word(word) for word in text.split()) for text in texts])

    def _word(self, word: str) -> torch.Tensor:
        seed = int.from_bytes(word.encode(), "little") % 2**31
        weight = 1.5 if word in COLOURS else 1.0  # the words that mean nothing here speak louder
        return weight * torch.randn(self.dim, generator=torch.Generator().manual_seed(seed))


def houses(seed: int, views: tuple[str, ...]) -> Goals:
    """Eight games of six things, each tried in some wrong places before the right one."""
    goals, rng = Goals(Words(), first=views), random.Random(seed)
    for game in map(str, range(8)):
        for number in range(6):
            kind, place = rng.choice(sorted(KINDS.items()))
            thing = f"{rng.choice(COLOURS)} {kind}"
            others = [other for other in KINDS.values() if other != place]
            for wrong in rng.sample(others, rng.randrange(1, 5)):
                goals.tried(game, thing, wrong)
            goals.tried(game, thing, place, right=True)
            goals.case(thing, place, game=game, step=number)
    return goals


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(5))
def test_a_fit_finds_the_view_that_tells_and_saves_half_of_the_wrong_tries(seed):
    goals = houses(seed, ("full", "head", "state"))
    memory = goals.memory
    tried = memory._as_tried()
    before = torch.cat([goals.kernel.start, goals.kernel.start.new_tensor([2.0, 0.0, 1.0, -5.0])])
    scores = Evidence(tried).scores(before).tolist()
    untrained = wrong_tries(scores, tried.right.tolist(), tried.groups)
    figures = memory.fit()
    assert figures["wrong_tries"] < 0.5 * untrained
    assert figures["theta.first.head"] > figures["theta.first.state"]
    right = [name for name, good in memory.tries.items() if good]
    wrong = [name for name, good in memory.tries.items() if not good]
    p_right, p_wrong = (memory.weigh(goals.keys(*(name.entities for name in some))) for some in (right, wrong))
    assert p_right.mean() > 0.7 > 0.3 > p_wrong.mean()
