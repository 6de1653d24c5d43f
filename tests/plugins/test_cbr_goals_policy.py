"""Reuse with goals: the values by hand, what an episode remembers, and that it learns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from goal_parts import PUT, Table
from goal_parts import Goals as Cases
from parts import act, item, observation

from cbr_goals.config import GoalsConfig
from cbr_goals.encoder import ANY_STATE
from cbr_goals.policy import Goals, goals
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Places
from cbrcore.testing import GRAPHS, ReusePolicySuite, sample_observation
from cbrcore.types import Action, Decision, Ending, Provenance, StepResult

NAMES = {
    "hat": [1.0, 0.0],
    "cap": [0.6, 0.8],
    "cup": [-1.0, 0.0],
    "rack": [0.0, 1.0],
    "shelf": [0.0, -1.0],
    "box": [0.8, -0.6],
}
LOOK = act("look")
TAKE_CAP, TAKE_CUP = act("take {}", "cap"), act("take {}", "cup")
CAP_ON_RACK, CAP_ON_SHELF = (act("put {} on {}", "cap", place) for place in ("rack", "shelf"))
EAST, WEST, OPEN = act("go east"), act("go west"), act("open {}", "box")
IN_HALL = {"cap": "hall", "rack": "hall", "shelf": "hall"}
HALL = Places("hall", {"hall": {}}, IN_HALL, holders=frozenset({"rack", "shelf"}))


def retriever(cases: Cases) -> Retriever:
    return Retriever(cases.encoder, cases.kernel, cases.memory)


class Episode:
    """An episode of the rule in a place that is told, with the case "put hat on rack"."""

    def __init__(self, *, learning: bool = False, **settings) -> None:
        self.cases, self.places = Cases(Table(NAMES)), HALL
        self.cases.case("hat", "rack")
        config = GoalsConfig(**{"explore": 0.0, "random_plays": 0} | settings)
        self.policy = Goals(config, Build(places=lambda seen: self.places))
        self.policy.effects.note([TAKE_CAP], TAKE_CAP, [CAP_ON_RACK])
        self.policy.effects.note([OPEN], OPEN, [act("put {} on {}", "hat", "box")])
        self.reuse = self.policy.begin(retriever(self.cases), learning=learning)

    def p(self, *goal: str) -> float:
        return float(self.cases.memory.weigh(self.cases.keys(goal))[0])

    def decide(self, places: Places, *admissible: Action):
        self.places, seen = places, observation(*admissible)
        offered = self.reuse.offer(seen, ANY_STATE)
        return self.reuse.choose(offered, {action: 1 / len(admissible) for action in admissible})

    def offer(self, places: Places, *admissible: Action):
        self.places = places
        return self.reuse.offer(observation(*admissible), ANY_STATE)

    def did(self, action: Action, reward: float, *, rescored: bool = False) -> bool:
        result = StepResult(observation(LOOK), reward, rescored=rescored)
        return self.reuse.observe(Decision(action, "agent"), result)


def test_a_goal_within_reach_is_worth_its_probability():
    held = replace(HALL, where=HALL.where | {"cap": "player"})
    episode = Episode()
    chosen = episode.decide(held, LOOK, CAP_ON_SHELF, CAP_ON_RACK)
    assert (chosen.executed, chosen.verdict) == (CAP_ON_RACK, "admissible")
    assert chosen.value == chosen.match.relevance == pytest.approx(episode.p("cap", "rack"))
    assert episode.p("cap", "rack") > episode.p("cap", "shelf")


def test_to_take_the_object_is_worth_one_more():
    episode = Episode()
    chosen = episode.decide(HALL, LOOK, TAKE_CAP)
    assert (chosen.executed, chosen.verdict, chosen.action.text) == (TAKE_CAP, "pending", "put cap on rack")
    assert chosen.value == pytest.approx(1 + episode.p("cap", "rack"))
    assert chosen.why == "takes the cap"


def test_a_place_that_must_be_made_ready_costs_a_step():
    places = Places("hall", {"hall": {}}, {"cap": "player", "box": "hall"}, holders=frozenset({"box"}))
    episode = Episode(gamma=0.8)
    chosen = episode.decide(places, LOOK, OPEN)
    assert chosen.executed == OPEN
    assert chosen.value == pytest.approx(0.8 * episode.p("cap", "box"))


def test_what_is_rooms_away_is_worth_less():
    exits = {"hall": {"go east": "yard"}, "yard": {"go west": "hall", "go south": "attic"}, "attic": {}}
    places = Places("hall", exits, {"cap": "player", "rack": "attic"}, holders=frozenset({"rack"}))
    episode = Episode(gamma=0.8)
    chosen = episode.decide(places, LOOK, EAST)
    assert chosen.executed == EAST
    assert chosen.value == pytest.approx(0.8**2 * episode.p("cap", "rack"))
    assert "2 rooms away" in chosen.why
    assert episode.decide(places, LOOK) is None, "the way is blocked"


def test_an_unseen_exit_is_taken_where_nothing_better_is_known():
    exits = {"hall": {"go east": "yard", "go west": None}, "yard": {"go west": "hall", "go east": None}}
    places = Places("hall", exits, {"cap": "player", "shelf": "hall"}, holders=frozenset({"shelf"}))
    for unseen, expected in ((0.9, WEST), (0.0, CAP_ON_SHELF)):
        episode = Episode(unseen=unseen)
        chosen = episode.decide(places, EAST, WEST, CAP_ON_SHELF)
        assert chosen.executed == expected
    episode, further = Episode(unseen=0.9), {"hall": {"go east": "yard"}, "yard": exits["yard"]}
    chosen = episode.decide(replace(places, exits=further), EAST, CAP_ON_SHELF)
    assert (chosen.executed, chosen.value) == (EAST, pytest.approx(0.9 * 0.9))


def test_an_unseen_exit_is_taken_where_no_goal_is_open():
    """Also where nothing is left to be put anywhere; and the agent acts where nobody has anything to look for."""
    exits = {"hall": {"go east": "yard", "go west": None}, "yard": {"go west": "hall"}}
    places = Places("hall", exits, {"shelf": "hall"}, holders=frozenset({"shelf"}))
    chosen = Episode().decide(places, EAST, WEST)
    assert (chosen.executed, chosen.action.text, chosen.match.relevance) == (WEST, "put hat on rack", 0.0)
    assert Episode().decide(replace(places, exits={"hall": {"go east": "yard"}, "yard": {}}), EAST) is None


@pytest.mark.parametrize("again", [False, True])
def test_what_failed_or_is_solved_is_left_alone_until_the_episode_ends(again):
    held = replace(HALL, where=HALL.where | {"cap": "player"})
    episode = Episode(retry_failed=again, retry_solved=again)
    assert episode.did(CAP_ON_RACK, 0.0) is True
    chosen = episode.decide(held, CAP_ON_RACK, CAP_ON_SHELF)
    assert again or chosen.executed == CAP_ON_SHELF
    assert episode.did(CAP_ON_SHELF, 1.0) is False
    assert (episode.decide(held, CAP_ON_RACK, CAP_ON_SHELF) is None) is not again
    assert episode.did(CAP_ON_RACK, 0.0) is False, "the object is solved"
    fresh = episode.policy.begin(retriever(episode.cases), learning=False)
    assert fresh.offer(observation(CAP_ON_RACK), ANY_STATE)


def test_what_failed_weighs_against_goals_that_are_alike():
    episode = Episode()
    held = replace(HALL, where={"cap": "player", "hat": "player", "rack": "hall"}, holders=frozenset({"rack"}))
    hat_on_rack = act("put {} on {}", "hat", "rack")
    before = episode.decide(held, hat_on_rack).value
    episode.did(CAP_ON_RACK, 0.0)
    assert episode.decide(held, hat_on_rack).value < before - 0.01


def test_the_same_place_again_is_no_failure():
    assert Episode().did(CAP_ON_RACK, 0.0, rescored=True) is False


def test_effects_are_learned_in_training_alone():
    for learning, known in ((False, 0), (True, 1)):
        episode = Episode(learning=learning)
        episode.decide(HALL, LOOK, TAKE_CUP)
        drop = act("drop {}", "cap")
        episode.reuse.observe(Decision(drop, "agent"), StepResult(observation(TAKE_CAP), 0.0))
        assert episode.policy.effects.executed["drop {}"] == known


def test_the_agent_explores_a_share_of_the_steps_and_the_first_plays():
    episode = Episode(learning=True, explore=0.3)
    asked = [episode.decide(HALL, LOOK, TAKE_CAP) is None for _ in range(200)]
    assert 40 < sum(asked) < 80
    again = Episode(learning=True, explore=0.3)
    assert [again.decide(HALL, LOOK, TAKE_CAP) is None for _ in range(200)] == asked
    assert Episode(learning=True, random_plays=1).decide(HALL, LOOK, TAKE_CAP) is None
    assert Episode(random_plays=1, explore=1.0).decide(HALL, LOOK, TAKE_CAP) is not None, "no training"


def test_the_first_plays_are_the_agents_when_several_begin_together():
    """A round of plays begins before the first step of any of them."""
    episode = Episode(learning=True, random_plays=2)
    plays = [episode.reuse, *(episode.policy.begin(retriever(episode.cases), learning=True) for _ in range(3))]
    offered = [play.offer(observation(LOOK, TAKE_CAP), ANY_STATE) for play in plays]
    chosen = [play.choose(each, {TAKE_CAP: 1.0}) for play, each in zip(plays, offered, strict=True)]
    assert [each is None for each in chosen] == [True, True, False, False]


HERE = {"cap": "hall", "cup": "hall"}
OTHERS = [
    pytest.param(act("wear {}", "hat"), act("wear {}", "cap"), id="one"),
    pytest.param(Action("north", "north", (), ("player", "hall")), None, id="none"),
    pytest.param(act("hit {} with {}", "cap", "cup"), None, id="two, of which none is a place"),
    pytest.param(act("tie {} to {} with {}", "cap", "rack", "cup"), None, id="three"),
]
"""What a case did, and what it says of this hall; None: the same."""


def episode_of(*cases: Action, **settings) -> Episode:
    """One whose memory holds these cases instead."""
    episode = Episode(**settings)
    episode.cases = Cases(Table(NAMES | {"player": [0.3, 0.3], "hall": [-0.3, 0.3], "yard": [0.3, -0.3]}))
    for number, action in enumerate(cases):
        key = episode.cases.keys(action.seeds)[0]
        episode.cases.memory.add(item(key, action), Provenance("g", 0, 0, number, 1.0), step=number)
    episode.reuse = episode.policy.begin(retriever(episode.cases), learning=False)
    return episode


@pytest.mark.parametrize(("case", "said"), OTHERS)
def test_a_goal_may_have_any_number_of_entities(case, said):
    places = Places("hall", {"hall": {}}, {**HERE, "rack": "hall"}, holders=frozenset({"rack"}))
    episode, goal = episode_of(case), said or case
    chosen = episode.decide(places, LOOK, goal)
    assert (chosen.executed, chosen.verdict) == (goal, "admissible")
    assert chosen.value == pytest.approx(chosen.match.relevance)
    episode.did(goal, 1.0)
    assert episode.decide(places, LOOK, goal) is None, "it is done"


@pytest.mark.parametrize(("case", "said"), OTHERS)
def test_what_failed_is_not_tried_again_whatever_its_entities(case, said):
    places = Places("hall", {"hall": {}}, {**HERE, "rack": "hall"}, holders=frozenset({"rack"}))
    episode, goal = episode_of(case), said or case
    assert episode.did(goal, 0.0) is True
    assert episode.decide(places, LOOK, goal) is None
    again = episode_of(case, retry_failed=True)
    again.did(goal, 0.0)
    assert again.decide(places, LOOK, goal).executed == goal


@pytest.mark.parametrize(("case", "said"), OTHERS)
def test_goals_of_other_numbers_of_entities_are_pending_beside_pairs(case, said):
    """The most similar case of all need not fit a goal: only cases of its own kind speak for it."""
    exits = {"yard": {"go east": "hall"}, "hall": {}}
    away = Places("yard", exits, {**HERE, "rack": "hall"}, holders=frozenset({"rack"}))
    episode = episode_of(case, act("put {} on {}", "hat", "rack"))
    offered = episode.offer(away, LOOK, EAST)
    assert {each.executed for each in offered} == {EAST}
    assert {each.action.template for each in offered} == {case.template, "put {} on {}"}
    for each in offered:
        assert each.match.case.template == each.action.template
        assert each.value == pytest.approx(0.9 * each.match.relevance)


def test_that_a_thing_of_a_like_name_failed_says_nothing_against_what_a_case_did():
    ways = [Action("north", "north", (), ("player", room)) for room in ("hall", "yard")]
    episode, places = episode_of(*ways), Places("hall", {"hall": {}, "yard": {}}, {})
    before = episode.decide(places, LOOK, ways[0]).value
    episode.did(ways[1], 0.0)
    assert episode.decide(places, LOOK, ways[0]).value == pytest.approx(before)


def test_what_prepares_any_entity_of_a_goal_is_done_first():
    hit, take = act("hit {} with {}", "cap", "cup"), act("take {}", "cup")
    episode = episode_of(hit)
    episode.policy.effects.note([take], take, [hit])
    chosen = episode.decide(Places("hall", {"hall": {}}, HERE), LOOK, take)
    assert (chosen.executed, chosen.action.text) == (take, "hit cap with cup")
    assert chosen.value == pytest.approx(0.9 * chosen.match.relevance)


def test_the_kinds_of_goals_are_looked_up_again_only_when_cases_change():
    memory = episode_of(act("wear {}", "hat")).cases
    before = memory.memory.kinds()
    assert memory.memory.kinds() is before
    memory.case("hat", "rack")
    assert [kind.templates for kind in memory.memory.kinds()] == [(PUT,), (PUT,), ("wear {}",)]


def test_a_thing_that_its_node_names_otherwise_is_the_same_thing():
    """An environment may tell what an entity means by the action's seeds."""
    case = Action("take lamp", "take {}", ("lamp",), ("hat",))
    now = Action("take lantern", "take {}", ("lantern",), ("hat",))
    places = Places("hall", {"hall": {}}, {"hat": "hall"})
    assert episode_of(case).decide(places, LOOK, now).executed == now


