"""Shortest solutions: the benchmark's table, and plans that win when they are played."""

from __future__ import annotations

import json
import statistics
from collections import deque
from pathlib import Path

import pytest
from twc_games import LEVELS, json_files, published

from cbr_twc.files import FOLDERS
from cbr_twc.planner import optimal_plan
from cbr_twc.reading import load_game
from cbr_twc.world import PLAYER, admissible, apply
from cbrcore.errors import GameError
from cbrcore.types import Action, Ending

TABLE = {
    ("easy", "train"): (2.00, 0.00),
    ("easy", "in"): (2.40, 0.55),
    ("easy", "out"): (2.40, 0.55),
    ("medium", "train"): (5.60, 0.55),
    ("medium", "in"): (4.40, 1.14),
    ("medium", "out"): (3.60, 0.55),
    ("hard", "train"): (13.40, 1.82),
    ("hard", "in"): (13.60, 1.67),
    ("hard", "out"): (14.00, 1.00),
}
"""Mean and sample standard deviation of the optimal number of steps over the five games of each split."""


@pytest.mark.parametrize(("level", "split"), TABLE)
def test_optimal_steps_are_those_of_the_benchmark(games_dir, level, split):
    folder = games_dir / "twc" / level / FOLDERS[split]
    lengths = [len(optimal_plan(path)) for path in folder.glob("*.json")]
    found = round(statistics.mean(lengths), 2), round(statistics.stdev(lengths), 2)
    assert found == TABLE[level, split]


@pytest.mark.parametrize("level", LEVELS)
def test_plans_win_in_the_game_itself(games_dir, level):
    environment = published(games_dir, level, verify="always")
    for split in environment.splits():
        for name in environment.games(split):
            environment.reset(name, 0)
            plan = optimal_plan(environment._find(name).json)
            results = [environment.step(Action(command, command)) for command in plan]
            assert [result.ending for result in results] == [None] * (len(plan) - 1) + [Ending.WON], name
    environment.close()


def test_goals_from_the_quests_are_those_of_the_metadata(games_dir):
    for path in json_files(games_dir):
        stated = json.loads(path.read_text())["metadata"]["goal_locations"]
        found = {goal.thing: set(goal.places) for goal in load_game(path).goals}
        assert found == {thing.lower(): {place.lower() for place in places} for thing, places in stated.items()}


def shortest_by_brute_force(path: Path) -> int:
    """Breadth-first over whole worlds and all admissible commands that change something."""
    game = load_game(path)
    queue, seen = deque([(game.start.copy(), frozenset(), 0)]), set()
    while queue:
        world, done, steps = queue.popleft()
        if len(done) == len(game.goals):
            return steps
        for action in admissible(world, game):
            after = world.copy()
            apply(after, action, game)
            reached = done | {goal.thing for goal in game.goals if after.place[goal.thing] in goal.places}
            if (state := (after.key, reached)) not in seen:
                seen.add(state)
                queue.append((after, reached, steps + 1))
    raise AssertionError("no solution")


def test_no_shorter_solution_exists(games_dir):
    """The slow twin: all commands, all states. Small games only."""
    small = [path for path in json_files(games_dir) if len(load_game(path).things) <= 2]
    assert len(small) >= 15
    for path in small:
        assert len(optimal_plan(path)) == shortest_by_brute_force(path), path.stem


def test_a_thing_that_is_held_at_the_start_is_not_taken(games_dir):
    held = [path for path in json_files(games_dir) if load_game(path).start.contents[PLAYER]]
    for path in held:
        for thing in load_game(path).start.contents[PLAYER]:
            assert not any(command.startswith(f"take {thing}") for command in optimal_plan(path))
    assert held


def test_a_closed_house_is_left_to_others(games_dir, tmp_path):
    path = tmp_path / "closed.json"
    text = next(path for path in json_files(games_dir) if load_game(path).containers).read_text()
    path.write_text(text.replace('"name": "open"', '"name": "closed"'))
    with pytest.raises(GameError, match="closed"):
        optimal_plan(path)
