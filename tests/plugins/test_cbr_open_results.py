"""The tables of a run's results, number by number, and the notes below them."""

from __future__ import annotations

import pytest

from cbr_open.results import results_table


def figures(steps, score, norm=None, **of_norm):
    """What was measured of some games."""
    shares = {"mean": None, "std": None} if norm is None else {"mean": norm, "std": 0.25}
    return {
        "steps": {"mean": steps, "std": 0.5},
        "score": {"mean": score, "std": 1.25},
        "norm_score": shares | of_norm,
        "games": {name: {"norm_score": norm} for name in ("cup", "pan")},
    }


def of_split(number, optimal, norm=None, modes=("sampled", "greedy"), **of_norm):
    measured = [figures(number + at, 10 * number + at, norm, **of_norm) for at in range(3)]
    others = dict(zip(modes[1:], measured[1:], strict=False))
    return measured[0] | {"mode": modes[0], "random": measured[2], "optimal_steps": optimal} | others


def results(evaluation, train=None, **facts):
    training = {"episodes": 250, "avg_score_last_100": 3.25, "best_score": 7.0}
    games = {split: {"cup": dict(facts), "pan": dict(facts)} for split in evaluation} | {"train": train or {}}
    return {"name": "toy", "evaluation": evaluation, "training": training, "protocol": {"games": games}}


def cells_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "--" not in line
    ]


def test_a_table_of_results_number_by_number():
    evaluation = {"in": of_split(5, 3.0, 0.5), "out": of_split(8, None, 0.75)}
    assert cells_of(results_table(results(evaluation, max_score=2.0))) == [
        ["agent", "IN #steps", "IN norm. score", "OUT #steps", "OUT norm. score"],
        ["toy (sampled)", "5.0 ± 0.5", "0.50 ± 0.25", "8.0 ± 0.5", "0.75 ± 0.25"],
        ["toy (greedy)", "6.0 ± 0.5", "0.50 ± 0.25", "9.0 ± 0.5", "0.75 ± 0.25"],
        ["uniform random", "7.0 ± 0.5", "0.50 ± 0.25", "10.0 ± 0.5", "0.75 ± 0.25"],
        ["optimal", "3.0", "1.00", "-", "1.00"],
    ]


@pytest.mark.parametrize("modes", [("greedy", "sampled"), ("greedy",), ("sampled",)])
def test_a_row_of_a_table_for_each_mode_the_main_one_first(modes):
    table = cells_of(results_table(results({"in": of_split(5, None, 0.5, modes)}, max_score=2.0)))
    agents = [f"toy ({mode})" for mode in modes]
    assert [row[0] for row in table] == ["agent", *agents, "uniform random"]  # nobody knows the optimum
    assert [row[1] for row in table[1:-1]] == [f"{5 + at}.0 ± 0.5" for at in range(len(modes))]


@pytest.mark.parametrize("games", [1, 0])
def test_a_mean_over_some_games_tells_their_number(games):
    table = cells_of(results_table(results({"in": of_split(5, 1.0, 0.5, games=games)}, max_score=2.0)))
    assert [row[2] for row in table[1:]] == [*[f"0.50 ± 0.25 ({games} of 2 games)"] * 3, "1.00"]


def test_games_without_a_maximum_have_a_note_instead_of_a_share():
    table, *notes = results_table(results({"in": of_split(5, 1.0), "out": of_split(6, 1.0, 0.5)})).split("\n\n")
    assert [row[2] for row in cells_of(table)[1:]] == [*["- ± -"] * 3, "-"]
    assert notes == ["IN norm. score of cup, pan: not available: the game tells no maximum"]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ({"in": (2.0, 30.0, 2.0), "out": (5.04, 4.96)}, "#steps by game: IN 2.0 to 30.0, OUT 5.0 to 5.0"),
        ({"in": (2.0,), "out": (7.0, 3.0)}, "#steps by game: OUT 3.0 to 7.0"),
        ({"in": (2.0,)}, None),
        ({"in": (None, 3.0)}, None),
    ],
)
def test_beside_the_mean_stand_the_fewest_and_the_most_steps_of_a_game(steps, says):
    told = results({split: of_split(5, 1.0, 0.5) for split in steps}, max_score=2.0)
    for split, values in steps.items():
        told["evaluation"][split]["games"] = {
            f"game {at}": {"steps": value, "norm_score": 0.5} for at, value in enumerate(values)
        }
    assert results_table(told).split("\n\n")[1:] == ([says] if says else [])


@pytest.mark.parametrize(
    ("pretraining", "says"),
    [
        ({"steps": 2000, "plays": 50}, "trained: 25,000 steps + 2,000 of pretraining"),
        ({"retriever": "ab", "steps": None}, "trained: 25,000 steps + pretraining, not counted"),
        ({"items": 7}, "trained: 25,000 steps + pretraining, not counted"),  # of an older version
        ({}, None),
        (None, None),
    ],
)
def test_the_steps_of_a_pretraining_are_told(pretraining, says):
    told = results({"in": of_split(5, 1.0, 0.5)}, max_score=2.0)
    told["training"] |= {"env_steps": 25000, "pretraining": pretraining}
    assert results_table(told).split("\n\n")[1:] == ([says] if says else [])


def test_of_raw_points_the_training_is_told_too():
    played = {"zork": {"initial_score": 0, "max_score": 350}}
    told = results({"train": of_split(5, None)}, initial_score=0)
    told["protocol"]["games"]["train"] = played
    training, evaluation = map(cells_of, results_table(told).split("\n\n"))  # no note
    assert training == [
        ["training on", "initial", "last 100 episodes", "best", "maximum"],
        ["zork", "0", "3.2", "7", "350"],
    ]
    assert evaluation[0] == ["agent", "TRAIN #steps", "TRAIN score"]
    assert [row[2] for row in evaluation[1:]] == ["50.0 ± 1.2", "51.0 ± 1.2", "52.0 ± 1.2"]


@pytest.mark.parametrize(
    ("games", "row"),
    [
        ({"a": {"max_score": 5, "initial_score": 2}}, ["a", "2", "3.2", "7", "5"]),
        ({"a": {"max_score": 5}, "b": {"max_score": 6}}, ["a, b", "-", "3.2", "7", "-"]),
        ({}, ["", "-", "3.2", "7", "-"]),
    ],
)
def test_without_an_evaluation_the_training_is_the_table(games, row):
    told = results({}, games)
    assert cells_of(results_table(told))[1] == row
    told["training"] |= {"episodes": 40, "avg_score_last_100": None}
    assert cells_of(results_table(told))[0][2] == "last 40 episodes"
    assert cells_of(results_table(told))[1][2] == "-"
