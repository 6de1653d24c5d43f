"""Playing Jericho's games: what is seen, offered and scored. The games and the engine are the real ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
from jericho_play import check_contract, observations, open_game, say, texts

from cbr_jericho.commands import ANSWERS, LOOK_AROUND
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import SEED_WITHOUT_WALKTHROUGH, JerichoEnvironment, jericho
from cbr_jericho.play import NO_MOVE, ONE_AT_A_TIME
from cbr_jericho.stories.generated import story_path
from cbrcore.errors import CbrError, GameError
from cbrcore.interfaces import Build, Environment
from cbrcore.testing import EnvironmentSuite
from cbrcore.types import Ending, Observation

TO_THE_LAMP = ["N", "E", "Open window", "W", "Open sack", "Get garlic", "W", "Get lamp"]
"""Through Zork I's window to the lamp; 10 points for coming in."""

INTO_DEBT = """
east, south, take all, take into up, take into down, take into up, take into down, take into up, light it with
keys, turn it off, take all, put all down, take into up, take into down, east, north, take axe, west, cut
tree, take into tree, north, take mud, north, north, north, east, wake dragon, take all, east, east, wake
dragon, take into up, take into down, take into up, take into down, take into up, take into down, take into
up, take into down, east, south, north, south, take into tree, take into down, take into up, north, north,
north, east, east, south, turn lamp off, take into tree, clean lamp, clean lamp, clean lamp
"""
"""In Adventureland the genie takes a treasure from one who has none left: "You have so far scored -7"."""


@pytest.fixture(scope="module")
def zork(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir)) as environment:
        yield environment


class TestGeneratedStory(EnvironmentSuite):
    def make(self, build: Build) -> JerichoEnvironment:
        return JerichoEnvironment(JerichoConfig(game="generated", max_steps=8), build)


class TestZork(EnvironmentSuite):
    plays = 1

    @pytest.fixture(autouse=True)
    def _story(self, games_dir):
        self.games_dir = games_dir

    def make(self, build: Build) -> JerichoEnvironment:
        return open_game(self.games_dir, build.cache_dir, max_steps=10)


def test_it_is_an_environment(zork):
    assert isinstance(zork, Environment)
    assert zork.splits() == ("train",)
    assert zork.games("train") == ("zork1",)
    assert json.loads(json.dumps(zork.handicaps))["chance"].endswith("with the seed of the walkthrough")
    assert "zork1" in repr(zork)


def test_facts_for_the_records(zork):
    info = zork.game_info("zork1")
    assert json.loads(json.dumps(info)) == info
    assert info["md5"] == "b732a93a6244ddd92a9b9a3e3a46c687"
    assert (info["max_score"], info["initial_score"], info["seed"]) == (350, 0, 12)
    assert info["walkthrough_steps"] == len(zork.walkthrough("zork1")) == 396


def test_the_first_observation(zork):
    first = zork.reset("zork1", 0)
    check_contract(first)
    assert (first.score, first.max_score, first.steps, first.game) == (0, 350, 0, "zork1")
    assert (first.last_action, first.scored) == (None, ())
    assert first.description.startswith("West of House\nYou are standing in an open field")
    assert first.inventory == "You are empty-handed."
    assert texts(first) == ["north", "open mailbox", "south", "west"]
    mailbox = first.admissible[1]
    assert (mailbox.template, mailbox.entities, mailbox.seeds) == ("open {}", ("mailbox",), ("mailbox",))
    assert first.admissible[0].seeds == ("you", "west house")


def test_texts_are_asked_for_without_a_turn_passing(zork):
    first = zork.reset("zork1", 0)
    say(zork, "north")
    again = zork.reset("zork1", 0)
    assert first == again


def test_graph_of_the_object_tree(zork):
    zork.reset("zork1", 0)
    assert not any("leaflet" in node for node in zork.reset("zork1", 0).graph.nodes)  # in the closed mailbox
    opened = say(zork, "open mailbox").observation
    assert ("leaflet", "in", "mailbox") in opened.graph.triples
    assert ("mailbox", "in", "west house") in opened.graph.triples
    taken = say(zork, "take leaflet").observation
    assert ("you", "have", "leaflet") in taken.graph.triples
    moved = say(zork, "north").observation
    assert {("west house", "north", "north house"), ("you", "in", "north house")} <= set(moved.graph.triples)
    exits = {tail for head, relation, tail in moved.graph.triples if (head, relation) == ("north house", "exit")}
    assert exits == {"east", "north", "west"} & set(texts(moved))
    assert ("you", "in", "west house") not in moved.graph.triples


