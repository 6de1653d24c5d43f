"""The explorer as a reuse policy: contract, exploring, exploiting, whom it asks, and whole runs."""

from __future__ import annotations

import json
import statistics
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from explorer_parts import GAME, House, act, explorer, force, play
from run_folders import rows

from cbr_explorer.config import ExplorerConfig
from cbr_explorer.policy import Explorer
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbr_reuse.config import DoubtingConfig, MostRelevantConfig
from cbr_reuse.doubting import Doubting
from cbr_reuse.most_relevant import MostRelevant
from cbrcore.config import Part
from cbrcore.cycle.evaluation import UniformActor
from cbrcore.cycle.runner import play_episode
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, KeepsState, ReportsMetrics, TellsFacts, TellsHandicaps
from cbrcore.rng import generator
from cbrcore.runs.checkpoint import latest_checkpoint, read_state
from cbrcore.testing import ReusePolicySuite
from cbrcore.types import Decision, StepResult

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke" / "explorer_generated.yaml"
CHEST = ["take lamp", "east", "down", "open chest"]
FALLBACK = Part(use="cbr_reuse/most_relevant", settings=MostRelevantConfig())


class TestExplorer(ReusePolicySuite):
    def make(self, build: Build) -> Explorer:
        return Explorer(ExplorerConfig(), build)

    def test_its_abilities(self, build: Build):
        policy = self.make(build)
        assert all(isinstance(policy, ability) for ability in (KeepsState, TellsFacts, TellsHandicaps))
        assert isinstance(policy, ReportsMetrics)


class TestExplorerWithFallback(ReusePolicySuite):
    def make(self, build: Build) -> Explorer:
        made = {"fallback": MostRelevant(MostRelevantConfig(), build)}
        build = Build(build.device, make=lambda setting, _: made[setting])
        return Explorer(ExplorerConfig(prior="agent", plateau=9.0, fallback=FALLBACK), build)


# -- explore -----------------------------------------------------------------------------------------------------


def test_what_was_never_tried_is_tried_and_said_to_be():
    policy = explorer(epsilon=0.0, revise=())
    given, _, why = play(policy, House(max_steps=4))
    assert len({(command, *given[:at]) for at, command in enumerate(given)}) == 4
    assert why[0] == "explores: this command was never tried here"


def test_what_loses_is_done_once():
    policy, house = explorer(epsilon=0.0), House()
    played = [play(policy, house)[0] for _ in range(40)]
    assert sum(given[-1] == "jump" for given in played) <= 6, "once in each view of the cellar"


def test_a_reward_is_the_greatest_news_and_a_loss_is_remembered_of_the_template():
    policy = explorer()
    force(policy, House(), ["east", "ring bell", "down", "jump"])
    archive, news = policy.memory(GAME).archive, policy.memory(GAME).news
    room, bell = archive.rooms.get("kitchen", -1), archive.commands.get("ring bell", -1)
    assert news.expected(room, bell, "ring {}") == pytest.approx(0.65)
    assert news.losses == {"jump": 1}


def test_a_share_of_the_steps_is_drawn():
    policy, house = explorer(epsilon=0.3, revise=()), House(max_steps=50)
    why = [each for _ in range(20) for each in play(policy, house)[2] if each.startswith("explores")]
    share = sum(each.endswith("at random") for each in why) / len(why)
    assert 0.2 < share < 0.4


def test_an_episode_returns_to_a_case_and_says_how():
    policy, house = explorer(retrieval="last", revise=()), House()
    force(policy, house, CHEST)
    given, _, why = play(policy, house)
    assert given[:4] == CHEST
    assert why[3] == "replays (5 points, 4 commands; 4 of 4)"
    assert why[4].startswith("explores")
    assert policy.metrics()["return_steps"] == 4


def test_an_exact_replay_teaches_nothing():
    policy, house = explorer(retrieval="last", revise=()), House()
    force(policy, house, CHEST)
    memory = policy.memory(GAME)
    before = dict(memory.news.leads)
    given, _, _ = play(policy, house)
    assert given[:4] == CHEST
    assert {key: memory.news.leads[key] for key in list(before)[:3]} == dict(list(before.items())[:3])


