"""What a game's own parser takes for several commands, or for one to the interpreter. The games are real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import pytest
from jericho_play import open_game, say, texts

from cbr_jericho.commands import META
from cbr_jericho.parser import Parser
from cbr_jericho.play import NO_MOVE, ONE_AT_A_TIME
from cbrcore.types import Ending

GAMES = ["zork1.z5", "detective.z5", "cutthroat.z3", "anchor.z8", "trinity.z4", "snacktime.z8", "hhgg.z3"]
GAMES += ["ztuu.z5"]
"""Of every version of the Z-machine; by Infocom, Inform 6 and Inform 7."""

_ASK = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
from cbr_jericho.engine import Engine
engine = Engine(pathlib.Path(sys.argv[1]), None)
engine.reset()
state = engine.get_state()
answers = {line: engine.peek(line, state)[0] for line in json.loads(sys.argv[2])}
walk = (engine.bindings or {}).get("walkthrough", "")
print(json.dumps([engine.vocabulary(), answers, walk, engine.longest_line(state)]))
"""


@lru_cache
def ask(story: Path, lines: tuple[str, ...] = ()) -> list:
    """What the engine says in a process of its own: vocabulary, answers, walkthrough, room for a line."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK, str(story), json.dumps(lines)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=GAMES)
def story(request, games_dir) -> Path:
    return games_dir / "jericho" / request.param


BETWEEN = (". ", ".", " .. ", "; ", ", ", ",", " then ", " THEN ", " and ", ", and ", ", then ", "! ", "? ")
BETWEEN += (' " ', ": ", "/")


def test_lines_that_the_game_carries_out_as_two_commands_are_told(story):
    """Every line is played in the real game: where both answers come, there were two commands."""
    pairs = [("look", "inventory"), ("inventory", "look"), ("look", "i"), ("inventory", "l")]
    lines = {one + between + other: (one, other) for one, other in pairs for between in BETWEEN}
    vocabulary, answers, _, _ = ask(story, ("look", "inventory", *lines))
    parser = Parser.of(vocabulary, META)
    last = {name: answers[name].rstrip("\n >").split("\n")[-1][-30:] for name in ("look", "inventory")}
    last |= {"l": last["look"], "i": last["inventory"]}
    both = {line for line, pair in lines.items() if all(last[name] in answers[line] for name in pair)}
    assert both, "no line was carried out as two commands"
    assert {line for line in both if not parser.is_several(line)} == set()


def test_single_commands_are_not_refused(story):
    """Every command of the walkthrough is one, and none speaks to the interpreter, but for these."""
    vocabulary, _, walkthrough, _ = ask(story)
    parser = Parser.of(vocabulary, META)
    known = {"again", "g", "learn meef, meef and swanzo"}
    commands = {command for command in walkthrough.split("/") if command.lower() not in known}
    assert len(commands) > 10
    assert {command for command in commands if parser.is_several(command) or parser.is_refused(command)} == set()


SPELLINGS = ["{}", " {} ", "{}.", "{}, ", ". {}", "then {}", "please {}", "bob, {}", "{} now", '"{}"', ', "{}']


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_commands_to_the_interpreter_in_any_spelling(story, spelling):
    parser = Parser.of(ask(story)[0], {*META, "wait"})
    words = [
        "save",
        "restore",
        "restart",
        "quit",
        "q",
        "undo",
        "again",
        "g",
        "oops",
        "verbose",
        "superbrief",
        "script",
    ]
    words += ["script", "version", "transcript", "o", "#command", "$verify", "wait"]
    words += ["restor", "superb", "verbos"] if parser.letters == 6 else ["superbrie", "transcrip"]
    for word in words:
        for typed in (word, word.upper(), word.title()):
            line = spelling.format(typed)
            assert parser.is_refused(line), line
    for word in ("take lamp", "quite", "saver", "go", "inventory", "wave", ""):
        assert not parser.is_refused(spelling.format(word).strip('". ,') if not word else f"{word}."), word


def test_debugging_verbs_of_the_game_are_no_moves(games_dir):
    parser = Parser.of(ask(games_dir / "jericho" / "detective.z5")[0], META)
    assert all(
        parser.is_refused(line) for line in ("purloin gun", "showverb eight", "gonear chief", "TREE", "trace 5")
    )


VERBS = frozenset(("take", "open", "put", "light", "say", "tell", "drop", "give", "ask", "look", "go"))
INFOCOM = Parser(',."', 6, VERBS, frozenset())

SEVERAL = """\
open mailbox, take leaflet|take leaflet and go north|take lamp, n|open it and look|look. inventory|look.inventory
take key then go north|n.e|n, e|open door;take it|look! open it|look "take key"|bob, take it and go north
bob, look. take it|say "hello. bye"|say "hi" and take lamp|say "a" "b"|take lamp and light match
  LOOK   .   OPEN IT |look and quit|take a and b and drop c|. look . open|take lamp and west