def test_scores_rewards_and_the_commands_that_scored(zork):
    played = list(zork.replay("zork1", TO_THE_LAMP, effort="things"))
    results = played[1:]
    assert [result.reward for result in results] == [0, 0, 0, 10, 0, 0, 0, 0]
    last = results[-1].observation
    assert last.score == sum(result.reward for result in results) == 10
    assert last.scored == ("W",)
    assert last.steps == len(TO_THE_LAMP)
    triples = set(last.graph.triples)
    assert {("you", "have", "brass lantern"), ("you", "have", "clove of garlic")} & triples
    assert ("kitchen", "west", "living") in triples


def test_a_score_below_zero_is_read_as_one(games_dir, cache_dir):
    """Jericho reads one byte of it, 249."""
    commands = INTO_DEBT.replace("\n", " ").strip().split(", ")
    with closing(open_game(games_dir, cache_dir, "adventureland")) as environment:
        start, *results = environment.replay("adventureland", commands)
    assert start.score == 0
    assert results[-1].observation.score == -7
    assert results[-1].reward == -7
    assert sum(result.reward for result in results) == -7


def test_beds_are_in_rooms(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, "905")) as environment:
        first = observations(environment.replay("905", [], effort="things"))[0]
    assert {("you", "in", "bed"), ("bed", "in", "bedroom")} <= set(first.graph.triples)
    assert ("you", "have", "gold watch") in first.graph.triples


def test_games_without_names_in_their_tree(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, "afflicted")) as environment:
        first, second = observations(environment.replay("afflicted", ["west"], effort="things"))
    assert {("you", "in", "19th street"), ("you", "have", "notepad"), ("sidewalk", "in", "19th street")} <= set(
        first.graph.triples
    )
    assert ("19th street", "west", "19th street west") in second.graph.triples


# -- what is offered is what Jericho offers ------------------------------------------------------------------

_JERICHO_ALONE = """
import json, sys
import jericho, jericho.util
from cbr_jericho.tagging import DictionaryTagger
env = jericho.FrotzEnv(sys.argv[1])
jericho.util.spacy_nlp = DictionaryTagger(env.get_dictionary())
env.reset()
offered = []
for command in [None, *sys.argv[2:]]:
    if command is not None:
        env.step(command)
    offered.append(sorted(env.get_valid_actions(use_object_tree=True, use_ctypes=True, use_parallel=False)))
print(json.dumps(offered))
"""


@pytest.mark.parametrize(
    ("game", "commands"),
    [("zork1", ["open mailbox", "south", "east", "open window", "west"]), ("detective", ["w"])],
)
def test_valid_actions_are_jerichos(games_dir, cache_dir, game, commands):
    with closing(open_game(games_dir, cache_dir, game)) as environment:
        ours = [texts(seen) for seen in observations(environment.replay(game, commands, effort="actions"))]
    alone = subprocess.run(
        [sys.executable, "-c", _JERICHO_ALONE, games_dir / "jericho" / f"{game}.z5", *commands],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ours == json.loads(alone.stdout)


_OFFERED = """
import json, sys, pathlib
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import SEED_WITHOUT_WALKTHROUGH, JerichoEnvironment
from cbrcore.interfaces import Build
from cbrcore.types import Action
config = JerichoConfig(game="zork1", rom_dir=sys.argv[1], cache=False)
environment = JerichoEnvironment(config, Build())
seen = [environment.reset("zork1", 0)]
for command in ("south", "east", "open window", "west"):
    seen.append(environment.step(Action(command, command)).observation)
print(json.dumps([[action.text for action in observation.admissible] for observation in seen]))
environment.close()
"""


def test_strings_do_not_depend_on_the_hash_seed_of_this_process(games_dir):
    def offered(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", _OFFERED, games_dir / "jericho"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first, second = offered("1"), offered("2")
    assert first == second
    assert len(json.loads(first)) == 5


# -- endings -------------------------------------------------------------------------------------------------


def test_a_time_limit_is_no_end_of_the_game(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, max_steps=2)) as environment:
        environment.reset("zork1", 0)
        assert say(environment, "west").ending is None
        result = say(environment, "north")
        assert result.ending is Ending.TRUNCATED
        last = result.observation
        check_contract(last)
        assert last.description
        assert last.inventory
        assert ("forest 3", "north", "clearing 2") in last.graph.triples
        with pytest.raises(RuntimeError, match="reset"):
            say(environment, "north")
        assert environment.reset("zork1", 0).steps == 0


def test_the_last_observation_offers_nothing_that_a_cache_on_disk_holds(games_dir, tmp_path):
    """Or else a run would depend on it."""
    for _ in range(2):
        with closing(open_game(games_dir, tmp_path, max_steps=1)) as environment:
            environment.reset("zork1", 0)
            assert texts(say(environment, "north").observation) == sorted(LOOK_AROUND)
        with closing(open_game(games_dir, tmp_path)) as environment:
            environment.reset("zork1", 0)
            say(environment, "north")


def test_the_last_observation_offers_what_the_run_remembers_of_the_view(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, max_steps=3, cache_key="view")) as environment:
        environment.reset("zork1", 0)
        first, _, last = (say(environment, way).observation for way in ("north", "north", "south"))
    assert first.fingerprint.view == last.fingerprint.view
    assert texts(last) == texts(first) != sorted(LOOK_AROUND)