REMEMBERED = {"remember_map": True, "unseen": 0.3}


class Remembering(Episode):
    """With a map that outlasts the episode; a case tells that "wear cap" earns something."""

    def __init__(self, **settings) -> None:
        super().__init__(**REMEMBERED | settings)
        self.cases = Cases(Table(NAMES | {"hall": [-0.3, 0.3], "yard": [0.3, -0.3]}))
        self.cases.case("cap", template="wear {}")
        self.policy = goals(self.policy.config, Build(places=lambda seen: self.places))
        self.again(learning=True)

    def again(self, *, learning: bool = False) -> None:
        self.reuse = self.policy.begin(retriever(self.cases), learning=learning)

    def goes(self, action: Action, there: Places, *admissible: Action, ending: Ending | None = None) -> None:
        self.places = there
        self.reuse.observe(Decision(action, "agent"), StepResult(observation(*admissible), 0.0, ending))


YARD = Places("yard", {"yard": {"go east": None}}, {})
WITH_CAP = Places("hall", {"hall": {"go west": None}}, {"cap": "hall"})


def test_a_map_outlasts_the_episode():
    episode = Remembering()
    assert episode.decide(YARD, EAST, LOOK).why == "looks where nobody has been"
    episode.goes(EAST, WITH_CAP, WEST, LOOK)
    episode.decide(WITH_CAP, WEST, LOOK)
    episode.again()
    chosen = episode.decide(YARD, EAST, LOOK)
    assert (chosen.executed, chosen.action.text) == (EAST, "wear cap")
    assert chosen.value == pytest.approx(0.9 * chosen.match.relevance)
    assert episode.policy.facts() == {"share_of_goals": 0, "share_of_unseen_exits": 0, "rooms": {"": 2}}