def test_a_way_that_was_put_together_and_does_not_hold_is_remembered():
    policy = explorer(retrieval="last", revise=())
    force(policy, House(), ["sing", "east", "west", "take lamp", "east", "down"])
    force(policy, House(), ["take lamp", "east"])
    memory = policy.memory(GAME)
    number = len(memory.archive.cases) - 1
    assert memory.length(number) == 3
    play(policy, House(locked=[("kitchen", "down")]))
    assert memory.counts.failed == {number: None}
    assert memory.length(number) == 6


def test_candidates_name_their_case_and_where_it_comes_from():
    policy, house = explorer(retrieval="last", revise=()), House()
    force(policy, house, CHEST)
    reuse = policy.begin(None, learning=True)
    (candidate,) = reuse.offer(house.reset(), None)
    assert candidate.match.case.id == len(policy.memory(GAME).archive.cases)
    assert asdict(candidate.match.case.provenance) == {
        "game": GAME, "seed": 0, "episode": 1, "step": 4, "reward": 5.0
    }  # fmt: skip
    assert candidate.seeds == ()


# -- exploit -----------------------------------------------------------------------------------------------------


def test_after_its_steps_it_replays_the_best_and_keeps_the_score():
    policy, house = explorer(explore_steps=6), House(max_steps=8)
    force(policy, house, [*CHEST, "up", "sing"])
    given, seen, why = play(policy, house)
    assert given[:4] == CHEST
    assert seen.score == 5
    assert why[-1] == "keeps the score"
    assert "jump" not in given
    counts = policy.metrics()
    assert (counts["exploit_steps"], counts["explore_steps"]) == (8, 6)


@pytest.mark.parametrize("toll", ["east", "down", "up"])
def test_a_way_that_costs_points_is_replayed_to_its_end(toll):
    """The last case of the archive is far from where the points were lost."""
    policy, house = explorer(explore_steps=0), House(max_steps=7, toll=toll)
    way = [*CHEST, "up", "ring bell", "west"]
    force(policy, house, way)
    force(policy, house, ["sing"])
    given, seen, why = play(policy, house)
    assert given == way
    assert seen.score == 5
    assert all(each.startswith("replays") for each in why)


def test_an_end_with_the_best_score_is_replayed_whole():
    policy, house = explorer(explore_steps=0), House(max_steps=6)
    ended = [*CHEST, "up", "ring bell"]
    force(policy, house, ended)
    force(policy, House(), [*CHEST, "up", "sing", "ring bell"])
    assert play(policy, house)[0] == ended


def test_a_replay_is_exact_where_the_same_world_looks_another_way_at_another_time():
    """By day the hall is seen while the lamp is in the kitchen; at dusk again, and while it is in the cellar."""
    policy, house = explorer(explore_steps=24), House(max_steps=20, dusk=5)
    force(policy, house, ["take lamp", "east", "drop lamp", "west"])
    way = [*["sing"] * 4, "take lamp", "east", "drop lamp", "west"]
    way += ["east", "take lamp", "down", "drop lamp", "up", "west", "east", "down", "take lamp", "open chest"]
    force(policy, house, [*way, "sing", "sing"])
    for learning in (True, False):
        given, seen, _ = play(policy, house, learning=learning)
        assert (given[: len(way)], seen.score) == (way, 5)


@pytest.mark.parametrize("news", [("room",), ("view",)])
def test_a_crash_is_no_end_to_come_to_again(news):
    """Neither as the best end, nor as a command that keeps the score because it changed nothing."""
    policy, house = explorer(explore_steps=3, news=news, revise=()), House(max_steps=6, fatal="down")
    force(policy, house, ["east", "ring bell", "down"])
    for learning in (True, False):
        given, last, _ = play(policy, house, learning=learning)
        assert given[:2] == ["east", "ring bell"]
        assert "down" not in given
        assert (len(given), last.score) == (6, 1)


def test_an_evaluation_adds_no_game_to_the_archive():
    policy = explorer(explore_steps=0)
    reuse = policy.begin(None, learning=False)
    reuse.offer(House().reset(), None)
    assert policy.facts()["games"] == {}


def test_at_first_there_is_nothing_to_replay():
    reuse = explorer().begin(None, learning=False)
    candidates = reuse.offer(House().reset(), None)
    assert (candidates, reuse.choose(candidates, {})) == ((), None)


# -- whom it asks ------------------------------------------------------------------------------------------------