@pytest.mark.parametrize(("game", "ending"), [("detective", Ending.WON), ("deephome", Ending.LOST)])
def test_endings_of_the_game(games_dir, cache_dir, game, ending):
    with closing(open_game(games_dir, cache_dir, game)) as environment:
        *_, before, last = environment.replay(game, environment.walkthrough(game))
    assert (before.ending, last.ending) == (None, ending)
    assert last.observation.feedback
    assert last.observation.graph == before.observation.graph
    check_contract(last.observation)


# -- commands that are not offered ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["quit", "restart", "verbose", "undo", "version", "SAVE game", "again"])
def test_commands_to_the_interpreter_are_not_carried_out(zork, command):
    first = zork.reset("zork1", 0)
    result = say(zork, command)
    assert (result.observation.feedback, result.reward, result.ending) == (NO_MOVE, 0, None)
    assert result.observation.steps == 1
    assert result.observation.admissible == first.admissible
    assert "mailbox reveals" in say(zork, "open mailbox").observation.feedback  # it is no answer to a question


def test_one_command_at_a_time(zork):
    zork.reset("zork1", 0)
    result = say(zork, "open mailbox. take leaflet")
    assert result.observation.feedback == ONE_AT_A_TIME
    assert "open mailbox" in texts(result.observation)


def test_refused_commands_count_towards_the_limit(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, max_steps=1)) as environment:
        environment.reset("zork1", 0)
        assert say(environment, "quit").ending is Ending.TRUNCATED
        assert environment.counts["refused"] == 1


def test_more_can_be_denied(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, deny=("open  Mailbox", "south"))) as environment:
        assert texts(environment.reset("zork1", 0)) == ["north", "west"]
        assert say(environment, "south").observation.feedback == NO_MOVE


def test_what_is_denied_is_not_offered_where_no_valid_action_is_known_either(cache_dir):
    with closing(jericho(JerichoConfig(game="generated"), Build(cache_dir=cache_dir))) as environment:
        environment.games("train")  # makes the story
    story = str(story_path(0, cache_dir))
    settings = {"game": story, "allow_unknown_rom": True, "deny": ("look", "Up")}
    with closing(jericho(JerichoConfig(**settings), Build(cache_dir=cache_dir))) as environment:
        (game,) = environment.games("train")
        offered = texts(environment.reset(game, 0))
        assert offered == sorted({*LOOK_AROUND} - {"look", "up"})
        assert say(environment, "look").observation.feedback == NO_MOVE


def test_a_generated_game_has_no_walkthrough_to_take_the_seed_of(cache_dir):
    with closing(jericho(JerichoConfig(game="generated"), Build(cache_dir=cache_dir))) as environment:
        environment.games("train")
        assert environment.handicaps["chance"] == "the same in every episode"


