"""The explorer's archive: cases, their solutions, dominance, ways between spots, and what a checkpoint holds."""

from __future__ import annotations

import json
import random

import pytest
from explorer_parts import GAME, House, case_at, explorer, force, memory_after, play, texts

from cbr_explorer.archive import ANYWHERE, ROOT, Archive, Step
from cbr_explorer.config import ExplorerConfig
from cbr_explorer.memory import GameMemory
from cbr_explorer.scene import Scene, read_scene, sentences
from cbr_explorer.ways import Ways
from cbrcore.interfaces import Places
from cbrcore.testing import sample_observation

LONG = ["sing", "east", "west", "take lamp", "east", "down", "open chest"]
SHORT = ["take lamp", "east", "down", "open chest"]


# -- cases -------------------------------------------------------------------------------------------------------


def test_a_case_is_a_world_with_a_score_and_has_the_commands_that_lead_there():
    memory = memory_after(LONG)
    number = case_at(memory, *LONG)
    case = memory.archive.cases[number]
    assert (case.score, case.carried, memory.archive.rooms.values[case.room]) == (5, 1, "cellar")
    assert texts(memory, memory.archive.steps(case.node)) == LONG
    assert [step.earns for step in memory.archive.steps(case.node)] == [False] * 6 + [True]
    assert case_at(memory, "sing") == case_at(memory), "nothing changed: the case of the start"


def test_a_shorter_solution_replaces_a_longer_one_and_no_longer_one_a_shorter():
    memory = memory_after(LONG, SHORT)
    case = memory.archive.cases[case_at(memory, *LONG)]
    assert case_at(memory, *LONG) == case_at(memory, *SHORT)
    assert texts(memory, memory.archive.steps(case.node)) == SHORT
    again = memory_after(SHORT, LONG)
    assert texts(again, again.archive.steps(again.archive.cases[case_at(again, *LONG)].node)) == SHORT


def test_dominance_is_among_cases_of_equal_score_things_and_room():
    """To the kitchen without the lamp is shorter, but it is another cell than with it."""
    memory = memory_after(["east"], ["take lamp", "sing", "east"], ["take lamp", "east"], ["east", "ring bell"])
    archive = memory.archive
    kitchens = {
        (score, archive.loads.values[load]): texts(memory, archive.steps(archive.cases[number].node))
        for (score, load, room), number in archive.cells.items()
        if archive.rooms.values[room] == "kitchen"
    }
    assert kitchens == {
        (0.0, ""): ["east"],
        (0.0, "a lamp"): ["take lamp", "east"],
        (1.0, ""): ["east", "ring bell"],
    }


def test_of_a_cell_only_the_shortest_case_counts():
    """With the lamp in the hall or in the kitchen: two worlds of the cell "in the cellar with nothing"."""
    far = ["take lamp", "east", "drop lamp", "down"]
    memory = memory_after(far, ["east", "down"])
    archive = memory.archive
    near = archive.cases[case_at(memory, "east", "down")]
    assert case_at(memory, *far) != case_at(memory, "east", "down")
    assert archive.cells[0.0, near.load, near.room] == case_at(memory, "east", "down")


def test_the_best_case_and_the_best_end():
    memory = memory_after(SHORT)
    assert memory.archive.best == (5.0, 4)
    assert memory.archive.final is None, "the episode has not ended"
    assert memory_after(LONG, SHORT).archive.best == (5.0, len(LONG) + 4), "the shorter one"
    assert memory_after(SHORT, LONG).archive.best == (5.0, 4)
    policy, house = explorer(), House(max_steps=2)
    force(policy, house, ["east", "ring bell"])
    force(policy, house, ["sing", "sing"])
    assert policy.memory(GAME).archive.final == (1.0, 2)


def test_of_each_score_the_shortest_commands_are_told():
    """Two worlds with 5 points, the one that was met first further off; the game ends with 9: no case there."""
    memory = GameMemory(ExplorerConfig())
    archive, ends = memory.archive, {}
    numbers = {text: archive.command(text, text) for text in ("east", "dig", "win")}
    for way, score in ((["east", "east", "dig"], 5.0), (["east", "dig"], 5.0)):
        node = ROOT
        for text in way:
            node = archive.add(node, numbers[text], 0.0)
        archive.retain(node, Scene(f"world {len(way)}", "view", "room", frozenset()), score, 1)
        ends[len(way)] = node
    last = archive.add(ends[2], numbers["win"], 4.0)
    archive.note_score(last, 9.0, ended=True)
    assert memory.sequences() == [
        {"score": 9.0, "case": None, "commands": ["east", "dig", "win"]},
        {"score": 5.0, "case": 2, "commands": ["east", "dig"]},
    ]


def test_where_a_game_ends_there_is_no_case():
    memory = memory_after(["east", "down", "jump"])
    assert case_at(memory, "east", "down", "jump") == -1
    assert len(memory.archive) == 4
    assert memory.archive.nearest_case(3) == case_at(memory, "east", "down")


