"""`cbr doctor`: what is found, how to mend it, and when it is a failure."""

from __future__ import annotations

import json
import sys

import pytest
from packaging.requirements import Requirement

from cbr_doctor import examine as doctor
from cbr_doctor import selftest
from cbr_doctor.examine import Examination, examine, package_found, size
from cbrcore import CbrError, Finding
from cbrcore.errors import RunFailed
from cbrcore.plugins import load_plugins
from cbrcore.recipe import shipped
from cbrcore.testing import CheckSuite


@pytest.fixture
def quick(monkeypatch, cache_dir, tmp_path):
    """Examines with these environment variables, and no games but those they name."""

    def call(**environment: str) -> dict[tuple[str, str], Finding]:
        for name in ("CBR_GAMES", "CBR_LOAD_PLUGINS", "CBR_STRICT_PLUGINS"):
            monkeypatch.delenv(name, raising=False)
        settings = {"CBR_CACHE": str(cache_dir), "XDG_DATA_HOME": str(tmp_path), **environment}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return {(found.section, found.name): found for found in examine(quick=True).findings}

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
    for check in quick(CBR_GAMES="/nowhere", CBR_LOAD_PLUGINS="cbr_twc,cbr_doctor").values():
        assert (check.status == "ok") == (check.mend == ""), check


def test_the_published_games_are_counted(quick, games_dir):
    found = quick(CBR_GAMES=str(games_dir))
    for level in ("easy", "medium", "hard"):
        assert found["games", f"TWC {level}"].found == "5 train, 5 in, 5 out"
    assert found["games", "Jericho"].found.endswith("of 33 games")


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
    ("asked", "status", "mend"),
    [
        (("pluggy>=1.0", None), "ok", ""),
        (("pluggy>=999", None), "broken", "pip install 'pluggy>=999'"),
        (("pluggy>=999", "spacy"), "problem", "pip install 'cbr-textrl[spacy]'"),
        (("no-such-package-here>=1", None), "broken", "pip install 'no-such-package-here>=1'"),
        (("no-such-package-here>=1", "spacy"), "absent", "pip install 'cbr-textrl[spacy]'"),
    ],
)
def test_packages_must_be_here_in_a_version_that_fits(asked, status, mend):
    check = package_found(Requirement(asked[0]), asked[1])
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


def test_a_self_test_that_fails_says_what_was_printed(tmp_path):
    with pytest.raises(RunFailed, match=r"took more than 0\.01 s"):
        selftest.tiny_run(shipped(selftest.RECIPE), limit_s=0.01)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("schema: 2\n")
    with pytest.raises(RunFailed, match=r"exit code 2: .*wrong\.yaml"):
        selftest.tiny_run(wrong)


@pytest.mark.parametrize("name", ["nowhere.yaml", "wrong.yaml"])
def test_a_recipe_that_does_not_fit_is_no_plugin_switched_off(monkeypatch, tmp_path, name):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_doctor")
    (tmp_path / "wrong.yaml").write_text("schema: 2\n")
    with pytest.raises(CbrError, match=name):
        list(selftest.self_test(load_plugins(), tmp_path / name))


def test_a_self_test_without_its_plugins_names_them(monkeypatch, here):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_doctor,cbr_twc")
    done = here("doctor", "--json")
    checks = {
        check["name"]: check for check in json.loads(done.stdout)["checks"] if check["section"] == "self-test"
    }
    assert done.returncode == 0
    assert checks["tiny run"]["status"] == "absent"
    assert checks["tiny run"]["mend"] == "unset CBR_LOAD_PLUGINS"
    for needed in ("cbr_a2c", "cbr_memory", "cbr_pretrain", "cbr_text_encoders", "cbr_vq"):  # defaults among them
        assert needed in checks["tiny run"]["found"]
    assert "cbr_twc" not in checks["tiny run"]["found"]


# checks of plugins

CHECK = """
from cbrcore import Finding, hookimpl

@hookimpl
def register_checks(registry):
    registry.add("disk", factory="{module}:disk", summary="room on the disk")

def disk(*, quick):
    {body}
"""


def test_a_plugin_that_is_left_out_leaves_its_checks_out(quick):
    found = quick(CBR_LOAD_PLUGINS="cbr_doctor,cbr_twc")
    assert found["games", "CBR_GAMES"].status == "absent"
    assert not [names for names in found if "Jericho" in names or "spaCy model" in names]


def test_the_doctor_may_be_left_out_too(here, monkeypatch):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_twc")
    done = here("doctor")
    assert done.returncode == 2
    assert "no such command: 'doctor'" in done.stderr


DISK = 'yield Finding("storage", "disk", "problem", f"3 MiB free, quick: {quick}", "rm -r /old")'


def test_an_installed_plugins_findings_stand_in_its_own_section(quick, site):
    site.plugin("acme", CHECK.format(module="acme", body=DISK))
    found = quick()["storage", "disk"]
    assert (found.status, found.found, found.mend) == ("problem", "3 MiB free, quick: True", "rm -r /old")


def test_a_third_partys_check_stands_beside_the_parts_that_it_offers(quick, thirdparty):
    thirdparty.plugin("acme_check", CHECK.format(module="acme_check", body=DISK))
    found = quick()
    assert "acme_cbr" in found["plugins", "loaded"].found
    assert found["storage", "disk"].status == "problem"