@pytest.mark.parametrize("question", ["quit", "restart"])
def test_a_pending_question_is_answered_with_no(zork, question):
    *_, asked, looked = observations(zork.replay("zork1", [question, "open mailbox"]))
    assert asked.feedback.partition(" no")[0].endswith(("?", "(Y is affirmative):", ">"))
    assert asked.steps == 1
    assert "mailbox reveals" in looked.feedback


def test_long_commands_are_cut_once_with_a_warning(games_dir, cache_dir, caplog):
    with closing(open_game(games_dir, cache_dir)) as environment:
        environment.reset("zork1", 0)
        for _ in range(2):
            sent = say(environment, "take " + " and ".join(f"thing{n}" for n in range(60))).observation.last_action
            assert len(sent.encode()) <= 99
        assert say(environment, "x" * 500).observation.last_action == "x" * 99
        assert environment.counts["shortened"] == 3
    assert caplog.text.count("was cut to") == 1


def test_odd_characters_do_no_harm(zork):
    zork.reset("zork1", 0)
    for command in ("caffè", "\\X", "take \u200b lamp", "emoji 🎲", "اهلا", "a\nb", ""):
        assert say(zork, command).ending is None
    assert "open mailbox" in texts(say(zork, "look").observation)


# -- chance --------------------------------------------------------------------------------------------------


def test_seeds(games_dir, cache_dir):
    def seed_used(run: int, seed: str | int) -> int:
        environment = open_game(games_dir, cache_dir, seed=seed)
        environment.build = Build(seed=run, cache_dir=cache_dir)
        with closing(environment):
            return environment.game_info("zork1")["seed"]

    assert seed_used(1, "walkthrough") == 12
    assert seed_used(1, 77) == 77
    assert seed_used(1, "run") == seed_used(1, "run") != seed_used(2, "run")
    assert seed_used(0, "run") > 0
    assert seed_used(0, "episode") == "episode"


def states_of(environment, seed: int) -> list[str]:
    """The exact states of an episode; they hold the random numbers."""
    first = environment.reset("zork1", seed)
    return [first.fingerprint.state, *(say(environment, "wait").observation.fingerprint.state for _ in range(3))]


def test_each_episode_has_its_own_chance_and_none_is_taken_for_another(games_dir, cache_dir):
    environment = open_game(games_dir, cache_dir, seed="episode", cache_key="view")
    with closing(environment):
        first, other, again = (states_of(environment, seed) for seed in (5, 6, 5))
        walkthrough = next(environment.replay("zork1", (), effort="things"))
        facts = environment.game_info("zork1")["seed"]
    assert first == again
    assert not set(first) & set(other)
    assert facts == "episode"
    with closing(open_game(games_dir, cache_dir, seed=5)) as fixed:
        assert states_of(fixed, 99) == states_of(fixed, 5) == first  # the argument changes nothing there
    with closing(open_game(games_dir, cache_dir)) as usual:
        assert usual.reset("zork1", 5).fingerprint.state == walkthrough.fingerprint.state


def test_the_protocol_is_named(games_dir, cache_dir):
    protocols = {seed: open_game(games_dir, cache_dir, seed=seed).handicaps for seed in ("walkthrough", "episode")}
    assert protocols["walkthrough"]["protocol"].startswith("P1")
    assert protocols["episode"]["protocol"].startswith("P2")
    assert "chance" not in protocols["episode"]  # it is no handicap any more


# -- stories -------------------------------------------------------------------------------------------------


def test_other_names_are_refused(zork):
    with pytest.raises(GameError, match="no split 'test'"):
        zork.games("test")
    with pytest.raises(GameError, match="plays 'zork1', not 'zork3'"):
        zork.reset("zork3", 0)


def test_a_story_that_is_not_there(tmp_path):
    with pytest.raises(GameError, match="zork1"):
        open_game(tmp_path, tmp_path).games("train")
    with pytest.raises(GameError, match="zork1"):
        open_game(tmp_path, tmp_path, "zork11").games("train")


def test_a_damaged_story_never_reaches_the_interpreter(games_dir, tmp_path):
    path = tmp_path / "zork1.z5"
    path.write_bytes((games_dir / "jericho" / "zork1.z5").read_bytes()[:1000])
    environment = open_game(games_dir, tmp_path, str(path))
    with closing(environment), pytest.raises(GameError, match="cut short"):
        environment.reset("zork1", 0)


