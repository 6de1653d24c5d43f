"""A run that was exported is the same run elsewhere; a file that is not as it was written is refused."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import stat
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cbrcore as cbr
from cbr_share import unpacking
from cbr_share.config import StartConfig
from cbr_share.manifest import MANIFEST_FILE
from cbr_share.portable import without_places
from cbr_share.start import SharedStart
from cbrcore import CbrError
from cbrcore.cycle.retriever import module_tensors
from cbrcore.interfaces import Build
from cbrcore.runs.checkpoint import Progress, State, save_checkpoint
from cbrcore.testing import PretrainingSuite, sample_player

pytestmark = pytest.mark.usefixtures("cache_here")

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"
CBR_PARTS = ("context_encoder", "quantizer", "memory", "retain_policy")
MEASURED = "evaluation={splits: [in], passes: 1, random_passes: 1, modes: [sampled]}"
TENSORS = "checkpoints/00000012/tensors.safetensors"
STATE = "checkpoints/00000012/state.json"


@pytest.fixture(scope="module")
def run(here, tmp_path_factory) -> Path:
    """Trained until it has cases."""
    folder = tmp_path_factory.mktemp("share") / "run"
    done = here("run", SMOKE, "--set", "run.episodes=6", "--set", MEASURED, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert len((folder / "memory" / "cases.jsonl").read_text().splitlines()) > 1
    return folder


@pytest.fixture(scope="module")
def file(here, run) -> Path:
    """The run as a file."""
    done = here("export", run, run.parent / "shared.cbr")
    assert done.returncode == 0, done.stderr
    return run.parent / "shared.cbr"


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# -- what is exported --------------------------------------------------------------------------------------------


def test_the_same_run_gives_the_same_bytes_wherever_it_lies(here, run, file, tmp_path, monkeypatch):
    shutil.copytree(run, tmp_path / "moved" / "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert here("export", "moved/elsewhere", "other.cbr").returncode == 0
    assert (tmp_path / "other.cbr").read_bytes() == file.read_bytes()


def test_it_holds_what_is_needed_and_nothing_of_this_machine(run, file):
    held = members(file)
    manifest = json.loads(held.pop(MANIFEST_FILE))
    assert manifest["schema"] == 1
    assert manifest["members"] == {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in held.items()
    }
    kept = {"recipe.yaml", "results.json", "versions.json", "metrics.jsonl", "memory/cases.jsonl", TENSORS, STATE}
    assert kept <= held.keys()
    assert held["results.json"] == (run / "results.json").read_bytes()
    assert held["metrics.jsonl"] == (run / "metrics.jsonl").read_bytes()
    assert {Path(name).suffix for name in held} == {".json", ".jsonl", ".yaml", ".safetensors"}
    everything = b"".join([*held.values(), file.with_suffix(".md").read_bytes()])
    for place in (run.parent, ROOT, Path.home(), Path.cwd(), SMOKE.parent):
        assert str(place).encode() not in everything
    assert "cbr_tensorboard" not in manifest["plugins"]
    assert {"cbr_twc", "cbr_text", "cbr_memory", "cbr_a2c", "cbr_pretrain"} <= manifest["plugins"].keys()


def test_the_weights_are_those_of_the_run_without_its_optimizers(run, file, tmp_path):
    from safetensors.torch import load, load_file

    shared, own = load(members(file)[TENSORS]), load_file(run / TENSORS)
    assert {name.split(":")[0] for name in shared} == {"agent", "context_encoder", "quantizer"}
    assert all(torch.equal(own[name], value) for name, value in shared.items())
    assert {name.split(":")[0] for name in own.keys() - shared.keys()} == {
        "agent_optimizer",
        "retriever_optimizer",
    }


def test_the_card_tells_what_it_is_how_good_and_how_to_use_it(run, file):
    text = file.with_suffix(".md").read_text()
    results = json.loads((run / "results.json").read_text())
    for said in (
        "`cbr_text/text` with case-based reasoning", f"holds {results['training']['memory_size']} cases",
        "One training seed: 0", "`commands`: `full admissible list`", "cbr run --from shared.cbr",
        f"{results['training']['env_steps']:,} environment steps", "60 steps of pretraining",
        hashlib.sha256(file.read_bytes()).hexdigest(), "house-out-00", "| torch |", "uniform random",
    ):  # fmt: skip
        assert said in text
    assert text.startswith("---\nlibrary_name: cbr-textrl\n")


def test_no_name_of_a_game_breaks_the_card(run, file):
    from cbr_share.card import card
    from cbr_share.manifest import read_manifest

    held = members(file)
    results = json.loads(held["results.json"])
    results["protocol"]["games"]["in"] = {"a`b|c\n# <script>\x1b[2J": {}}
    recipe = {name: {"use": "x/y"} for name in ("environment", "agent")} | {"seed": 0, "run": {"episodes": 1}}
    manifest = read_manifest(held[MANIFEST_FILE], file)
    text = card("f.cbr", "0" * 64, manifest, recipe, results, json.loads(held["versions.json"]))
    assert r"`a'b¦c\n# <script>\x1b[2J`" in text


def test_a_path_of_this_machine_is_refused_unless_it_is_said_what_it_is_elsewhere(here, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    recipe = (tmp_path / "run" / "recipe.yaml").read_text().replace("games_dir: null", "games_dir: /srv/my games")
    recipe = recipe.replace("source: generate", "source: published")
    (tmp_path / "run" / "recipe.yaml").write_text(recipe)
    (tmp_path / "run" / "checksums.json").unlink()
    export = ("export", tmp_path / "run", tmp_path / "out.cbr")
    done = here(*export)
    assert done.returncode == 2
    assert "recipe.yaml: environment.games_dir: '/srv/my games' is a path of this machine" in done.stderr
    assert "--set environment.games_dir=null" in done.stderr
    other = here(*export, "--set", "environment.games_dir=null", "--set", "agent.hidden=9")
    assert "agent.hidden would make it another run" in other.stderr
    assert not (tmp_path / "out.cbr").exists()
    assert here(*export, "--set", "environment.games_dir=null").returncode == 0
    assert b"/srv/" not in (tmp_path / "out.cbr").read_bytes()


def test_a_path_that_some_part_has_written_is_found(here, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("a") as rows:
        rows.write(json.dumps({"file": str(tmp_path / "run" / "x")}) + "\n")
    (tmp_path / "run" / "checksums.json").unlink()
    done = here("export", tmp_path / "run", tmp_path / "out.cbr")
    assert (done.returncode, "metrics.jsonl names a path of this machine" in done.stderr) == (2, True)


def test_texts_that_are_paths_keep_their_last_part():
    data = {"/home/me/early_bird.py": "sha", "changed": {"a": ["/x/y", "~/z", r"C:\t\u", "in/out", None, 3]}}
    assert without_places(data) == {"early_bird.py": "sha", "changed": {"a": ["y", "z", "u", "in/out", None, 3]}}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: (run / "results.json").unlink(), "is not finished"),
        (lambda run: (run / "metrics.jsonl").write_text(""), "metrics.jsonl is empty"),
        (lambda run: shutil.rmtree(run / "checkpoints"), "has no checkpoint"),
        (lambda run: (run / "recipe.yaml").unlink(), "holds no run"),
    ],
)
def test_a_run_that_is_not_whole_is_not_exported(here, run, tmp_path, spoil, said):
    shutil.copytree(run, tmp_path / "run")
    spoil(tmp_path / "run")
    done = here("export", tmp_path / "run", tmp_path / "out.cbr")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not list(tmp_path.glob("*.cbr"))


def test_results_of_another_time_are_not_exported(here, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    results["training"]["episodes"] = 3
    (tmp_path / "run" / "results.json").write_text(json.dumps(results))
    (tmp_path / "run" / "checksums.json").unlink()
    done = here("export", tmp_path / "run", tmp_path / "out.cbr")
    assert "was measured after 3 game plays, its checkpoint is after 12" in done.stderr


def test_nothing_is_replaced_unless_it_is_said(here, run, file, tmp_path):
    assert "is there already" in here("export", run, file).stderr
    assert "name it" in here("export", run, tmp_path / "run.zip").stderr
    before = file.read_bytes()
    assert here("export", run, file, "--overwrite").returncode == 0
    assert file.read_bytes() == before


# -- elsewhere ---------------------------------------------------------------------------------------------------


def test_it_plays_as_the_run_does_and_measures_to_the_same_bytes(here, run, file, tmp_path):
    plays = [here("play", what, "--json", "--episodes", 2) for what in (run, file)]
    assert plays[0].returncode == 0
    assert len(plays[0].stdout.splitlines()) > 5
    assert plays[0].stdout == plays[1].stdout
    done = here("evaluate", file)
    assert done.returncode == 0, done.stderr
    again = Path(done.stdout.split("run folder: ")[1].strip())
    assert (again / "results.json").read_bytes() == (run / "results.json").read_bytes()


def test_on_another_machine_it_is_the_same_agent(cbr, run, file, tmp_path):
    """Another cache, another working directory, and the run is gone."""
    (tmp_path / "home").mkdir()
    shutil.copy(file, tmp_path / "home" / "got.cbr")
    elsewhere = {"env": {"CBR_CACHE": str(tmp_path / "cache")}, "cwd": tmp_path / "home"}
    done = cbr("evaluate", "got.cbr", **elsewhere)
    assert done.returncode == 0, done.stderr
    (found,) = (tmp_path / "cache" / "shared").glob("*/*/results.json")
    assert found.read_bytes() == (run / "results.json").read_bytes()
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["got.cbr"]


def test_python_and_the_other_commands_take_it_too(here, run, file, tmp_path):
    with cbr.open(file) as opened, cbr.open(run) as own:
        assert opened.results == own.results
        assert opened.metrics == own.metrics
        assert [case.text for case in opened.memory] == [case.text for case in own.memory]
    assert here("cases", file, "--json").stdout == here("cases", run, "--json").stdout
    done = here("report", file, "--no-decisions", "--out", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr
    assert "note:" not in done.stderr
    assert "holds no run" in here("cases", "import", file, tmp_path).stderr


def test_it_is_unpacked_once_and_put_right_if_it_was_changed(file, monkeypatch):
    folder = unpacking.unpacked(file)
    monkeypatch.setattr(unpacking, "_unpack", lambda *rest: pytest.fail("unpacked again"))
    assert unpacking.unpacked(file) == folder
    monkeypatch.undo()
    for spoil in (
        lambda: (folder / "results.json").write_text("{}"),
        lambda: (folder / STATE).unlink(),
        lambda: (folder / "checkpoints" / "more.json").write_text("{}"),
    ):
        spoil()
        assert unpacking.unpacked(file) == folder
        held = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
        assert held == {name: data for name, data in members(file).items() if name != MANIFEST_FILE}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_several_may_unpack_it_at_once(file, tmp_path, monkeypatch):
    monkeypatch.setenv("CBR_CACHE", str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: unpacking.unpacked(file), range(4)))
    (folder,) = folders
    assert (folder / "results.json").read_bytes() == members(file)["results.json"]


LOOSE = """
from cbrcore import ComponentConfig, hookimpl

