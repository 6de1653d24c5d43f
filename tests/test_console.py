"""The terminal: texts of others reach it as text, and a command outlives whoever reads it."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cbrcore import console, tables
from cbrcore.console import PlainReporter, RichReporter
from cbrcore.tables import aligned, markdown

HOSTILE = "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\lid\x9b31m\u202e[/red]\r\n\x08\x00\u2066end\x7f"
"""Clears the screen, sets the title, makes a link, colours by a C1 control, turns the direction, forges a row."""


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TYPED = HOSTILE.replace("\0", "")
"""No word of a command line holds a NUL."""


def harmless(text: str) -> bool:
    """Whether nothing but lines of visible text is in it."""
    return all(letter.isprintable() or letter in "\n\t\u2502" for letter in text)


def test_texts_are_shown_and_not_obeyed(capsys):
    console.echo(HOSTILE)
    console.say(HOSTILE)
    tables.print_table([("name", "what"), (HOSTILE, "b"), ("c", HOSTILE)])
    console.print_json({"text": HOSTILE})
    PlainReporter().phase(HOSTILE, 3)
    said = capsys.readouterr()
    assert harmless(said.out)
    assert harmless(said.err)
    assert r"\x1b[2J" in said.out
    assert "[/red]" in said.out


ROWS = [("name", "what"), ("cup", "a thing"), ("kitchen", "a room")]


def test_a_table_is_lines_of_text_where_there_is_no_terminal(capsys):
    tables.print_table(ROWS)
    assert capsys.readouterr().out == "name     what\ncup      a thing\nkitchen  a room\n"


def test_a_table_on_a_terminal_has_its_header_in_bold(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("TERM", "xterm-256color")
    tables.print_table(ROWS)
    header, *rows = shown.getvalue().splitlines()
    assert "\x1b[1m" in header
    assert [word for word in ("name", "what") if word not in header] == []
    assert len(rows) == 2
    assert all(row.split() == [*ROWS[at][0].split(), *ROWS[at][1].split()] for at, row in enumerate(rows, start=1))


def test_a_line_break_in_a_cell_breaks_no_row():
    rows = [("a", "b"), ("x\ny", "1"), ("z", "2\n3")]
    assert len(aligned(rows).splitlines()) == 3
    assert len(markdown(rows).splitlines()) == 4


def test_a_markdown_table_is_aligned():
    lines = markdown(ROWS).splitlines()
    assert lines == [
        "| name    | what    |",
        "|---------|---------|",
        "| cup     | a thing |",
        "| kitchen | a room  |",
    ]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([("a", "b")], ["| a | b |", "|---|---|"]),
        ([("a", "bb"), ("ccc", "d")], ["| a   | bb |", "|-----|----|", "| ccc | d  |"]),
        ([("", "b"), ("c\nd", "")], [r"|      | b |", "|------|---|", r"| c\nd |   |"]),
    ],
)
def test_a_markdown_table_cell_by_cell(rows, lines):
    assert markdown(rows).splitlines() == lines


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(None, 2, "-"), (0.0, 2, "0.00"), (-0.001, 1, "0.0"), (-1.5, 0, "-2"), (7, 0, "7")],
)
def test_a_number_of_a_table(value, digits, text):
    assert tables.number(value, digits) == text


# -- progress ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("terminal", "kind"), [(True, RichReporter), (False, PlainReporter)])
def test_the_reporter_fits_stderr(monkeypatch, terminal, kind):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: not terminal, raising=False)
    assert type(console.reporter()) is kind


def test_plain_progress_is_a_line_now_and_then(monkeypatch, capsys):
    now = [1000.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])

    def said():
        return capsys.readouterr().err.splitlines()

    with PlainReporter() as shown:
        assert said() == []
        shown.phase("training", 5)
        assert said() == ["training: 0/5"]
        now[0] += console.SECONDS_BETWEEN_LINES - 0.5
        shown.advance("score 1")
        assert said() == []
        now[0] += 0.5
        shown.advance("score 2")
        assert said() == ["training: 2/5  score 2"]
        now[0] += console.SECONDS_BETWEEN_LINES - 0.5
        shown.advance()
        assert said() == []
        shown.say("by the way")
        assert said() == ["by the way"]
        shown.phase("evaluating", 9, done=4)
        assert said() == ["training: 3/5", "evaluating: 4/9"]
        shown.phase("nothing", 2)
        assert said() == ["evaluating: 4/9", "nothing: 0/2"]
    assert said() == []  # nothing came of it


def test_a_live_bar_counts_each_phase(monkeypatch):
    with RichReporter() as shown:
        assert shown._progress.live.is_started
        shown.phase("training", 5, done=2)
        shown.advance("score 1")
        shown.advance()
        shown.phase("evaluating", 3)
        shown.advance("last")
        found = [(t.description, t.completed, t.total, t.fields["note"]) for t in shown._progress.tasks]
    assert found == [("training", 4, 5, ""), ("evaluating", 1, 3, "last")]
    assert not shown._progress.live.is_started


@pytest.mark.parametrize(
    ("name", "level", "shown"),
    [
        ("cbr_lab", logging.INFO, True),
        ("cbr_lab.inner", logging.WARNING, True),
        ("cbr_lab", logging.ERROR, True),
        ("cbr_lab", logging.DEBUG, False),
        ("cbrcore.runs", logging.WARNING, True),
        ("cbrcore.runs", logging.INFO, False),
        ("cbrcore.runs", logging.ERROR, False),
        ("torch", logging.WARNING, False),
    ],
)
def test_what_is_logged_is_shown_if_it_is_a_plugins_or_a_warning(capsys, name, level, shown):
    handler, logger = console.PluginLines(PlainReporter()), logging.getLogger(name)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        logger.log(level, "compiled %d", 3)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    assert capsys.readouterr().err == ("compiled 3\n" if shown else "")


def test_a_signal_asks_to_stop_and_a_second_one_interrupts():
    before = [signal.getsignal(number) for number in SIGNALS]
    for number in SIGNALS:
        with console.graceful_interrupt() as stop:
            assert not stop
            signal.raise_signal(number)
            assert stop
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_hang_up_that_is_ignored_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with console.graceful_interrupt() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_no_signal_is_taken():
    seen: list[bool] = []

    def work():
        with console.graceful_interrupt() as stop:
            seen.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_json_reads_back_whatever_it_holds(capsys):
    console.print_json({"text": HOSTILE})
    assert json.loads(capsys.readouterr().out) == {"text": HOSTILE}


def test_the_live_bar_shows_texts_too(monkeypatch):
    """No markup is read, and no escape of others gets through; rich's own are those of a bar with plain texts."""
    seen = io.StringIO()
    with RichReporter() as shown:
        shown._progress.live.console = shown._progress.console
        monkeypatch.setattr(shown._progress.console, "file", seen, raising=False)
        shown.phase(HOSTILE, 2)
        shown.advance(HOSTILE)
        shown.say(HOSTILE)
        task = shown._progress.tasks[0]
    assert harmless(task.description)
    assert harmless(task.fields["note"])
    assert r"\x1b[2J" in seen.getvalue()
    assert "\x1b[2J" not in seen.getvalue()