def test_a_map_is_drawn_and_steps_are_counted_before_there_is_a_case():
    episode = Remembering()
    episode.cases = Cases(Table(NAMES))
    episode.again(learning=True)
    assert episode.decide(YARD, EAST, LOOK) is None
    episode.goes(EAST, WITH_CAP, WEST, LOOK)
    assert episode.policy.taken == {"steps": 1, "goals": 0, "unseen": 0}
    assert episode.policy.atlas.maps[""].exits["yard"] == {"go east": "hall"}


def test_a_map_is_not_learned_from_evaluations():
    episode = Remembering()
    episode.again(learning=False)
    episode.policy.atlas.maps.clear()
    episode.decide(YARD, EAST, LOOK)
    episode.goes(EAST, WITH_CAP, WEST, LOOK)
    assert episode.policy.facts()["rooms"] == {}
    episode.again(learning=False)
    episode.decide(YARD, EAST, LOOK)
    episode.goes(EAST, WITH_CAP, WEST, LOOK)
    episode.again(learning=False)
    assert episode.decide(YARD, EAST, LOOK).why == "looks where nobody has been"


def test_a_way_that_leads_nowhere_or_to_the_end_is_not_gone_again():
    for there, ending in ((YARD, None), (YARD, Ending.LOST)):
        episode = Remembering()
        assert episode.decide(YARD, EAST, LOOK).executed == EAST
        episode.goes(EAST, there, EAST, LOOK, ending=ending)
        assert episode.decide(YARD, EAST, LOOK) is None
        episode.again()
        assert episode.decide(YARD, EAST, LOOK) is None