take lamp , then , open it"""
ONE = """\
look.|look...|take lamp and sword|put all in sack|take all but lamp and key|say "hello, sailor"|then look
bob, take lamp and sword|take lamp and light|take light, lamp and key|tell bob "go north"|open nearthen gate
k9, shoot boulder|please look|say "hello" to bob|say hello, sailor||.|"|ask bob about lamp and key"""


@pytest.mark.parametrize("line", SEVERAL.replace("\n", "|").split("|"))
def test_several_commands_in_one_line(line):
    assert INFOCOM.is_several(line, {"lamp", "light", "west"})


@pytest.mark.parametrize("line", ONE.replace("\n", "|").split("|"))
def test_one_command_in_one_line(line):
    assert not INFOCOM.is_several(line, {"lamp", "light", "west"})


@pytest.mark.parametrize(
    ("game", "line"),
    [("zork1", "open mailbox, take leaflet"), ("zork1", "open mailbox and go north"), ("zork1", "look\ninventory"),
     ("zork1", "look\u2028inventory"), ("detective", "take paper, west"), ("detective", "west then east")],
)  # fmt: skip
def test_a_refused_line_reaches_no_engine_and_costs_a_step(games_dir, cache_dir, game, line):
    with closing(open_game(games_dir, cache_dir, game)) as environment:
        first = environment.reset(game, 0)
        result = say(environment, line)
        assert result.observation.feedback == ONE_AT_A_TIME
        assert (result.reward, result.ending, result.observation.steps) == (0, None, 1)
        assert texts(result.observation) == texts(first)
        assert result.observation.graph == first.graph
        assert say(environment, "restor." if game == "zork1" else "restore.").observation.feedback == NO_MOVE
        assert environment.counts["refused"] == 2


def test_what_the_engine_writes_goes_into_a_folder_that_goes_with_it(games_dir, cache_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(open_game(games_dir, cache_dir)) as environment:
        list(environment.replay("zork1", ["save", "script", "look", "unscript", "save"]))
        folder = Path(f"/proc/{environment._play.supervisor._worker.pid}/cwd").resolve()
        assert folder != tmp_path
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


# -- lines that are longer than the game's buffers ------------------------------------------------------------


def test_the_buffers_of_the_games(games_dir):
    """From the instruction at which each game waits; found with other means in their sources."""
    found = {name: ask(games_dir / "jericho" / name)[3] for name in GAMES}
    assert found == {
        "zork1.z5": [99, 120], "detective.z5": [120, 15], "cutthroat.z3": [99, 59], "anchor.z8": [120, 64],
        "trinity.z4": [99, 59], "snacktime.z8": [120, 15], "hhgg.z3": [59, 59], "ztuu.z5": [120, 64],
    }  # fmt: skip


@pytest.mark.parametrize("game", ["detective", "hhgg", "zork1", "anchor", "sherlock"])
def test_lines_of_any_length_do_no_harm(games_dir, cache_dir, game, caplog):
    """121 bytes of many words overwrite detective's words and halt it; hhgg has room for 59."""
    with closing(open_game(games_dir, cache_dir, game, max_steps=1)) as made:
        for word in ("a", "take", "zz", "x" * 30, "é"):
            for length in (50, 119, 121, 150, 198, 1000):
                made.reset(game, 0)
                most = made._play._line[0]
                line = " ".join([word] * (length // (len(word) + 1) + 1))
                result = say(made, line)
                assert result.ending is Ending.TRUNCATED, line
                sent = result.observation.last_action
                assert line.startswith(sent)
                assert len(sent.encode()) <= most <= 198
                assert line[len(sent) : len(sent) + 1] in ("", " ")
        assert made.counts["engine_errors"] == 0
        assert made.counts["shortened"] > 15
    assert caplog.text.count("was cut to") == 1


@pytest.mark.parametrize(("words", "kept"), [(5, 5), (15, 15), (16, 15), (50, 15), (200, 15)])
def test_words_that_the_game_would_not_look_at_are_not_sent(words, kept):
    assert INFOCOM.fit(" ".join("abc"[: 1 + n % 3] for n in range(words)), 198, 15).count(" ") == kept - 1
    assert INFOCOM.fit("a,b,c,d", 198, 3) == "a,b"
    assert INFOCOM.fit("a b c", 198, None) == "a b c"


def test_the_limit_is_needed(games_dir):
    """The same line as it is halts or kills the interpreter."""
    code = _ASK.replace(
        "print(", "engine.step(json.loads(sys.argv[2])[0]); assert not engine._emulator_halted(); print("
    )
    words = [sys.executable, "-c", code, games_dir / "jericho" / "detective.z5"]
    runs = [
        subprocess.run([*words, json.dumps([" ".join(["a"] * count)])], capture_output=True) for count in (60, 61)
    ]
    assert [done.returncode == 0 for done in runs] == [True, False]
