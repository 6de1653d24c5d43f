"""The Python door: train a run, open it, step through its plays, look into its memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import cbrcore as cbr
from cbr_open import door
from cbrcore.cycle.evaluation import ReuseCounts
from cbrcore.errors import RunFolderError
from cbrcore.runs import checkpoint as checkpoints
from cbrcore.runs.files import seal
from cbrcore.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("cache_here")

RECIPES = Path(__file__).parents[1] / "recipes"
SMOKE = RECIPES / "smoke" / "text_cbr_generated.yaml"
SETS = [
    "evaluation={splits: [in, out], passes: 2, random_passes: 2, modes: [sampled]}",
    "run.episodes=6",
    "memory.threshold=0.4",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Trained until it has cases that it reuses; open."""
    with cbr.run(SMOKE, seed=3, sets=SETS, out=tmp_path_factory.mktemp("runs") / "run") as run:
        yield run


@pytest.fixture
def copied(run, tmp_path):
    """The same run in another folder, to be damaged."""
    return shutil.copytree(run.path, tmp_path / "run")


def digest(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# -- records


def test_a_run_is_what_the_command_line_makes_of_the_recipe(run, here, tmp_path):
    words = [word for setting in SETS for word in ("--set", setting)]
    done = here("run", SMOKE, "--seed", 3, *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    for name in ("metrics.jsonl", "results.json", "recipe.yaml", "memory/cases.jsonl"):
        assert (run.path / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_records_are_plain_data(run):
    assert run.results == json.loads((run.path / "results.json").read_text())
    assert [row["episode"] for row in run.metrics] == list(range(1, len(run.metrics) + 1))
    assert len(run.metrics) == run.results["training"]["episodes"] == run.progress.games_played > 0
    assert (run.recipe["seed"], run.recipe["run"]["episodes"]) == (3, 6)
    assert run.checked.seed == 3
    assert repr(run) == f"Run({str(run.path)!r})"


def test_records_are_read_without_torch(run):
    source = (
        "import sys, cbrcore as cbr\n"
        "run = cbr.open(sys.argv[1])\n"
        "assert run.results and run.metrics and run.recipe\n"
        "print(sorted({'torch', 'transformers', 'textworld', 'jericho'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", source, run.path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_door_is_public():
    assert {"Run", "open", "run"} <= set(cbr.__all__)
    assert (cbr.Run, cbr.open, cbr.run) == (door.Run, door.open, door.run)


# -- plays


@pytest.mark.parametrize("split", ["in", "out"])
def test_plays_are_those_that_the_evaluation_measured(run, split):
    found = run.results["evaluation"][split]
    games = run.parts.environment.games(split)
    episodes = []
    for play in run.plays(split, episodes=2 * len(games)):
        assert [step.result.ending for step in play][-1] is play.episode.ending is not None
        assert (play.split, play.number) == (split, len(episodes) // len(games))
        episodes.append(play.episode)
    assert [episode.game for episode in episodes] == [*games, *games]
    assert sum(episode.steps for episode in episodes) == found["total_steps"]
    assert statistics.fmean(episode.steps for episode in episodes) == pytest.approx(found["steps"]["mean"])
    assert sum(ReuseCounts.of(episode).reused for episode in episodes) == found["reused"] > 0
    for game in games:
        steps = [episode.steps for episode in episodes if episode.game == game]
        assert statistics.fmean(steps) == found["games"][game]["steps"]


def test_the_first_split_that_is_evaluated_is_played_first(run):
    play = run.play()
    assert (play.split, play.game) == ("in", run.parts.environment.games("in")[0])
    assert run.play(run.parts.environment.games("train")[1]).split == "train"


def test_by_hand_and_by_the_loop_the_same_steps_are_taken(run):
    looped = [step.decision for step in run.play()]
    play, decisions = run.play(), []
    while play.episode.ending is None:
        decision, trace = play.decide()
        assert play.decide() == (decision, trace)  # asked once
        seen = play.observation
        step = play.step()
        assert (step.decision, step.trace, step.observation) == (decision, trace, seen)
        decisions.append(decision)
    assert decisions == looped
    assert play.episode.transitions[-1].result.observation is play.observation
    assert repr(play) == f"Play({play.game!r}, {len(decisions)} steps, score {play.episode.score:g})"


def test_a_decision_can_be_overruled(run):
    play = run.play(seed=1)
    own, _ = play.decide()
    other = next(action for action in play.observation.admissible if action != own.action)
    step = play.step(replace(own, action=other, source="person", chosen=None))
    assert step.decision.action == other
    assert step.result.observation.last_action == other.text


def test_other_seeds_draw_otherwise_and_greedy_draws_nothing(run):
    def commands(**how):
        return [step.decision.action.text for step in run.play(split="out", **how)]

    assert commands(seed=1) == commands(seed=1)
    assert len({tuple(commands(seed=seed)) for seed in range(4)}) > 1
    for step in run.play(split="out", greedy=True, seed=1):
        assert step.decision.agent_action is not None


def test_a_play_that_is_over_takes_no_step(run):
    play = run.play()
    steps = len(list(play))
    with pytest.raises(cbr.CbrError, match=f"no more steps: the game is over: {play.episode.ending}"):
        play.step()
    assert play.episode.steps == steps
    assert list(play) == []


def test_another_play_ends_the_one_before(run):
    first = run.play()
    first.step()
    second = run.play(split="out")
    with pytest.raises(cbr.CbrError, match="another play of this run began"):
        first.step()
    assert second.step().decision


# -- memory


def test_similar_cases_are_those_of_a_slow_comparison(run):
    """Codes [parts] compared one by one, each key computed alone."""
    retriever = run.parts.reasoner.retriever
    observation = run.play(split="train").observation
    action = next(action for action in observation.admissible if action.seeds)
    situation = retriever.encoder.situation(observation, [])
    key = retriever.quantizer.keys(
        retriever.encoder.contexts_of_pairs([(situation, retriever.view(action).seeds)])
    )[0]
    slow = {
        case.id: statistics.fmean(
            float(a == b) for a, b in zip(key.tolist(), retriever.memory.key_of(case).tolist(), strict=True)
        )
        for case in retriever.memory.cases
    }
    found = run.memory.similar(observation, action, count=100)
    assert {match.case.id: match.relevance for match in found} == pytest.approx(slow)
    assert [match.relevance for match in found] == sorted(slow.values(), reverse=True)
    assert run.memory.similar(observation, action, count=1) == found[:1]
    assert run.memory.similar(observation, cbr.Action("look", "look")) == []


def test_what_was_retrieved_is_what_is_similar(run):
    checked = 0
    for play in run.plays("train", episodes=2):
        for step in play:
            for candidate in step.decision.candidates:
                action = next(a for a in step.observation.admissible if a.seeds == candidate.seeds)
                past = [earlier.observation for earlier in play.episode.transitions[:-1]]
                best = run.memory.similar(step.observation, action, past=past)[0]
                assert best.relevance == pytest.approx(candidate.match.relevance)
                checked += 1
    assert checked


def test_looking_changes_nothing_in_a_play_that_goes_on(run):
    plain = [step.decision for step in run.play(split="train")]
    play, looked = run.play(split="train"), []
    while play.episode.ending is None:
        for action in play.observation.admissible:
            run.memory.similar(play.observation, action)
        looked.append(play.step().decision)
    assert looked == plain


def test_keys_that_follow_the_parameters_do_so_before_the_first_decision(copied):
    recipe = (copied / "recipe.yaml").read_text()
    (copied / "recipe.yaml").write_text(recipe.replace("refresh: false", "refresh: true"))
    with cbr.open(copied) as opened:
        play = opened.play(split="train")
        observation = play.observation
        action = next(action for action in observation.admissible if action.seeds)
        early = opened.memory.similar(observation, action)
        play.decide()
        assert opened.memory.similar(observation, action) == early != []


def test_the_memory_is_a_collection_of_cases(run):
    assert len(run.memory) == len(list(run.memory)) == run.results["training"]["memory_size"] > 0
    case = next(iter(run.memory))
    assert run.memory.store.situations[case.id] is not None
    assert run.memory.compared(run.memory.store.key_of(case))[0].relevance == pytest.approx(1)
    assert list(run.memories) == ["memory"]
    assert f"{len(run.memory)} cases" in repr(run.memory)


# -- what goes wrong


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (lambda run: run.play("nowhere"), "has no game 'nowhere'"),
        (lambda run: run.play("nowhere", split="in"), "the split 'in' has no game 'nowhere'"),
        (lambda run: run.plays("inn"), "Did you mean 'in'?"),
    ],
)
def test_what_there_is_not_is_told_at_once(run, look, says):
    with pytest.raises(cbr.CbrError) as told:
        look(run)
    assert says in str(told.value)


def test_a_run_trains_outside_of_the_main_thread(tmp_path):
    """Signals reach the main thread alone."""
    tiny = ["evaluation.splits=[]", "run.episodes=1", "training.pretrain.episodes=0"]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(cbr.run, SMOKE, sets=tiny, out=tmp_path / "run").result()
    assert len(done.metrics) == done.results["training"]["episodes"] > 0


def test_no_such_folder(tmp_path):
    with pytest.raises(RunFolderError, match="holds no run"):
        cbr.open(tmp_path / "nowhere")
    with pytest.raises(cbr.CbrError, match="no such file"):
        cbr.run(tmp_path / "nowhere.yaml")


def test_a_run_that_is_not_finished(copied):
    (copied / "results.json").unlink()
    (copied / "metrics.jsonl").unlink()
    shutil.rmtree(copied / "checkpoints")
    opened = cbr.open(copied)
    assert opened.metrics == []
    with pytest.raises(RunFolderError, match=r"is not finished\n.*--resume"):
        _ = opened.results
    for look in (lambda: opened.progress, lambda: opened.memory, opened.play):
        with pytest.raises(RunFolderError, match="has no checkpoint"):
            look()


def test_a_run_without_a_memory(tmp_path):
    tiny = [
        "environment={use: cbr_twc/twc, source: generate, games_per_split: 1, max_steps: 5}",
        "text_encoder={use: cbr_text_encoders/untrained, dim: 24}",
        "evaluation.splits=[]",
        "run.episodes=1",
        "agent.hidden=8",
    ]
    with cbr.run(RECIPES / "text_twc.yaml", sets=tiny, out=tmp_path / "run") as plain:
        assert plain.play(split="train").step().decision.source == "agent"
        with pytest.raises(RunFolderError, match="has no case memory"):
            _ = plain.memory


# -- open and closed


def test_looking_leaves_the_folder_as_it_is(copied):
    before = digest(copied)
    with cbr.open(copied) as opened:
        list(opened.play())
        assert opened.memory.compared(opened.memory.store.key_of(next(iter(opened.memory))))
    assert digest(copied) == before


def test_closing_ends_the_play_and_can_be_repeated(copied):
    opened = cbr.open(copied)
    opened.close()  # nothing was opened yet
    play = opened.play()
    parts = opened.parts
    opened.close()
    opened.close()
    with pytest.raises(cbr.CbrError, match="the run was closed"):
        play.step()
    assert opened.play().step().decision  # opened again
    assert opened.parts is not parts
    opened.close()


def test_an_opened_run_tells_a_damaged_checkpoint_once(copied, caplog):
    newest, before = sorted((copied / "checkpoints").iterdir(), reverse=True)[:2]
    (newest / "state.json").write_text("")
    with contextlib.closing(cbr.open(copied)) as opened:
        assert opened.progress.games_played == checkpoints.read_state(before)[1].games_played
    assert caplog.text.count("the checkpoint before it is used") == 1


def test_engines_are_released_when_a_run_cannot_be_opened(copied, monkeypatch):
    closed = []
    monkeypatch.setattr("cbrcore.runs.assemble.Parts.close", lambda parts: closed.append(parts))
    damage = lambda path, *parts: checkpoints.load_checkpoint(path / "nowhere", {})  # noqa: E731
    monkeypatch.setattr("cbrcore.runs.checkpoint.restore_agent", damage)
    with pytest.raises(RunFolderError, match="damaged checkpoint"):
        _ = cbr.open(copied).parts
    assert len(closed) == 1


def test_a_run_that_goes_on_can_be_looked_at(copied):
    """Its folder is locked, and its last row is not written to the end."""
    row = (copied / "metrics.jsonl").read_bytes().splitlines()[0]
    with (copied / "metrics.jsonl").open("ab") as file:
        file.write(row[: len(row) // 2])
    working = RunFolder.resume(copied)
    try:
        opened = cbr.open(copied)
        assert len(opened.metrics) == opened.progress.games_played
        assert opened.play().step().decision
        opened.close()
    finally:
        working.close()


def test_the_checkpoint_may_be_replaced_while_it_is_read(copied, monkeypatch):
    """The run writes a newer one and drops the one that was found first."""
    (newest,) = sorted((copied / "checkpoints").iterdir())[-1:]
    newer = newest.with_name("00000999")
    restore = checkpoints.restore_agent

    def too_late(path, *parts):
        if path == newest:
            state = json.loads((newest / "state.json").read_text())
            state["progress"]["games_played"] = 999
            newest.rename(newer)
            (newer / "state.json").write_text(json.dumps(state))
            seal(newer, "state.json")
        return restore(path, *parts)

    monkeypatch.setattr(checkpoints, "restore_agent", too_late)
    with cbr.open(copied) as opened:
        assert opened.progress.games_played == 999