def fallback(log: list[str]) -> SimpleNamespace:
    """A reuse policy that notes what it is asked, and has nothing to offer."""
    reuse = SimpleNamespace(
        asks=lambda seen: log.append("asks") or [("lamp",)],
        offer=lambda seen, situation: log.append("offer") or (),
        choose=lambda candidates, probability: log.append("choose"),
        observe=lambda decision, result: log.append("observe") or True,
    )
    return SimpleNamespace(begin=lambda retriever, learning: reuse)


def test_on_a_plateau_the_fallback_is_asked_then_the_agent():
    log: list[str] = []
    config = ExplorerConfig(prior="agent", plateau=9.0, fallback=FALLBACK)
    policy = Explorer(config, Build(make=lambda *_: fallback(log)))
    reuse, seen = policy.begin("a retriever", learning=True), House().reset()
    assert list(reuse.asks(seen)) == [("lamp",)]
    assert reuse.choose(reuse.offer(seen, None), {}) is None
    assert reuse.observe(Decision(act("sing"), "agent"), StepResult(seen, 0.0)) is True
    assert log == ["asks", "offer", "choose", "observe"]
    assert policy.metrics()["fallback_steps"] == 1


def test_where_news_is_expected_nobody_else_is_asked():
    log: list[str] = []
    config = ExplorerConfig(prior="agent", plateau=0.1, fallback=FALLBACK)
    policy = Explorer(config, Build(make=lambda *_: fallback(log)))
    reuse, seen = policy.begin("a retriever", learning=True), House().reset()
    assert list(reuse.asks(seen)) == []
    chosen = reuse.choose(reuse.offer(seen, None), {})
    assert chosen is not None
    assert reuse.observe(Decision(chosen.executed, "reuse", chosen=chosen), StepResult(seen, 0.0)) is False
    assert log == [], "it has seen nothing of where the command was given"


def with_fallback(**settings) -> Explorer:
    """An explorer that asks a real policy nearly always."""
    inner = Part(use="cbr_reuse/doubting", settings=DoubtingConfig(doubt=0.5, **settings))
    config = ExplorerConfig(prior="agent", plateau=9.0, fallback=inner)
    return Explorer(config, Build(make=lambda setting, build: Doubting(inner.settings, build)))


def test_what_the_fallback_keeps_is_kept_and_what_it_says_is_said():
    policy, other = with_fallback(), with_fallback()
    policy.fallback._rng.random(3)
    policy.fallback.handicaps = other.fallback.handicaps = {"inner": True}
    other.load_state(json.loads(json.dumps(policy.state())))
    assert other.fallback._rng.random() == policy.fallback._rng.random()
    assert with_fallback().fallback._rng.random() != policy.fallback._rng.random()
    told = Explorer(policy.config, Build(make=lambda *_: policy.fallback))
    assert told.handicaps == {**Explorer(ExplorerConfig(), Build()).handicaps, "inner": True}


@pytest.mark.parametrize("again", [True, False])
def test_the_protocol_tells_the_fallbacks_retry_failed(again):
    assert with_fallback(retry_failed=again).config.retries() is again
    assert ExplorerConfig().retries() is None


def test_a_fallback_needs_a_prior_and_a_case_memory():
    with pytest.raises(ValueError, match="prior: agent"):
        ExplorerConfig(fallback=FALLBACK)
    policy = Explorer(ExplorerConfig(prior="agent", fallback=FALLBACK), Build(make=lambda *_: fallback([])))
    with pytest.raises(CbrError, match="needs a case memory"):
        policy.begin(None, learning=True)


# -- learning ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_both_rewards_of_the_house_and_the_random_policy_does_not(seed):
    policy, house = explorer(seed), House(max_steps=6)
    for _ in range(60):
        play(policy, house)
    actor = UniformActor(generator(seed))
    best = [play_episode(house, actor, GAME, 0).score for _ in range(60)]
    assert policy.memory(GAME).archive.best[0] == 6
    assert play(policy, house, learning=False)[1].score == 6
    assert statistics.fmean(best) < 3


@pytest.mark.parametrize("retrieval", ["score_novelty", "uniform", "last"])
@pytest.mark.parametrize("revise", [(), ("shorten",), ("graft",), ("graft", "shorten")])
def test_every_choice_of_parts_plays(retrieval, revise):
    policy, house = explorer(retrieval=retrieval, revise=revise), House(max_steps=8)
    for _ in range(25):
        play(policy, house)
    assert policy.memory(GAME).archive.best[0] >= 1