PLUGIN = f"""\
import logging
from cbrcore import CbrError, hookimpl

HOSTILE = {HOSTILE!r}

def fails():
    raise CbrError(HOSTILE, hint=HOSTILE)

def breaks():
    raise ValueError(HOSTILE)

def logs():
    logging.getLogger("lab").warning("%s", HOSTILE)

@hookimpl
def register_commands(registry):
    for name in ("fails", "breaks", "logs"):
        registry.add(name, factory=f"lab:{{name}}", summary=HOSTILE)

@hookimpl
def register_agents(registry):
    registry.add("odd", factory="lab:fails", summary=HOSTILE)
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["fails"], 2),
        (["breaks"], 1),
        (["logs"], 0),
        (["--help"], 0),
        (["list-plugins", "-v"], 0),
        (["list-plugins", "--json"], 0),
        (["show", "lab/odd"], 0),
        (["show", "nothing" + TYPED], 2),
        (["check", "no" + TYPED + ".yaml"], 2),
        (["cases", "no" + TYPED], 2),
        (["doctor", "--quick", "--plugin", "no" + TYPED + ".py"], 2),
        (["run", "--" + TYPED], 2),
        ([TYPED], 2),
    ],
    ids=lambda value: (
        None if isinstance(value, int) else value[0].strip("-")[:12].encode("unicode_escape").decode()
    ),
)
def test_no_command_lets_control_characters_through(site, words, code):
    from plugin_fixtures import run_cbr

    site.plugin("lab", PLUGIN)
    done = run_cbr(*words)
    assert done.returncode == code, done.stderr
    assert harmless(done.stdout)
    assert harmless(done.stderr)


def test_on_a_real_terminal_nothing_is_obeyed_either(site):
    """A pseudo-terminal: rich's own colours and moves are there, those of the plugin are not."""
    site.plugin("lab", PLUGIN)
    for words in (["list-plugins", "-v"], ["fails"]):
        seen = on_terminal([sys.executable, "-m", "cbrcore.cli", *words])
        assert rb"\x1b[2J" in seen
        for evil in (b"\x1b[2J", b"\x1b]0;", b"\x1b]8;", b"\x07", b"\xc2\x9b"):
            assert evil not in seen


def on_terminal(command: list[str]) -> bytes:
    """What a command writes to its terminal."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(command, stdin=secondary, stdout=secondary, stderr=secondary)
    os.close(secondary)
    seen = b""
    try:
        while part := os.read(primary, 1 << 16):
            seen += part
    except OSError:  # EIO: the other end is closed
        pass
    os.close(primary)
    process.wait(timeout=30)
    return seen


# -- who reads goes away -----------------------------------------------------------------------------------------

SMOKE = Path(__file__).parents[1] / "recipes" / "smoke" / "text_cbr_generated.yaml"
CBR = f"{sys.executable} -m cbrcore.cli"
LATER = "{ sleep 1.5; head -c 20 >/dev/null; }"


@pytest.mark.parametrize("ending", ["2>&1 | head -1", "2>&-", ">&- 2>&- <&-", f"2>&1 | {LATER}", "2>/dev/full"])
def test_a_run_goes_on_when_nobody_reads_it(ending, tmp_path, cache_dir):
    out = tmp_path / "run"
    tiny = "--set evaluation.splits=[] --set run.episodes=1"
    line = f"set -o pipefail; {CBR} run {SMOKE} {tiny} --out {out} {ending}"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        env={**os.environ, "CBR_CACHE": str(cache_dir)},
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert (out / "results.json").is_file()
    assert "Error" not in (out / "run.log").read_text()


@pytest.mark.parametrize("ending", ["| head -1", "| true", "2>&-", ">&-", "2>&1 | true"])
@pytest.mark.parametrize("words", ["list-plugins -v", "show training", "--help", "schema", "nonsense"])
def test_short_commands_end_quietly_when_nobody_reads_them(words, ending):
    line = f"{CBR} {words} {ending}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == (2 if words == "nonsense" else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "BrokenPipe" not in done.stderr