@pytest.mark.parametrize("before", [True, False])
def test_a_loose_files_check_is_asked(here, site, tmp_path, before):
    path = tmp_path / "my_disk.py"
    path.write_text(CHECK.format(module="my_disk", body=DISK))
    words = ("doctor", "--quick")
    done = here("--plugin", path, *words) if before else here(*words, "--plugin", path)
    assert done.returncode == 0, done.stderr
    assert "storage:\n  problem  disk                    3 MiB free" in done.stdout
    assert "           mend it: rm -r /old" in done.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no disk')", "ValueError: no disk"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("yield 'fine'", "TypeError: it gave a str, not a Finding"),
        ("import not_there; yield", "ModuleNotFoundError"),
        ("return None", "TypeError"),
        ("yield Finding('a', 'b', 'fine', 'c')", "ValueError: the status of 'b' is 'fine'"),
        ("yield Finding('a', 'b', 'ok', 3)", "AttributeError"),
    ],
)
def test_a_check_that_fails_is_a_finding_that_names_whose_it_is(quick, site, body, said):
    site.plugin("acme", CHECK.format(module="acme", body=body), distribution="acme-tools", version="2.1")
    found = quick()
    failed = found["plugins", "acme/disk"]
    assert failed.status == "problem"
    assert said in failed.found
    assert "acme-tools 2.1" in failed.found
    assert failed.mend == "pip install --upgrade acme-tools, or pip uninstall acme-tools"
    assert found["device", "device"].status == "ok"
    assert Examination(tuple(found.values())).ok


def test_what_a_check_found_before_it_failed_is_told(quick, site):
    site.plugin("acme", CHECK.format(module="acme", body=f"{DISK}; raise OSError('gone')"))
    found = quick()
    assert found["storage", "disk"].status == "problem"
    assert "OSError: gone" in found["plugins", "acme/disk"].found


def test_a_check_that_cannot_be_imported_is_a_finding_too(quick, site):
    site.plugin("acme", CHECK.format(module="acme_gone", body="pass"), distribution="acme-tools", version="2.1")
    assert "acme_gone" in quick()["plugins", "acme/disk"].found


def test_a_loose_file_that_fails_is_mended_itself(site, tmp_path):
    path = tmp_path / "my_disk.py"
    path.write_text(CHECK.format(module="my_disk", body="raise OSError('gone')"))
    (failed,) = [found for found in examine(quick=True, files=[path]).findings if found.name == "my_disk/disk"]
    assert failed.mend == f"mend {path}, or leave it out"


def test_a_check_that_ships_may_not_fail(monkeypatch, quick):
    monkeypatch.setattr("cbr_twc.checks.TwcEnvironment", None)
    failed = quick(CBR_GAMES="/")["plugins", "cbr_twc/games"]
    assert (failed.status, failed.mend) == ("broken", "pip install --force-reinstall cbr-textrl")


def test_what_a_check_prints_and_writes_cannot_spoil_the_output(here, site):
    body = r"print('noise'); yield Finding('storage', 'disk', 'ok', 'two\n  lines \x1b[31m')"
    site.plugin("acme", CHECK.format(module="acme", body=body))
    done = here("doctor", "--quick", "--json")
    (disk,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "disk"]
    assert disk["found"] == "two / lines ?[31m"
    assert "noise" in done.stderr


def test_json_and_exit_code(cbr, tmp_path):
    done = cbr("doctor", "--quick", "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["ok"]) == (0, True)
    assert list(data["checks"][0]) == ["section", "name", "status", "found", "mend"]
    (tmp_path / "file").write_text("")
    failed = cbr("doctor", "--quick", env={"CBR_CACHE": str(tmp_path / "file" / "cache")})
    assert failed.returncode == 1
    assert "mend it: export CBR_CACHE=" in failed.stdout
    assert "Traceback" not in failed.stderr


def test_the_whole_examination_with_its_self_test(cbr):
    done = cbr("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "generated games, trained, evaluated" in done.stdout
    assert "one step of the generated story" in done.stdout
    assert sys.executable in done.stdout


# the suite for authors


class TestSuite(CheckSuite):
    def check(self):
        return lambda *, quick: [Finding("storage", "disk", "absent", "no disk", "buy one")]


@pytest.mark.parametrize(
    ("found", "test"),
    [
        ("fine", "test_it_gives_findings_of_a_known_status"),
        (Finding("a", "b", "fine", "c", "d"), "test_it_gives_findings_of_a_known_status"),
        (Finding("a", "b", "ok", "two\nlines"), "test_its_texts_are_single_lines_that_can_be_printed"),
        (Finding("a", "", "ok", "c"), "test_its_texts_are_single_lines_that_can_be_printed"),
        (Finding("a", "b", "problem", "c"), "test_what_is_not_well_says_how_to_mend_it_and_nothing_else_does"),
        (Finding("a", "b", "ok", "c", "d"), "test_what_is_not_well_says_how_to_mend_it_and_nothing_else_does"),
    ],
)
def test_the_suite_refuses(found, test):
    class Wrong(CheckSuite):
        def check(self):
            return lambda *, quick: [found]

    with pytest.raises(AssertionError):
        getattr(Wrong(), test)(**({"quick": True} if "status" in test else {}))


def test_the_suite_refuses_a_slow_check():
    class Slow(CheckSuite):
        quick_seconds = 0.0

        def check(self):
            return lambda *, quick: iter(())

    with pytest.raises(AssertionError):
        Slow().test_quick_is_quick()