class EarlyBird:
    def __init__(self, config, build): ...

    def select(self, buffer, rng):
        return [*buffer[:-1][:1], buffer[-1]]

@hookimpl
def register_retain_policies(registry):
    registry.add("early_bird", factory="loose_bird:EarlyBird")
"""


@pytest.mark.usefixtures("site")
def test_a_loose_plugin_file_is_named_and_asked_for(cbr, tmp_path):
    (tmp_path / "loose_bird.py").write_text(LOOSE)
    loose = ("--plugin", tmp_path / "loose_bird.py")
    words = ("--set", "retain_policy.use=loose_bird/early_bird", "--set", "run.episodes=1", "--set", MEASURED)
    done = cbr("run", SMOKE, *words, "--out", tmp_path / "run", *loose)
    assert done.returncode == 0, done.stderr
    done = cbr("export", tmp_path / "run", tmp_path / "bird.cbr", *loose)
    assert done.returncode == 0, done.stderr
    assert "it needs the plugin file loose_bird.py, which is not in it" in done.stderr
    held = members(tmp_path / "bird.cbr")
    assert list(json.loads(held[MANIFEST_FILE])["plugin_files"]) == ["loose_bird.py"]
    assert str(tmp_path).encode() not in b"".join(held.values())
    without = cbr("play", tmp_path / "bird.cbr")
    assert (without.returncode, "add --plugin loose_bird.py" in without.stderr) == (2, True), without.stderr
    assert cbr("play", tmp_path / "bird.cbr", *loose).returncode == 0


# -- what is refused ---------------------------------------------------------------------------------------------


class Runs:
    """What a pickle runs when it is read."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was read",)