def test_where_points_were_lost_there_is_no_case_and_the_next_command_has_no_place():
    policy = explorer()
    force(policy, House(toll="down"), [*SHORT, "up", "west"])
    archive = (memory := policy.memory(GAME)).archive
    assert case_at(memory, *SHORT[:3]) == -1
    steps = archive.steps(archive.cases[case_at(memory, *SHORT)].node)
    assert texts(memory, steps) == SHORT
    assert [archive.rooms.values[step.room] for step in steps[:3]] == ["hall", "hall", "kitchen"]
    assert steps[3] == Step(archive.commands.get("open chest", -1), ANYWHERE, ANYWHERE, earns=True)


# -- ways --------------------------------------------------------------------------------------------------------


def test_a_way_is_put_together_from_pieces_of_several_episodes():
    """The second episode came to the kitchen with the lamp in a shorter way; what the first did there is known."""
    memory = memory_after(["sing", "east", "west", "take lamp", "east", "down"], ["take lamp", "east"])
    number = case_at(memory, "sing", "east", "west", "take lamp", "east", "down")
    assert memory.archive.length(number) == 6
    assert memory.length(number) == 3
    assert texts(memory, memory.solution(number)) == ["take lamp", "east", "down"]
    memory.counts.failed[number] = None
    assert memory.length(number) == 6
    assert len(memory.solution(number)) == 6


def test_what_a_command_does_is_believed_until_it_does_something_else():
    ways = Ways()
    for view in range(4):
        ways.spot(0.0, view, view, 0)
    for edge in ((0, 7, 1), (1, 7, 2), (0, 8, 3), (3, 8, 2)):
        ways.link(*edge)
    assert ways.to(2) == [(0, 7), (1, 7)]
    ways.link(1, 7, 3)
    assert ways.to(2) == [(0, 8), (3, 8)]
    assert ways.between(1, 2) == [(1, 7), (3, 8)]
    assert ways.between(2, 1) is None


@pytest.mark.parametrize("seed", range(20))
def test_distances_that_are_kept_up_to_date_are_those_of_a_search_from_the_start(seed):
    """The slow twin: breadth first over the edges as they are after each step."""
    rng, ways, edges = random.Random(seed), Ways(), dict[tuple[int, int], int]()
    for view in range(12):
        ways.spot(0.0, view, view, 0)
    for _ in range(60):
        spot, command, after = rng.randrange(12), rng.randrange(3), rng.randrange(12)
        edges[spot, command] = after
        ways.link(spot, command, after)
        distance = {0: 0}
        queue = [0]
        for here in queue:
            for (start, _), there in sorted(edges.items()):
                if start == here and there not in distance:
                    distance[there] = distance[here] + 1
                    queue.append(there)
        assert {spot: ways.distance(spot) for spot in range(12) if ways.distance(spot) is not None} == distance
        for goal, length in distance.items():
            way, here = ways.to(goal), 0
            assert len(way) == length
            for there, command_there in way:
                assert there == here
                here = edges[there, command_there]
            assert here == goal


# -- scenes ------------------------------------------------------------------------------------------------------


def test_without_fingerprint_and_places_the_texts_tell():
    seen = sample_observation()
    one, other = read_scene(seen), read_scene(seen)
    assert one == other
    assert one.room in seen.description
    world, view = str(("hall", "hall", False, False)), str(("hall\nThere is a lamp.", "", False))
    assert read_scene(House().reset()) == Scene(world, view, "hall", frozenset())


def test_places_tell_room_and_things_carried():
    found = Places("den", {"den": {}}, {"cup": "you", "mat": "den", "key": "cup"}, player="you")
    scene = read_scene(sample_observation(), lambda seen: found)
    assert (scene.room, scene.carried, scene.load) == ("den", {"cup"}, "cup")


def test_sentences_are_told_apart():
    assert sentences("Taken. It is dark.\nTaken.") == sentences("It is dark! Taken") != sentences("Taken")


# -- checkpoints -------------------------------------------------------------------------------------------------


def test_what_is_kept_is_plain_data_and_enough_to_go_on_in_the_same_way():
    policy, house = explorer(seed=3), House()
    for _ in range(15):
        play(policy, house)
    kept = json.loads(json.dumps(policy.state(), allow_nan=False))
    other = explorer(seed=3)
    other.load_state(kept)
    assert json.loads(json.dumps(other.state())) == kept
    for _ in range(15):
        assert play(policy, house) == play(other, house)
    assert policy.state() == other.state()
    assert (policy.metrics(), policy.facts()) == (other.metrics(), other.facts())


def test_what_is_counted_is_kept():
    memory = memory_after(SHORT)
    memory.counts.failed[2] = memory.counts.revised[0, 1, 2] = None
    memory.counts.cells[0.0, 1, 2] = memory.counts.loads[0.0, 1] = 3
    other = memory_after()
    other.load_state(json.loads(json.dumps(memory.state())))
    assert other.counts == memory.counts


def test_an_entry_of_the_archive_is_one_step():
    memory = memory_after(LONG, SHORT, LONG)
    assert len(memory.archive) == 1 + len(LONG) + len(SHORT)
    assert isinstance(memory.archive, Archive)