def test_a_thing_that_is_not_where_it_was_is_not_looked_for_there_again():
    episode = Remembering()
    episode.decide(YARD, EAST, LOOK)
    episode.goes(EAST, WITH_CAP, WEST, LOOK)
    episode.decide(WITH_CAP, WEST, LOOK)
    episode.again()
    assert episode.decide(YARD, EAST).executed == EAST
    episode.goes(EAST, replace(WITH_CAP, where={}), WEST)
    assert episode.decide(replace(WITH_CAP, where={}), LOOK) is None
    episode.goes(WEST, YARD, EAST)
    assert "wear cap" not in {each.action.text for each in episode.offer(YARD, EAST)}


def test_two_goals_that_cannot_be_done_do_not_send_one_to_and_fro():
    """Where one was there and nothing prepares it, a goal is left until it is within reach."""
    ways = [Action("north", "north", (), ("player", room)) for room in ("hall", "yard")]
    rooms = {"hall": {"go west": "yard"}, "yard": {"go east": "hall"}}
    episode, done = episode_of(*ways), []
    here, moves = "hall", {"hall": WEST, "yard": EAST}
    for _ in range(4):
        chosen = episode.decide(Places(here, rooms, {}), LOOK, moves[here])
        done.append(chosen and chosen.executed)
        here = {"hall": "yard", "yard": "hall"}[here] if chosen else here
    assert done == [WEST, None, None, None]
    assert episode.decide(Places("yard", rooms, {}), LOOK, ways[1]).executed == ways[1]