def written(
    to: Path, held: dict[str, bytes], change: Callable[[zipfile.ZipInfo], None] = lambda entry: None
) -> Path:
    """A file of these members, whatever the manifest says."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as archive:
        for name, data in held.items():
            entry = zipfile.ZipInfo(name)
            change(entry)
            archive.writestr(entry, data)
    return to


def noted(held: dict[str, bytes], **facts: object) -> dict[str, bytes]:
    """With a manifest that fits the members, and says what else it is told to."""
    manifest = json.loads(held[MANIFEST_FILE])
    told = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in held.items()}
    told.pop(MANIFEST_FILE)
    return held | {MANIFEST_FILE: json.dumps(manifest | {"members": told} | facts).encode()}


BAD = pickle.dumps(Runs())
DAMAGES = {
    "a name that leads out": (lambda m: noted(m | {"../slid.json": b"{}"}), "'../slid.json' is no name of a file"),
    "an absolute name": (lambda m: noted(m | {"/etc/slid.json": b"{}"}), "'/etc/slid.json' is no name of a file"),
    "a name of Windows": (lambda m: noted(m | {"C:slid.json": b"{}"}), "'C:slid.json' is no name of a file"),
    "a hidden name": (lambda m: noted(m | {"a/.lock.json": b"{}"}), "'a/.lock.json' is no name of a file"),
    "a missing member": (lambda m: {k: v for k, v in m.items() if k != STATE}, f"'{STATE}' is missing"),
    "a member more": (lambda m: m | {"more.json": b"{}"}, "'more.json' is not in manifest.json"),
    "another content": (lambda m: m | {"metrics.jsonl": b"x" * len(m["metrics.jsonl"])},
                        "'metrics.jsonl' is not what was written (its checksum is another)"),
    "another size": (lambda m: m | {"metrics.jsonl": b""}, "'metrics.jsonl' has 0 bytes instead of"),
    "a pickle by name": (lambda m: noted(m | {"weights.pt": BAD}), "'weights.pt' is no file of a shared run"),
    "a pickle as weights": (lambda m: noted(m | {TENSORS: BAD}), f"'{TENSORS}' holds no safetensors"),
    "a pickle as a state": (lambda m: noted(m | {STATE: BAD}), f"'{STATE}' holds no json"),
    "a pickle as a recipe": (lambda m: noted(m | {"recipe.yaml": BAD}), "'recipe.yaml' holds no yaml"),
    "no manifest": (lambda m: {k: v for k, v in m.items() if k != MANIFEST_FILE}, "manifest.json is missing"),
    "a manifest that is none": (lambda m: m | {MANIFEST_FILE: b"[1]"}, "manifest.json is damaged"),
    "a manifest of BAD bytes": (lambda m: m | {MANIFEST_FILE: BAD}, "manifest.json is damaged"),
    "a manifest that lacks a key": (lambda m: noted(m, name=None), "manifest.json: name: Input should be"),
    "a name that is a path": (lambda m: noted(m, name="../../x"), "manifest.json: name: String should match"),
    "a later schema": (lambda m: noted(m, schema=2), "manifest.json: schema 2 is not known; this version reads"),
    "a plugin that is not here": (lambda m: noted(m, plugins={"cbr_moon": "moon-cbr 2.1"}),
                                  "it needs plugins that are not installed: cbr_moon (moon-cbr 2.1)"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_is_not_as_it_was_written_is_refused(here, file, tmp_path, name):
    damage, said = DAMAGES[name]
    bad = written(tmp_path / "bad.cbr", damage(members(file)))
    for command in (("play", bad), ("run", "--from", bad, "--out", tmp_path / "out"), ("cases", bad)):
        done = here(*command)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {bad}: {said}"), done.stderr
        assert any(word in done.stderr for word in ("cbr export RUN FILE.cbr", "pip install")), done.stderr
    assert not list(tmp_path.parent.parent.rglob("slid*"))
    assert not Path("/etc/slid.json").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry: setattr(entry, "external_attr", (stat.S_IFLNK | 0o777) << 16), "is a link or a device"),
        (lambda entry: setattr(entry, "compress_type", zipfile.ZIP_DEFLATED), "is compressed or encrypted"),
    ],
)
def test_a_member_of_another_kind_is_refused(here, file, tmp_path, change, said):
    bad = written(tmp_path / "bad.cbr", members(file), change)
    assert f"error: {bad}: 'manifest.json' {said}" in here("play", bad).stderr


def test_a_member_that_is_too_large_is_refused_before_it_is_read(here, file, tmp_path, monkeypatch):
    monkeypatch.setattr("cbr_share.manifest.MOST_BYTES", {".safetensors": 64})
    bad = written(tmp_path / "bad.cbr", members(file))
    assert "keys.safetensors' is too large: 5" in (said := here("play", bad).stderr)
    assert "at most 64" in said


def test_a_member_that_is_there_twice_is_refused(here, file, tmp_path):
    bad = written(tmp_path / "bad.cbr", members(file))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(bad, "a") as archive:
        archive.writestr("recipe.yaml", b"schema: 1")
    assert "'recipe.yaml' is in it twice" in here("play", bad).stderr


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06 and so on", BAD, b"\0" * 2000])
def test_what_is_no_zip_is_refused(here, tmp_path, content):
    (tmp_path / "bad.cbr").write_bytes(content)
    done = here("play", tmp_path / "bad.cbr")
    assert (done.returncode, "not a shared run" in done.stderr) == (2, True), done.stderr


def test_a_file_that_is_cut_off_is_refused(here, file, tmp_path):
    for length in (100, file.stat().st_size // 2, file.stat().st_size - 10):
        (tmp_path / "bad.cbr").write_bytes(file.read_bytes()[:length])
        assert "not a shared run" in here("play", tmp_path / "bad.cbr").stderr


def test_a_file_that_is_not_there(here, tmp_path):
    for words in (("play",), ("run", "--from"), ("evaluate",), ("report",)):
        done = here(*words, tmp_path / "none.cbr")
        assert (done.returncode, "none.cbr: no such file" in done.stderr) == (2, True), done.stderr


# -- a run that starts from it -----------------------------------------------------------------------------------


def start(here, file: Path, out: Path, *words: object) -> dict[str, object]:
    done = here("run", "--from", file, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text())


def test_without_training_it_is_the_same_agent(here, run, file, tmp_path):
    results = start(here, file, tmp_path / "same", "--set", "run.episodes=0")
    own = json.loads((run / "results.json").read_text())
    assert results["evaluation"] == own["evaluation"]
    before = results["training"]["pretraining"]
    assert before["steps"] == own["training"]["env_steps"] + own["training"]["pretraining"]["steps"]
    assert before["plays"] == own["training"]["episodes"] + own["training"]["pretraining"]["plays"]
    assert (before["file"], before["fresh"]) == ("shared.cbr", [])
    assert before["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert results["training"]["memory_size"] == own["training"]["memory_size"]


@pytest.mark.parametrize("recipe", ["explorer_generated", "goals_generated"])
def test_so_is_one_whose_reuse_policy_has_learned(here, tmp_path, recipe):
    """Cases in a reuse policy, and views in an environment, are state that is not in the weights."""
    done = here("run", SMOKE.parent / f"{recipe}.yaml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert here("export", tmp_path / "run", tmp_path / "it.cbr").returncode == 0
    results = start(here, tmp_path / "it.cbr", tmp_path / "same", "--set", "run={episodes: 0}")
    own = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["evaluation"] == own["evaluation"]
    assert "reuse_policy" in results["training"]["pretraining"]["started"]


def test_a_run_starts_from_the_folder_of_a_run_as_from_its_file(here, run, file, tmp_path):
    results = [start(here, each, tmp_path / each.name, "--set", "run.episodes=1") for each in (run, file)]
    assert results[0]["training"]["env_steps"] > 0
    for each in results:
        for name in ("file", "sha256"):
            del each["training"]["pretraining"][name]
    assert results[0] == results[1]
    rows = [(tmp_path / each.name / "metrics.jsonl").read_bytes() for each in (run, file)]
    assert rows[0] == rows[1]


def test_it_is_trained_further_and_resumes_without_the_file(here, file, tmp_path):
    shutil.copy(file, tmp_path / "mine.cbr")
    whole = start(here, tmp_path / "mine.cbr", tmp_path / "whole", "--set", "run.episodes=2")
    start(here, tmp_path / "mine.cbr", tmp_path / "part", "--set", "run.episodes=1")
    (tmp_path / "mine.cbr").unlink()
    done = here("run", "--resume", tmp_path / "part", "--set", "run.episodes=2")
    assert done.returncode == 0, done.stderr
    for name in ("results.json", "metrics.jsonl", "memory/cases.jsonl"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert whole["training"]["memory_size"] >= whole["training"]["pretraining"]["cases"]


def test_what_it_becomes_can_be_shared_again(here, file, tmp_path):
    start(here, file, tmp_path / "next", "--set", "run.episodes=1")
    done = here("export", tmp_path / "next", tmp_path / "next.cbr")
    assert done.returncode == 0, done.stderr
    assert b"file: null" in members(tmp_path / "next.cbr")["recipe.yaml"]


def test_another_recipe_takes_what_fits_it(here, file, tmp_path):
    """An agent without cases takes the agent alone; an encoder of other weights takes nothing."""
    plain = [line for line in SMOKE.read_text().splitlines(keepends=True) if not line.startswith(CBR_PARTS)]
    (tmp_path / "plain.yaml").write_text("".join(plain))
    encoder = "context_encoder={use: cbr_seeded_gat/seeded_gat, heads: 2, layers: 1}"
    told = start(here, file, tmp_path / "plain", tmp_path / "plain.yaml", "--set", "run.episodes=1")
    assert told["training"]["pretraining"]["started"] == ["agent"]
    assert told["training"]["pretraining"]["cases"] is None
    before = {path: path.read_bytes() for path in (tmp_path / "plain").rglob("*.json*")}
    done = here("run", SMOKE, "--from", file, "--set", encoder, "--out", tmp_path / "plain", "--overwrite")
    assert done.returncode == 2
    assert "its weights do not fit the context_encoder of this recipe" in done.stderr
    assert "cbr run --from" in done.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "plain").rglob("*.json*")} == before


def test_cases_of_other_encoders_get_new_keys(here, file, tmp_path):
    """The text encoder has no weights of its own here: with another one the same networks give other keys."""
    words = ("--set", "run.episodes=0", "--set", "quantizer.temperature=0.5")
    told = start(here, file, tmp_path / "other", *words)
    assert told["training"]["memory_size"] > 0
    kept = json.loads((tmp_path / "other" / "memory" / "cases.jsonl").read_text().splitlines()[0])
    assert kept["text"]


def test_from_and_resume_are_not_for_one_run(here, run, file):
    done = here("run", "--from", file, "--resume", run)
    assert (done.returncode, "name a RECIPE to run, or a run to start from" in done.stderr) == (2, True)


def sample_run(folder: Path) -> Path:
    """A run of the suite's sample player, with other weights."""
    player = sample_player()
    tensors = {name: value + 1 for name, value in module_tensors(player.modules()).items()}
    save_checkpoint(folder / "checkpoints", State(Progress(games_played=1), tensors, {}, {}))
    (folder / "recipe.yaml").write_text("schema: 1\n")
    return folder


class TestSharedStart(PretrainingSuite):
    def make(self, build: Build) -> SharedStart:
        folder = build.recipe_dir / "run"
        return SharedStart(StartConfig(file=str(folder if folder.exists() else sample_run(folder))), build)

    def test_the_weights_are_those_of_the_run(self, build: Build):
        scene, before = self.scene(build), module_tensors(sample_player().modules())
        self.make(build).run(scene)
        assert before
        for name, value in module_tensors(scene.player.modules()).items():
            assert torch.equal(value, before[name] + 1)

    def test_without_a_file_nothing_is_loaded(self, build: Build):
        assert SharedStart(StartConfig(), build).run(self.scene(build)) is None

    def test_what_a_policy_does_not_know_is_said(self, build: Build):
        from cbr_share.start import fill_keepers

        class Keeps:
            def state(self):
                return {}

            def load_state(self, state):
                raise KeyError("goals")

        scene = self.scene(build)
        scene = replace(scene, player=scene.player)
        scene.player.reuse_policy = Keeps()
        with pytest.raises(CbrError, match="what its reuse_policy knows does not fit this recipe: KeyError"):
            fill_keepers(scene, {"reuse_policy": {}}, Path("f.cbr"), environment=False)
