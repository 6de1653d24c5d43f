"""The command line from recipe to results, in real processes, on games that are generated here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import same_run

RECIPES = Path(__file__).parents[1] / "recipes"
SMOKE = RECIPES / "smoke" / "text_cbr_generated.yaml"

Cbr = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def whole(cbr: Cbr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished run of the smoke recipe."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = cbr("run", SMOKE, "--out", folder)
    assert done.returncode == 0, done.stderr
    (folder.parent / "stdout").write_text(done.stdout)
    return folder


def test_a_run_leaves_the_folder_of_the_contract(whole):
    assert {
        "recipe.yaml",
        "versions.json",
        "metrics.jsonl",
        "results.json",
        "timing.json",
        "checkpoints",
        "memory",
        "run.log",
    } <= {path.name for path in whole.iterdir()}
    assert list(whole.glob("events.out.*"))
    assert not list(whole.rglob("*.pt")) + list(whole.rglob("*.pkl"))
    results = json.loads((whole / "results.json").read_text())
    assert results["schema"] == 1
    assert {"in", "out"} == set(results["evaluation"])
    timing = json.loads((whole / "timing.json").read_text())
    assert {"environment", "encoder", "memory", "agent", "update"} <= set(timing["shares"])
    assert 0 < sum(timing["shares"].values()) <= 1
    versions = json.loads((whole / "versions.json").read_text())
    assert versions["plugins"]["cbr_vq"].startswith("cbr-textrl ")


def test_a_run_imports_what_it_uses(whole, cache_dir, tmp_path):
    """A run with a graph encoder: neither torch_geometric nor torch's compiler, which are seconds at each start
    and in each child of a sweep."""
    code = """
import sys
from cbrcore.cli import main
try:
    main()
finally:
    heavy = {"torch_geometric", "transformers", "sklearn", "spacy", "altair", "ray", "torch._dynamo", "sympy"}
    print(*sorted(heavy & set(sys.modules)), "torch" in sys.modules)
