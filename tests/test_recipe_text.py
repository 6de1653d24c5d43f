"""YAML with its traps closed: what plain scalars mean, what is refused, and that dumps read back."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from cbrcore.recipe.text import MAX_VALUES, dump, parse


def value_of(text: str):
    document = parse(f"key: {text}")
    assert document.flaws == []
    return document.data["key"]


def flaws_of(text: str) -> list[tuple[int, str]]:
    return [(flaw.line, flaw.message) for flaw in parse(text).flaws]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e-4", 1e-4), ("5E-4", 5e-4), ("1e6", 1_000_000), ("12e3", 12_000), ("1e+6", 1_000_000),
        ("-2.5e1", -25), ("1.0", 1.0), ("1.", 1.0), (".5", 0.5), ("+.5e0", 0.5), ("+3", 3), ("-0", 0),
        ("1_000", 1000), ("1_000.5", 1000.5), ("0", 0), ("9" * 41, 10**41 - 1),
    ],
)  # fmt: skip
def test_numbers_are_numbers(text: str, number: float):
    assert value_of(text) == number
    assert type(value_of(text)) is (type(number))


@pytest.mark.parametrize("text", ["1e400", "-1e400", ".inf", "-.INF", ".nan"])
def test_what_is_not_finite_is_read_as_such_so_that_settings_refuse_it(text: str):
    assert not math.isfinite(value_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "no", "No", "NO", "yes", "on", "off", "y", "n", "9:05", "1:30:00", "2024-01-01", "2024-01-01 10:00:00",
        "010", "0x1F", "1.2.3", "nan", "inf", "1e", "e5", "true!", "nullable", "=", "--5", "1 000", "1,5",
        "9" * 50,
    ],
)  # fmt: skip
def test_words_times_and_dates_stay_text(text: str):
    assert value_of(text) == text
    assert value_of(f"'{text}'") == text


@pytest.mark.parametrize(("text", "boolean"), [("true", True), ("True", True), ("false", False), ("FALSE", False)])
def test_true_and_false_are_the_only_booleans(text: str, boolean: bool):
    assert value_of(text) is boolean


@pytest.mark.parametrize("text", ["", "~", "null", "Null"])
def test_nothing_is_none(text: str):
    assert value_of(text) is None


def test_keys_are_always_text():
    assert parse("on: 1\nno: 2\n3: 4\n1.10: 5\ntrue: 6\n~: 7").data == {
        "on": 1, "no": 2, "3": 4, "1.10": 5, "true": 6, "~": 7,
    }  # fmt: skip


def test_places_are_the_lines_of_the_keys_and_the_text_as_typed():
    document = parse("a: 1.10\nb:\n  c:\n    - x\n    - 'y'\n  d: {e: no}\n")
    found = {keys: (place.line, place.typed) for keys, place in document.places.items()}
    assert found == {
        (): (1, None),
        ("a",): (1, "1.10"),
        ("b",): (2, None),
        ("b", "c"): (3, None),
        ("b", "c", 0): (4, "x"),
        ("b", "c", 1): (5, None),
        ("b", "d"): (6, None),
        ("b", "d", "e"): (6, "no"),
    }


# Merge keys and aliases


def test_merge_keys_work_and_own_keys_win():
    text = "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\nall: {<<: [*base, *more], d: 5, a: 0}\n"
    document = parse(text)
    assert document.flaws == []
    assert document.data["all"] == {"d": 5, "a": 0, "b": 2, "c": 4} == yaml.safe_load(text)["all"]
    assert document.places["all", "c"].line == 2


@pytest.mark.parametrize("text", ["a: &a\n  b: *a", "a: &a [1, *a]", "a: &a {<<: *a}"])
def test_an_alias_inside_itself_is_refused(text: str):
    assert len(flaws_of(text)) == 1


@pytest.mark.parametrize("text", ["a: 1\nb: {<<: 3}", "a: &a [1]\nb: {<<: *a}"])
def test_merging_something_else_than_a_section_is_refused(text: str):
    ((_, message),) = flaws_of(text)
    assert "'<<' takes the alias of another section" in message


def test_aliases_of_aliases_cannot_fill_the_memory():
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert flaws_of("\n".join(["a0: &a0 [x]", *levels])) == [(1, f"holds more than {MAX_VALUES} values")]
    merges = [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    assert flaws_of("\n".join(["a0: &a0 {x: 1}", *merges])) == [(1, f"holds more than {MAX_VALUES} values")]


# What is refused


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\nb: 2\na: 3", (1, 3)),
        ("s:\n  a: 1\n  a: 1", (2, 3)),
        ("s: {a: 1,\n  a: 2}", (1, 2)),
        ("1: x\n'1': y", (1, 2)),
    ],
)
def test_duplicate_keys_are_refused_with_both_lines(text: str, lines: tuple[int, int]):
    assert flaws_of(text) == [(lines[1], f"is given twice, in lines {lines[0]} and {lines[1]}")]


def test_all_duplicates_are_reported():
    assert [line for line, _ in flaws_of("a: 1\na: 1\nb: {c: 1, c: 2}\na: 3")] == [2, 4, 3]


@pytest.mark.parametrize(
    "value", ["!!python/object/apply:os.system ['touch marker']", "!!str 5", "!mine x", "! x", "!!binary aGk="]
)
@pytest.mark.parametrize("place", ["a: {}", "a: [{}]", "{}: a", "{}"])
def test_tags_are_refused_everywhere(value: str, place: str, tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    ((line, message),) = flaws_of(place.replace("{}", value))
    assert (line, "tags such as" in message) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\n---\nb: 2", 2, "a second document starts here"),
        ("a:\n\tb: 1", 2, "column 1: a tab may not indent YAML"),
        ("a: b: c", 1, "column 5: a ':' where none may stand"),
        ("a: 1\nb: *nothing", 2, "has no anchor"),
        ('a: 1\np: "C:\\data"', 2, "a backslash in double quotes starts an escape"),
        ('a: 1\np: "C:\\temp\\new"', 2, "a backslash in double quotes starts an escape"),
        ("a: [1, 2", 1, "column 9"),
        ("a: 1\nb: \x00", 2, "holds a character that is not text: '\\x00'"),
        ('a: "\\ud800"', 1, "half of a character"),
        ('"\\ud800": a', 1, "a key must be plain text"),
        ("a: 1\n? [x]\n: 2", 2, "a key must be plain text"),
        ("[" * 600, 1, "is nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_explained_with_its_line(text: str, line: int, said: str):
    ((where, message),) = flaws_of(text)
    assert where == line
    assert said in message


def test_harmless_escapes_and_documents_are_accepted():
    assert parse('---\na: "x\\ty"\nb: "C: \\"quoted\\""\n...\n').data == {"a": "x\ty", "b": 'C: "quoted"'}
    assert parse("\ufeffa: 1").data == {"a": 1}


@pytest.mark.parametrize("text", ["", "   \n", "# only a comment\n", "---\n"])
def test_an_empty_text_is_no_data(text: str):
    assert parse(text).data is None
    assert parse(text).flaws == []


# Dumping

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["no", "1e-4", "9:05", "2024-01-01", "", "~", "010", "1_000", "- x", "a: b", "#", "<<", "=", "\ufeff", " x "]
)
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(DATA)
@example("A:\x1f")  # looks like a drive and an escape
@example({"A:\tb": "C:\new \b"})
def test_a_dump_reads_back_as_the_same_data(data):
    document = parse(dump(data))
    assert document.flaws == []
    assert document.data == data


@given(TEXTS)
def test_other_yaml_readers_read_dumped_text_as_text(text: str):
    assert yaml.safe_load(dump({"key": text})) == {"key": text}


def test_a_dump_repeats_shared_data_instead_of_naming_it():
    shared = [1, 2]
    assert "&" not in dump({"a": shared, "b": shared})
