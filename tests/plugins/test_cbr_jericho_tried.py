"""A learned search leaves out what was tried in vain again and again: what that is, and what it changes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import closing
from itertools import permutations, product

import pytest
from jericho.template_action_generator import TemplateActionGenerator
from jericho_play import open_game, play_in_step, players, texts
from pydantic import ValidationError

from cbr_jericho.config import JerichoConfig
from cbr_jericho.search import Found, Thing, Valid, chosen
from cbr_jericho.tried import ANEW, TRIES, Tried
from cbr_jericho.views import Views

TEMPLATES = ["wait", "take OBJ", "eat OBJ", "put OBJ in OBJ", "north", "tie OBJ to OBJ"]
CLOSED, OPEN = 1, 2
"""Conditions of things."""


def closed(*names: str) -> tuple[Thing, ...]:
    return tuple((name, CLOSED) for name in names)


CUP_AND_BOX = Found({"cup": ["cup"]}, (Valid("take {}", ("cup",)), Valid("wait")), closed("cup", "box"))


_TOLD = """
import json, sys
from cbr_jericho.desk import Desk
desk, told = Desk(json.load(sys.stdin), lambda message: None), []
desk.tried.follow = told.append
request = {"views": {}, "effort": "actions", "seed": None, "after": None, "known": False}
desk.reset(request)
desk.step({**request, "command": "open mailbox"})
desk.step({**request, "command": "take leaflet", "after": ["open mailbox"]})
desk.reset(request)
print(json.dumps(told))
"""


def met(count: int, found: Found = CUP_AND_BOX) -> Tried:
    tried = Tried()
    for _ in range(count):
        tried.learn(found)
    return tried


class TestWhatIsLeftOut:
    @pytest.mark.parametrize("names", [(), ("cup",), ("cup", "box", "key")])
    def test_at_first_nothing_and_in_jerichos_order(self, names):
        generator = TemplateActionGenerator.__new__(TemplateActionGenerator)
        generator.templates = [*TEMPLATES, "give OBJ OBJ OBJ"]
        assert chosen(Tried(), generator.templates, closed(*names)) == generator.generate_actions(names)

    def test_by_hand(self):
        """After 200 views a thing has a chance of 40/200 (its condition one of 5/200), a pair one of 5/200 (and of
        2/200); whatever was valid is tried all the same, and what is new is."""
        tried = met(200)
        due = {names: tried.due(closed(*names)) for names in [("cup",), ("box",), ("cup", "box"), ("box", "cup")]}
        commands = chosen(tried, TEMPLATES, closed("cup", "box"))
        for names in product(("cup", "box")):
            assert (f"eat {names[0]}" in commands) == due[names]
        for one, other in permutations(("cup", "box")):
            assert (f"put {one} in {other}" in commands) == due[one, other]
        assert {"wait", "north", "take cup"} <= set(commands)
        assert not all(due.values())
        assert "eat key" in chosen(tried, TEMPLATES, closed("cup", "key"))
        assert "put cup in key" in chosen(tried, TEMPLATES, closed("cup", "key"))

    @pytest.mark.parametrize("slots", TRIES)
    def test_the_share_that_is_tried_is_as_said(self, slots):
        """Of 500 views 40 + 40 ln(500/40) = 141 for a thing and 5 + 5 ln(500/5) = 28 for a pair. Where that does
        not decide the condition adds the sum over n > 40 of (1 - 40/n) 5/n, 8 of a thing, and over n > 5 of
        (1 - 5/n) 2/n, 7 of a pair."""
        names = tuple(f"thing {number}" for number in range(8))
        tried, tries = Tried(), 0
        each = list(permutations(closed(*names), slots))
        for _ in range(500):
            tries += sum(tried.due(things) or tried.anew(things) for things in each)
            tried.learn(Found({}, (), closed(*names)))
        assert tries / len(each) == pytest.approx({1: 149, 2: 35}[slots], rel=0.1)

    def test_what_is_in_another_condition_is_tried_anew(self):
        """A box that was met closed 5,000 times, and open never; then open so often as a condition is tried. With
        two things that is what did something with others."""
        tried = met(5000)
        tried.learn(Found({}, (Valid("put {} in {}", ("coin", "sack")),)))
        new = (("cup", CLOSED), ("box", OPEN))
        assert not tried.due((("cup", CLOSED),))
        assert tried.due((("box", OPEN),))
        assert not tried.due(new)
        assert tried.anew(new)
        assert not tried.anew(closed("cup", "box"))
        assert not tried.anew(new[1:])
        assert {"eat box", "put cup in box", "put box in cup"} <= set(chosen(tried, TEMPLATES, new))
        assert not {"eat cup", "tie cup to box", "tie box to cup"} & set(chosen(tried, TEMPLATES, new))
        assert "put cup in box" not in chosen(tried, TEMPLATES, closed("cup", "box"))
        tries = [0, 0]
        for _ in range(100):
            for place, things in enumerate([new[1:], new]):
                tries[place] += tried.due(things) or tried.anew(things)
            tried.learn(Found({}, (), new))
        assert ANEW[1] <= tries[0] <= 4 * ANEW[1] + 4
        assert ANEW[2] <= tries[1] <= 6 * ANEW[2]

    def test_what_the_last_command_was_about_is_tried(self):
        """Alone, not in a pair; a word is no part of another one."""
        tried = met(5000)
        tried.follow("open Box with crowbar")
        assert tried.due(closed("box"))
        assert not tried.due(closed("cup"))
        assert not tried.due(closed("cup", "box"))
        assert not tried.due(closed("box", "cup"))
        tried.follow("open boxes")
        assert not tried.due(closed("box"))

    def test_it_depends_on_what_is_remembered_not_on_the_order(self):
        other = Found({}, (Valid("eat {}", ("box",)),), closed("box", "key"))
        forth, back = Tried(), Tried()
        for found in (views := [CUP_AND_BOX] * 90 + [other] * 50):
            forth.learn(found)
        for found in reversed(views):
            back.learn(found)
        things = closed("cup", "box", "key")
        assert chosen(forth, TEMPLATES, things) == chosen(back, TEMPLATES, things)
        assert "eat box" in chosen(forth, TEMPLATES, things)


def test_a_resumed_run_has_learned_from_what_it_remembers(games_dir, tmp_path):
    """A thousand views with the things of the first one, where nothing could be done with them."""
    (fresh,) = players(games_dir, tmp_path, 1)
    with closing(fresh):
        first = fresh.reset("zork1", 0)
        ((aliases, _, things),) = fresh._views.since(0).values()
    views = Views()
    for number in range(1000):
        views.settle(f"{number:032x}", [aliases, [], things])
    (resumed,) = players(games_dir, tmp_path, 1)
    with closing(resumed):
        resumed.load_state(views.state())
        second = resumed.reset("zork1", 0)
    assert "open mailbox" in texts(first)
    assert "open mailbox" not in texts(second)
    assert {"north", "south", "west"} <= set(texts(first)) & set(texts(second))


def test_a_search_is_told_the_last_command(games_dir, tmp_path):
    """With a recorder in the place of what is learned from."""
    (environment,) = players(games_dir, tmp_path, 1)
    opening = {**environment._request(), "scratch": str(tmp_path), "given_up": []}
    done = subprocess.run(
        [sys.executable, "-c", _TOLD], input=json.dumps(opening), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["", "open mailbox", "take leaflet", ""]


def test_it_finds_nearly_what_a_full_search_does(games_dir, tmp_path, cache_dir):
    """In the last of several episodes, of which the first were learned from."""
    (learned,) = players(games_dir, tmp_path, 1, max_steps=25)
    full = open_game(games_dir, cache_dir, cache_key="view", search="full", max_steps=25)
    with closing(learned), closing(full):
        play_in_step([learned], 3, 4)
        offered = missing = extra = 0
        rng = random.Random(9)
        one, other = (environment.reset("zork1", 0) for environment in (learned, full))
        for _ in range(20):
            valid, found = set(texts(other)), set(texts(one))
            offered, missing, extra = (
                offered + len(valid),
                missing + len(valid - found),
                extra + len(found - valid),
            )
            action = rng.choice([action for action in one.admissible if action.text in valid])
            one, other = (environment.step(action).observation for environment in (learned, full))
    assert missing + extra <= 0.1 * offered


def test_what_it_learns_from_is_needed():
    with pytest.raises(ValidationError, match="cache_key: view"):
        JerichoConfig(search="learned")


def test_the_results_say_so(games_dir, tmp_path):
    (learned,) = players(games_dir, tmp_path, 1, max_steps=25)
    assert "in vain" in learned.handicaps["valid_actions"]
    for settings in ({}, {"cache_key": "world"}, {"cache_key": "view", "search": "full"}):
        assert "in vain" not in open_game(games_dir, tmp_path, **settings).handicaps["valid_actions"]