def test_what_made_a_way_admissible_is_done_again():
    case = Action("north", "north", (), ("player", "hall"))
    episode = Remembering()
    episode.cases = episode_of(case).cases
    episode.again(learning=True)
    assert episode.decide(Places("hall", {"hall": {}}, {}), LOOK, OPEN) is None
    episode.goes(OPEN, Places("hall", {"hall": {}}, {}), LOOK, case)
    episode.again()
    chosen = episode.decide(Places("hall", {"hall": {}}, {}), LOOK, OPEN)
    assert (chosen.executed, chosen.action.text) == (OPEN, "north")


def test_a_map_is_plain_data_in_the_checkpoint():
    episode, other = Remembering(), Remembering()
    episode.decide(YARD, EAST, LOOK)
    episode.goes(EAST, WITH_CAP, WEST, LOOK)
    episode.decide(WITH_CAP, WEST, LOOK)
    other.policy.load_state(json.loads(json.dumps(episode.policy.state())))
    assert other.policy.state() == episode.policy.state()
    assert other.policy.handicaps["map"] == "kept over the episodes of training"
    assert "map" not in Episode().policy.handicaps


def test_without_places_or_evidence_it_says_what_to_do(tmp_path):
    with pytest.raises(CbrError, match="tells places"):
        Goals(GoalsConfig(), Build())
    with pytest.raises(CbrError, match="cbr_goals/evidence"):
        Goals(GoalsConfig(), Build(places=lambda seen: HALL)).begin(
            ReusePolicySuite.retriever(TestGoals(), Build()), learning=True
        )


class TestGoals(ReusePolicySuite):
    places = Places("kitchen", {"kitchen": {}}, {"cup": "player", "rack": "kitchen"}, holders=frozenset({"rack"}))

    def make(self, build):
        return goals(GoalsConfig(random_plays=0), replace(build, places=lambda seen: self.places))

    def retriever(self, build):
        cases = Cases(Table(NAMES))
        cases.case("hat", "rack")
        return retriever(cases)

    def test_it_reuses_what_it_was_told(self, build):
        reuse = self.make(build).begin(self.retriever(build), learning=False)
        assert self.decide(reuse, sample_observation(GRAPHS[0])).executed.text == "put cup on rack"