def test_an_unknown_story_needs_leave_and_has_no_scores(games_dir, tmp_path):
    path = tmp_path / "mine.z5"
    shutil.copy(games_dir / "jericho" / "zork1.z5", path)
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(GameError, match="allow_unknown_rom"):
        open_game(games_dir, tmp_path, str(path)).games("train")
    with closing(open_game(games_dir, tmp_path, str(path), allow_unknown_rom=True)) as environment:
        assert environment.games("train") == ("mine",)
        first = environment.reset("mine", 0)
        check_contract(first)
        assert "West of House" in first.description
        assert texts(first) == sorted(LOOK_AROUND)
        assert (first.max_score, first.score) == (None, 0)
        assert ("you", "in", "west of house") in first.graph.triples
        assert say(environment, "north").observation.graph.triples != first.graph.triples


def test_the_generated_story_can_be_played_to_the_end(cache_dir):
    environment = JerichoEnvironment(JerichoConfig(game="generated"), Build(cache_dir=cache_dir))
    with closing(environment):
        (game,) = environment.games("train")
        first = environment.reset(game, 0)
        check_contract(first)
        assert first.max_score == environment.game_info(game)["max_score"] > 0
        assert not {"save", "take all", "look"} & set(texts(first))
        assert all("OBJ" not in action.template for action in first.admissible)


# -- several at once -----------------------------------------------------------------------------------------


def test_two_games_step_at_once(games_dir, cache_dir):
    with (
        closing(open_game(games_dir, cache_dir)) as one,
        closing(open_game(games_dir, cache_dir, max_steps=2)) as two,
    ):
        starts = [one.reset("zork1", 0), two.reset("zork1", 0)]
        assert starts[0] == starts[1]
        endings = []
        for _ in range(2):
            for environment, start in zip((one, two), starts, strict=True):
                environment.send(start.admissible[0])
            endings.append([environment.receive().ending for environment in (one, two)])
        assert endings == [[None, None], [None, Ending.TRUNCATED]]


def test_halves_of_a_step_in_the_wrong_order(zork):
    first = zork.reset("zork1", 0)
    with pytest.raises(RuntimeError, match="send"):
        zork.receive()
    zork.send(first.admissible[0])
    with pytest.raises(RuntimeError, match="receive"):
        zork.send(first.admissible[0])
    assert zork.reset("zork1", 0) == first  # what was sent is received first
    assert isinstance(say(zork, "north").observation, Observation)


def test_it_can_be_closed_and_used_again(games_dir, cache_dir):
    environment = open_game(games_dir, cache_dir)
    environment.close()
    first = environment.reset("zork1", 0)
    environment.close()
    environment.close()
    with pytest.raises(RuntimeError, match="reset"):
        say(environment, "north")  # and not in a new game
    assert environment.reset("zork1", 0) == first
    environment.close()


def test_names_with_odd_spaces_are_played_as_they_are(games_dir, cache_dir):
    """Enchanter's tree has names that end with a space ("nitfol ")."""
    with closing(open_game(games_dir, cache_dir, "enchanter")) as environment:
        first = environment.reset("enchanter", 0)
        check_contract(first)
        odd = next(action for action in first.admissible if action.text != " ".join(action.text.split()))
        result = environment.step(odd)
        assert result.observation.last_action == odd.text
        assert not environment.counts


def test_a_game_that_waits_for_a_key(games_dir, cache_dir):
    """tryst205 does after the 88th command of its walkthrough; any key will do."""
    with closing(open_game(games_dir, cache_dir, "tryst205", max_steps=1000)) as environment:
        *_, waiting = observations(environment.replay("tryst205", environment.walkthrough("tryst205")[:88]))
        assert texts(waiting) == sorted(ANSWERS)
        assert (waiting.description, waiting.inventory) == ("", "")
        assert "Press SPACE" in waiting.feedback


# -- stories that Jericho does not know --------------------------------------------------------------------------


@pytest.fixture
def unknown(games_dir, tmp_path):
    """Zork I with a byte more: it can be played, and nothing is known of it."""
    path = tmp_path / "mine.z5"
    path.write_bytes((games_dir / "jericho" / "zork1.z5").read_bytes() + b"\0")
    return path