def test_equal_seeds_play_alike_and_others_otherwise():
    house = House()
    played = [[play(policy, house)[0] for _ in range(5)] for policy in (explorer(1), explorer(1), explorer(2))]
    assert played[0] == played[1] != played[2]


# -- whole runs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def straight(here, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("explorer") / "run"
    done = here("run", SMOKE, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


def test_a_resumed_run_ends_with_the_same_bytes(here, straight, tmp_path):
    run = tmp_path / "run"
    assert here("run", SMOKE, "--set", "run.env_steps=200", "--out", run).returncode == 0
    done = here("run", "--resume", run, "--set", "run.env_steps=500")
    assert done.returncode == 0, done.stderr
    for name in ("metrics.jsonl", "results.json"):
        assert (straight / name).read_bytes() == (run / name).read_bytes(), name
    kept = [read_state(latest_checkpoint(each / "checkpoints"))[0]["kept"] for each in (straight, run)]
    assert kept[0] == kept[1]


def test_sequences_are_listed_and_lead_to_their_score(here, straight, tmp_path):
    done = here("cases", straight, "--sequences", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    results = json.loads((straight / "results.json").read_text())
    (best,) = (game["best"] for game in results["training"]["facts"]["reuse_policy"]["games"].values())
    scores = [each["score"] for each in listed]
    assert scores == sorted(set(scores), reverse=True)
    assert scores[0] == best > scores[-1] == 0
    config = JerichoConfig(game="generated", max_steps=20)
    with closing(JerichoEnvironment(config, Build(cache_dir=tmp_path))) as environment:
        (game,) = environment.games("train")
        for each in listed:
            assert each["game"] == game
            *_, last = environment.replay(game, each["commands"])
            assert (last.observation if each["commands"] else last).score == each["score"]
    table = here("cases", straight, "--sequences").stdout.splitlines()
    assert table[0].split() == ["game", "score", "case", "steps", "commands"]
    assert len(table) == len(listed) + 1
    told = here("cases", straight)
    assert told.returncode == 2
    assert "--sequences" in told.stderr


def test_it_earns_far_more_than_chance_and_says_where_its_steps_went(straight):
    results = json.loads((straight / "results.json").read_text())
    measured = results["evaluation"]["train"]
    assert measured["score"]["mean"] >= 3
    assert measured["score"]["mean"] > 2 * measured["random"]["score"]["mean"]
    facts = results["training"]["facts"]["reuse_policy"]
    assert sum(facts["steps"].values()) == results["training"]["env_steps"] >= 500
    assert {"start", "archive"} <= results["protocol"]["handicaps"].keys()
    last = rows(straight)[-1]
    assert last["replayed_steps"] == last["return_steps"] + last["exploit_steps"]
    assert last["exploit_steps"] >= 80
    assert [row["score"] for row in rows(straight)[-4:]] == [last["best_so_far"]] * 4


def test_a_decision_is_told_in_words(here, straight):
    done = here("play", straight)
    assert done.returncode == 0, done.stderr
    assert "because    replays (" in done.stdout


def test_with_a_case_memory_and_a_neural_agent_each_takes_its_share(here, tmp_path):
    """Explorer, the paper's rule and a text agent in one recipe; two games at the same time."""
    sets = [
        "reuse_policy={use: cbr_explorer/explorer, prior: agent, plateau: 0.5, fallback: "
        "{use: cbr_reuse/most_relevant}}",
        "training.pretrain=null",
        "run.env_steps=160",
        "environment.cache_key=view",
        "memory.threshold=0.2",
        "recorders=[]",
    ]  # fmt: skip
    words = [word for item in sets for word in ("--set", item)]
    done = here("run", SMOKE.with_name("text_cbr_jericho.yaml"), *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    last = rows(tmp_path / "run")[-1]
    assert min(last[f"{phase}_steps"] for phase in ("return", "explore", "fallback")) > 0
    assert last["memory_size"] > 0
    assert any(row["loss_policy"] is not None for row in rows(tmp_path / "run"))
    assert any(row["agent_steps"] > 0 for row in rows(tmp_path / "run"))
    told = here("play", tmp_path / "run")
    assert told.returncode == 0, told.stderr
