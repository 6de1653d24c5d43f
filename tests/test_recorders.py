"""All recorders of a run, told as one: in order, and none of them ends the run."""

from __future__ import annotations

import logging

import pytest

from cbrcore.errors import CbrError, RunFolderError
from cbrcore.runs.folder import Recorders


class Notes:
    """Notes what it is told, and fails where it shall."""

    def __init__(self, told, name, fails=(), error=OSError):
        self.told, self.name, self.fails, self.error = told, name, fails, error

    def say(self, what):
        self.told.append((self.name, what))
        if what in self.fails:
            raise self.error("disk full")

    def begin(self, folder, recipe, *, after):
        self.say("begin")

    def write(self, row):
        self.say("write")

    def finish(self, results):
        self.say("finish")

    def close(self):
        self.say("close")


def tell(recorders, path):
    recorders.begin(path, {}, after=0)
    recorders.write({"episode": 1})
    recorders.write({"episode": 2})
    recorders.finish({})
    recorders.close()
    recorders.close()


def test_all_are_told_in_the_order_of_the_recipe(tmp_path):
    told = []
    tell(Recorders([("p/a", Notes(told, "a")), ("p/b", Notes(told, "b"))]), tmp_path)
    said = ["begin", "write", "write", "finish", "close", "close"]
    assert told == [(name, what) for what in said for name in "ab"]


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (["write"], ["begin", "write", "close"]),
        (["write", "close"], ["begin", "write", "close"]),
        (["finish"], ["begin", "write", "write", "finish", "close"]),
        (["close"], ["begin", "write", "write", "finish", "close", "close"]),
    ],
)
def test_one_that_fails_is_named_once_closed_and_told_no_more(tmp_path, caplog, fails, said):
    told = []
    tell(Recorders([("p/a", Notes(told, "a", fails)), ("p/b", Notes(told, "b"))]), tmp_path)
    assert [what for name, what in told if name == "a"] == said
    assert [what for name, what in told if name == "b"] == ["begin", "write", "write", "finish", "close", "close"]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert messages == ["p/a failed and records no more: OSError: disk full"]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (lambda said: CbrError(said, hint="buy another"), "p/b: disk full\n  buy another"),
        (RunFolderError, "p/b: disk full\n  mend the settings of p/b, or take it out of the recipe"),
        (OSError, "p/b: OSError: disk full\n  mend the settings of p/b, or take it out of the recipe"),
    ],
)
def test_one_that_cannot_begin_is_named_and_all_are_closed(tmp_path, error, says):
    told = []
    recorders = Recorders([(f"p/{n}", Notes(told, n, ["begin"] if n == "b" else (), error)) for n in "abc"])
    with pytest.raises(CbrError) as caught:
        recorders.begin(tmp_path, {}, after=0)
    assert str(caught.value) == says
    assert told == [("a", "begin"), ("b", "begin"), ("a", "close"), ("b", "close"), ("c", "close")]


def test_ctrl_c_goes_through(tmp_path):
    recorders = Recorders([("p/a", Notes([], "a", ["write"], KeyboardInterrupt))])
    recorders.begin(tmp_path, {}, after=0)
    with pytest.raises(KeyboardInterrupt):
        recorders.write({"episode": 1})


def test_no_recorder_at_all_is_fine(tmp_path):
    tell(Recorders([]), tmp_path)