def test_what_makes_an_unknown_story_easier_is_what_did_run(games_dir, tmp_path, unknown):
    with closing(open_game(games_dir, tmp_path, str(unknown), allow_unknown_rom=True)) as environment:
        environment.games("train")
        handicaps = environment.handicaps
        environment.reset("mine", 0)
        assert environment.handicaps == handicaps
        assert environment.figures()["counts"]["searched"] == 0
    assert handicaps["valid_actions"].startswith("none")
    assert "walkthrough" not in handicaps["chance"]


def test_stories_without_walkthrough_have_a_seed_all_the_same(games_dir, tmp_path, cache_dir, unknown):
    """Without one the interpreter would take the time of day."""
    generated = JerichoEnvironment(JerichoConfig(game="generated"), Build(cache_dir=cache_dir))
    with closing(generated), closing(open_game(games_dir, tmp_path, str(unknown), allow_unknown_rom=True)) as mine:
        for environment in (generated, mine):
            (game,) = environment.games("train")
            assert environment.game_info(game)["seed"] == SEED_WITHOUT_WALKTHROUGH


def test_the_score_of_an_unknown_story_is_not_available(here, tmp_path, unknown):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "schema: 1\n"
        f"environment: {{use: cbr_jericho/jericho, game: {unknown}, allow_unknown_rom: true, max_steps: 3}}\n"
        "text_encoder: {use: cbr_text_encoders/untrained, dim: 8}\nagent: {use: cbr_random/random}\n"
        "recorders: []\nevaluation: {splits: [train], passes: 1}\nrun: {episodes: 2}\n"
    )
    done = here("run", recipe, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["training"]["avg_score_last_100"] is results["training"]["best_score"] is None
    measured = results["evaluation"]["train"]
    assert measured["score"] == {"mean": None, "std": None}
    assert measured["random"]["score"] == {"mean": None, "std": None, "interval": None}
    assert measured["norm_score"] == {"mean": None, "std": None}
    assert results["protocol"]["handicaps"]["valid_actions"].startswith("none")
    assert "- ± -" in done.stdout
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["score"], row["norm_score"], row["steps"]) for row in rows] == [(None, None, 3)] * 2
    assert "score -, 0 cases" in done.stderr
    report = here("report", tmp_path / "run", "--no-decisions", "--out", tmp_path / "report.html")
    assert report.returncode == 0, report.stderr
    assert "Learning curves" not in (tmp_path / "report.html").read_text()
    shown = here("play", tmp_path / "run").stdout
    assert "step 0, score not available" in shown
    assert "reward 0, score not available" in shown
    lines = here("play", tmp_path / "run", "--json").stdout.splitlines()
    assert {json.loads(line)["score"] for line in lines} == {None}


@pytest.mark.parametrize(
    ("game", "said"),
    [("$NOPE/zork1.z5", r"holds \$NOPE, which is not set"), ("~nobody_here/a.z5", "this machine does not know"),
     ("nowhere.z5", r"nowhere\.z5: a link to nowhere \(-> /no/where\)"),
     ("missing.z5", r"missing\.z5: no such file"), ("folder.z5", r"folder\.z5: is a folder"),
     ("$HERE/nowhere.z5", "a link to nowhere")],
)  # fmt: skip
def test_paths_of_stories_are_read_by_one_rule(tmp_path, monkeypatch, game, said):
    monkeypatch.setenv("HERE", str(tmp_path))
    (tmp_path / "nowhere.z5").symlink_to("/no/where")
    (tmp_path / "folder.z5").mkdir()
    path = game if game[0] in "$~" else str(tmp_path / game)
    with pytest.raises(CbrError, match=said):
        JerichoEnvironment(JerichoConfig(game=path), Build(recipe_dir=tmp_path)).games("train")


def test_an_observation_names_its_state_world_and_view(games_dir, cache_dir):
    """A round of the house leaves the view as it was, a second one the world too; the state never comes back."""
    with closing(open_game(games_dir, cache_dir)) as environment:
        first = environment.reset("zork1", 0).fingerprint
        rounds = [
            [say(environment, way).observation.fingerprint for way in ("north", "east", "south", "west")]
            for _ in range(2)
        ]
        assert environment.reset("zork1", 0).fingerprint == first
    once, twice = rounds[0][-1], rounds[1][-1]
    assert once.view == twice.view == first.view
    assert once.world == twice.world
    assert len({first.state, *(here.state for way in rounds for here in way)}) == 9
    assert len({here.view for here in rounds[0]}) == 4
