"""Some sixty seeded SIGKILLs: in pretraining, training, evaluation and while files are written. What was killed is
resumed, and ends with the bytes of a run that was never killed. ``pytest -m crash -n 2``; about ten minutes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_folders import same

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1500)]

SMOKE = Path(__file__).parents[1] / "recipes" / "smoke"
PRETRAIN = "training.pretrain.episodes=4"
SETS = {
    "twc": ["run.episodes=8", PRETRAIN, "evaluation.passes=3", "memory.threshold=0.4"],
    "jericho": ["run.env_steps=160", PRETRAIN, "environment.cache_key=state", "evaluation.passes=3"],
    "view": ["run.env_steps=160", PRETRAIN, "environment.cache_key=view", "evaluation.passes=3"],
    "explorer": ["run.env_steps=600"],
}
COMMON = ["run.checkpoint_every=2", "recorders=[]"]
RECIPES = {
    "twc": SMOKE / "text_cbr_generated.yaml",
    "jericho": SMOKE / "text_cbr_jericho.yaml",
    "view": SMOKE / "text_cbr_jericho.yaml",
    "explorer": SMOKE / "explorer_generated.yaml",
}
KILLS = {
    ("twc", 1): 13,
    ("twc", 4): 13,
    ("jericho", 1): 12,
    ("jericho", 4): 12,
    ("view", 2): 6,
    ("explorer", 2): 6,
}
MOMENTS = ("starting", "collecting", "training", "writing", "training", "writing", "evaluating")
"""The kills of one run, in this order; then it may end. But for the first and `writing` these are phases."""
SECONDS = {"starting": 6.0, "collecting": 0.4, "training": 0.5, "evaluating": 0.4, "writing": 0.004}
"""Longest random delay once the moment has come."""


class Runs:
    """Runs of one setting, in processes of their own."""

    def __init__(self, game: str, num_envs: int, folder: Path, cache: Path) -> None:
        sets = [*COMMON, *SETS[game], f"run.num_envs={num_envs}"]
        self.words = [RECIPES[game], *(word for item in sets for word in ("--set", item))]
        self.folder, self.cache = folder, cache

    @contextlib.contextmanager
    def started(self, run: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A process that begins the run, or goes on with it."""
        began = (run / "recipe.yaml").exists()
        what = ["--resume", run] if began else [*self.words, "--out", run]
        env = {**os.environ, "CBR_CACHE": str(self.cache), "OMP_NUM_THREADS": "1"}
        with (self.folder / "output").open("ab") as output:
            command = [sys.executable, "-m", "cbrcore.cli", "run", *map(str, what)]
            process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def finish(self, run: Path) -> None:
        with self.started(run) as process:
            assert process.wait(timeout=300) == 0, (self.folder / "output").read_text()[-2000:]

    def kill(self, run: Path, moment: str, delay: float) -> bool:
        """Whether the moment came before the run was over."""
        with self.started(run) as process:
            deadline = time.monotonic() + 300
            while not has_come(run, moment) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.0005)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            code = process.wait()
        assert code in (0, -signal.SIGKILL), (self.folder / "output").read_text()[-2000:]
        return code != 0


def has_come(run: Path, moment: str) -> bool:
    if moment == "starting":
        return True
    if moment == "writing":
        places = (run, run / "checkpoints")
        names = (name for place in places if place.is_dir() for name in os.listdir(place))
        return any(name.endswith(".tmp") and "progress" not in name for name in names)
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads((run / "progress.json").read_text())["phase"]).startswith(moment)
    return False


@pytest.mark.parametrize(("game", "num_envs"), KILLS)
def test_killed_runs_end_with_the_bytes_of_one_that_was_not(tmp_path, cache_dir, record_property, game, num_envs):
    runs = Runs(game, num_envs, tmp_path, cache_dir)
    straight = tmp_path / "straight"
    runs.finish(straight)
    planned = int(os.environ.get("CBR_CRASH_KILLS", 0)) or KILLS[game, num_envs]
    rng, survived, number = random.Random(f"{game} {num_envs}"), 0, 0
    try:
        while survived < planned:
            run = tmp_path / f"killed-{number}"
            number += 1
            moments = MOMENTS[: planned - survived]
            killed = sum(runs.kill(run, moment, rng.uniform(0, SECONDS[moment])) for moment in moments)
            runs.finish(run)
            same(straight, run)
            survived += killed
            assert number < planned + 5, "the moments hardly ever come"
    finally:
        record_property("kills", (survived, planned))
