"""`cbr games tune`: a faster build of the interpreter, kept only if it answers as the installed one does."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from jericho_play import say

from cbr_cache.sealed import keep
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbr_jericho.interpreter import identity, tuned_interpreter, tuned_path
from cbr_jericho.tune import _downloaded, tune
from cbrcore.errors import GameError
from cbrcore.interfaces import Build


@pytest.fixture(autouse=True)
def _no_build_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Jericho's source, as pip gets it."""
    try:
        return _downloaded(tmp_path_factory.mktemp("source"))
    except GameError as error:
        pytest.skip(f"the source of Jericho cannot be had here: {error.message[-300:]}")


@pytest.fixture
def source(archive, tmp_path):
    """A copy, unpacked, to be changed."""
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    return folder


@pytest.fixture
def imitation(tmp_path):
    """A folder that has nothing of Jericho's source but its version."""
    from importlib.metadata import version

    folder = tmp_path / "imitation"
    (folder / "jericho").mkdir(parents=True)
    (folder / "jericho" / "version.py").write_text(f"__version__ = '{version('jericho')}'\n")
    (folder / "frotz").mkdir()
    return folder


def put(content: bytes) -> Path:
    """A build in its place."""
    path = tuned_path()
    path.parent.mkdir(parents=True)
    fresh = path.with_name("fresh")
    fresh.write_bytes(content)
    keep(fresh, path, identity())
    return path


def open_story(cache_dir: Path, **settings: str) -> JerichoEnvironment:
    return JerichoEnvironment(JerichoConfig(game="generated", **settings), Build(cache_dir=cache_dir))


def first_step(environment: JerichoEnvironment) -> object:
    seen = environment.reset(environment.games("train")[0], 0)
    return seen, say(environment, seen.admissible[0].text)


def installed_build() -> bytes:
    import jericho.jericho

    return Path(jericho.jericho.FROTZ_LIB_PATH).read_bytes()


def test_a_run_plays_with_the_tuned_build_if_there_is_one(cache_dir, caplog):
    caplog.set_level("INFO")
    with closing(open_story(cache_dir)) as environment:
        without = first_step(environment)
    put(installed_build())
    with closing(open_story(cache_dir)) as environment:
        assert first_step(environment) == without
    with closing(open_story(cache_dir, interpreter="installed")) as environment:
        assert first_step(environment) == without
    told = [
        record.getMessage().split(": the ")[-1] for record in caplog.records if "interpreter" in record.message
    ]
    assert told == [f"interpreter is the {which} one" for which in ("installed", "tuned", "installed")]


def test_several_environments_of_a_run_say_once_which_build_plays(cache_dir, caplog):
    caplog.set_level("INFO")
    build = Build(cache_dir=cache_dir)
    for _ in range(3):
        with closing(JerichoEnvironment(JerichoConfig(game="generated"), build)) as environment:
            first_step(environment)
    assert [record.message for record in caplog.records if "interpreter" in record.message] == [
        "tw-treasure-0: the interpreter is the installed one"
    ]


def test_a_build_that_cannot_be_loaded_is_named_with_what_to_type(cache_dir):
    path = put(b"no library")
    with closing(open_story(cache_dir)) as environment, pytest.raises(GameError) as caught:
        first_step(environment)
    assert str(path) in caught.value.message
    assert "cbr games tune" in caught.value.hint
    assert "environment.interpreter=installed" in caught.value.hint
    with closing(open_story(cache_dir, interpreter="installed")) as environment:
        first_step(environment)


def test_a_build_that_was_changed_is_not_used(cache_dir, caplog):
    path = put(installed_build())
    assert tuned_interpreter() == path
    path.write_bytes(path.read_bytes() + b"more")
    assert tuned_interpreter() is None
    assert "does not fit its checksum" in caplog.text
    with closing(open_story(cache_dir)) as environment:
        first_step(environment)


def test_without_a_compiler_it_says_so_first(cache_dir, imitation, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(GameError, match="there is no 'no-such-compiler -O2'") as caught:
        tune(cache_dir, lambda told: pytest.fail(told), source=imitation)
    assert "Install gcc" in caught.value.hint


def test_another_compiler_than_gnus_is_refused(cache_dir, imitation, tmp_path, monkeypatch):
    other = tmp_path / "cc"
    other.write_text("#!/bin/sh\necho clang version 17.0.0\n")
    other.chmod(0o755)
    monkeypatch.setenv("CC", str(other))
    with pytest.raises(GameError, match="is not GNU's compiler"):
        tune(cache_dir, lambda told: pytest.fail(told), source=imitation)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: shutil.rmtree(folder / "jericho"), "is no source of Jericho"),
        (
            lambda folder: (folder / "jericho" / "version.py").write_text("__version__ = '1.0'"),
            "is not of Jericho",
        ),
        (lambda folder: None, "make -C"),
    ],
    ids=["no source", "another version", "nothing to make"],
)
def test_a_source_that_is_none_is_named(cache_dir, imitation, spoil, told):
    spoil(imitation)
    with pytest.raises(GameError, match=told):
        tune(cache_dir, lambda message: None, source=imitation)
    assert list(tuned_path().parent.iterdir()) == []


def test_a_file_that_is_no_archive_is_named(cache_dir, tmp_path):
    (tmp_path / "jericho.tar.gz").write_bytes(b"no archive")
    with pytest.raises(GameError, match=r"jericho\.tar\.gz is no source of Jericho"):
        tune(cache_dir, lambda message: None, source=tmp_path / "jericho.tar.gz")


def test_the_build_is_faster_and_answers_alike(cache_dir, archive):
    said: list[str] = []
    compared = tune(cache_dir, said.append, source=archive)
    assert tuned_interpreter() == tuned_path()
    assert installed_build() != tuned_path().read_bytes()
    (story,) = compared
    assert story.story.startswith("tw-treasure")
    assert story.ratio > 1.2, compared
    assert [line.split()[0] for line in said] == ["getting", "building", "playing", "building", "comparing"]
    assert len(list(tuned_path().parent.iterdir())) == 2  # with its seal


def test_a_build_that_answers_otherwise_is_not_kept(cache_dir, source):
    code = source / "frotz" / "src" / "interface" / "frotz_interface.c"
    text = code.read_text("latin-1")
    assert text.count("int world_changed() {\n") == 1
    code.write_text(text.replace("int world_changed() {\n", "int world_changed() {\n  return 1;\n"), "latin-1")
    with pytest.raises(GameError, match="plays tw-treasure-0 differently: it is not kept"):
        tune(cache_dir, lambda message: None, source=source)
    assert tuned_interpreter() is None