"""
    command = [sys.executable, "-c", code, "run", str(SMOKE), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"CBR_CACHE": str(cache_dir)},
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "True", done.stderr


def test_stdout_is_the_table_alone(whole):
    lines = (whole.parent / "stdout").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("|") and "---" not in line] == [
        "agent",
        "smoke_text_cbr_generated (sampled)",
        "smoke_text_cbr_generated (greedy)",
        "uniform random",
        "optimal",
    ]
    assert str(whole) in lines[-1]


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_recipe_and_seed_give_the_same_bytes_in_every_process(cbr, whole, tmp_path, hash_seed):
    done = cbr("run", SMOKE, "--out", tmp_path / "run", env={"PYTHONHASHSEED": hash_seed})
    assert done.returncode == 0, done.stderr
    same_run(whole, tmp_path / "run")


def test_another_seed_gives_another_run(cbr, whole, tmp_path):
    assert cbr("run", SMOKE, "--seed", 1, "--out", tmp_path / "run").returncode == 0
    assert (whole / "metrics.jsonl").read_bytes() != (tmp_path / "run" / "metrics.jsonl").read_bytes()


def stop_when(folder: Path, cache_dir: Path, ready: Callable[[], bool], signals: list[int]) -> int:
    """Start the smoke run, send the signals once `ready()`; returns the exit code."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cbrcore.cli", "run", str(SMOKE), "--out", str(folder)],
        env={**os.environ, "CBR_CACHE": str(cache_dir)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    for number in signals:
        process.send_signal(number)
    return process.wait(timeout=120)


@pytest.mark.parametrize("how", ["interrupted", "terminated", "killed"])
def test_a_stopped_run_resumes_to_the_same_bytes(cbr, whole, tmp_path, cache_dir, how):
    folder = tmp_path / "run"
    number = {"interrupted": signal.SIGINT, "terminated": signal.SIGTERM, "killed": signal.SIGKILL}[how]
    checkpoints = folder / "checkpoints"
    code = stop_when(folder, cache_dir, lambda: any(checkpoints.glob("0*")), [number])
    assert code == (-signal.SIGKILL if how == "killed" else 130)
    assert not (folder / "results.json").exists()
    done = cbr("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    same_run(whole, folder)


def test_a_second_interrupt_stops_at_once_and_the_run_is_still_good(cbr, whole, tmp_path, cache_dir):
    folder = tmp_path / "run"
    ready = lambda: (folder / "metrics.jsonl").exists()  # noqa: E731
    assert stop_when(folder, cache_dir, ready, [signal.SIGINT, signal.SIGINT]) == 130
    assert cbr("run", "--resume", folder).returncode == 0
    same_run(whole, folder)


def test_a_finished_run_is_not_overwritten_by_accident(cbr, whole):
    done = cbr("run", SMOKE, "--out", whole)
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr


def test_resuming_with_another_recipe_names_what_differs(cbr, whole):
    done = cbr("run", SMOKE, "--set", "training.gamma=0.5", "--resume", whole)
    assert (done.returncode, "training" in done.stderr) == (2, True)


def test_a_finished_run_can_be_prolonged_with_other_recorders(cbr, tmp_path):
    folder = tmp_path / "run"
    assert cbr("run", SMOKE, "--set", "run.episodes=1", "--out", folder).returncode == 0
    more = ("--set", "run.episodes=2", "--set", "recorders=[]")
    assert cbr("run", SMOKE, *more, "--resume", folder).returncode == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_evaluate_measures_a_finished_run_again_to_the_same_figures(cbr, whole):
    before = (whole / "results.json").read_bytes()
    done = cbr("evaluate", whole, "--split", "out")
    assert done.returncode == 0, done.stderr
    assert (whole / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nowhere.yaml"], "no such file"),
        (["run", SMOKE, "--set", "environment.level=hardest"], "'easy', 'medium'"),
        (["run", SMOKE, "--set", "agent.use=cbr_text/txt"], "cbr_text/text"),
        (["run", SMOKE, "--set", "quantizer.parts=7"], "parts"),
        (["run", SMOKE, "--device", "tpu"], "cuda"),
        (["run"], "RECIPE"),
        (["run", "--resume", "nowhere"], "holds no run"),
        (["evaluate", "nowhere"], "holds no run"),
        (["run", SMOKE, "--set", "environment.source=published", "--set", "environment.games_dir=/none"], "/none"),
        (["run", SMOKE, "--set", "text_encoder={use: cbr_text_encoders/transformer, model: no/such}"], "no/such"),
    ],
)
def test_wrong_input_ends_with_one_clear_error(cbr, tmp_path, arguments, says):
    out = [] if "--resume" in arguments or arguments[0] == "evaluate" else ["--out", tmp_path / "run"]
    done = cbr(*arguments, *out, cwd=tmp_path, env={"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_published_games_train_to_results_with_in_and_out(cbr, games_dir, tmp_path):
    done = cbr("run", RECIPES / "smoke" / "text_cbr_twc.yaml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["evaluation"]["in"]["optimal_steps"] == pytest.approx(2.4)
    assert results["evaluation"]["out"]["optimal_steps"] == pytest.approx(2.4)
    assert results["protocol"]["handicaps"]["commands"] == "full admissible list"
    assert all(len(found["games"]) == 5 for found in results["evaluation"].values())


@pytest.mark.usefixtures("thirdparty")
def test_a_third_partys_quantizer_and_agent_train_without_a_change_in_the_core(cbr, tmp_path):
    parts = ["--set", "quantizer.use=acme_cbr/sign", "--set", "agent.use=acme_cbr/bag"]
    done = cbr("run", SMOKE, *parts, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any(row["loss_policy"] is not None for row in rows)
    versions = json.loads((tmp_path / "run" / "versions.json").read_text())
    assert versions["plugins"]["acme_cbr"].startswith("acme-cbr ")
