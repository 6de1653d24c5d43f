"""YAML with its traps closed: what plain scalars mean, what is refused, and that dumps read back."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from cbrcore.errors import RecipeError
from cbrcore.recipe.text import MAX_VALUES, Flaw, Place, dotted, dump, holds, parse, parse_override, value_at


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


def test_a_dump_shows_letters_as_they_are():
    assert dump({"name": "café 杯"}) == "name: café 杯\n"


def test_a_dump_repeats_shared_data_instead_of_naming_it():
    shared = [1, 2]
    assert "&" not in dump({"a": shared, "b": shared})


# What a document holds, and where

HELD = {"a": {"b": [10, {"c": None}]}, "0": "zero"}


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ((), HELD),
        (("0",), "zero"),
        ((0,), None),
        (("a", "b", 0), 10),
        (("a", "b", 1), {"c": None}),
        (("a", "b", 2), None),
        (("a", "b", 3), None),
        (("a", "b", "0"), None),
        (("a", "b", 1, "c"), None),
        (("a", "b", 1, "c", "d"), None),
        (("0", 0), None),
        (("none", "b"), None),
    ],
)
def test_what_there_is_at_some_keys(keys, value):
    assert value_at(HELD, keys) == value
    assert parse(dump(HELD)).part(keys, "x").data == value


@pytest.mark.parametrize(
    ("data", "key", "there"),
    [
        ([1, 2], 0, True),
        ([1, 2], 1, True),
        ([1, 2], 2, False),
        ([1, 2], 3, False),
        ([], 0, False),
        (["a"], "a", False),
        ({"a": None}, "a", True),
        ({"a": None}, "b", False),
        ("text", 0, False),
        ("text", "t", False),
        (None, "a", False),
    ],
)
def test_a_section_or_a_list_holds_something_at_a_key(data, key, there):
    assert holds(data, key) is there


@pytest.mark.parametrize(
    ("keys", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a.b"), (("a", 1, "b", 0), "a[1].b[0]"), ((2, "b"), "[2].b")],
)
def test_keys_are_told_with_dots_and_brackets(keys, text):
    assert dotted(keys) == text


@pytest.mark.parametrize(
    ("text", "keys", "data"),
    [
        ("a=1", ("a",), 1),
        (" a.b = x=y ", ("a", "b"), "x=y"),
        ("a.b.0=[1, no]", ("a", "b", "0"), [1, "no"]),
        ("a=null", ("a",), None),
        ("a=''", ("a",), ""),
        ("a=\nb", ("a",), "b"),
    ],
)
def test_an_override_is_a_path_and_a_value(text, keys, data):
    found, value = parse_override(text)
    assert (found, value.data, value.flaws, value.name) == (keys, data, [], f"--set {text}")


@pytest.mark.parametrize(
    ("text", "keys", "said"),
    [
        ("a", (), "write PATH=VALUE, as in --set training.gamma=0.95"),
        ("=1", (), "write PATH=VALUE, as in --set training.gamma=0.95"),
        ("a..b=1", (), "write PATH=VALUE, as in --set training.gamma=0.95"),
        ("a.b= ", ("a", "b"), "has no value; write a.b=null, or a.b='' for no text"),
    ],
)
def test_what_is_no_override_is_a_flaw_of_its_first_line(text, keys, said):
    found, value = parse_override(text)
    assert (found, value.data, value.flaws, value.name) == (keys, None, [Flaw(1, (), said)], f"--set {text}")


def test_a_part_of_a_document_knows_the_places_in_it_alone():
    part = parse("a: 1\nb:\n  c: 1.10\n  d: [x]\nbc: 2\n").part(("b",), "of b")
    assert (part.name, part.data, part.flaws) == ("of b", {"c": 1.1, "d": ["x"]}, [])
    assert part.places == {
        (): Place(2),
        ("c",): Place(3, "1.10"),
        ("d",): Place(4),
        ("d", 0): Place(4, "x"),
    }


def test_what_is_put_into_a_document_takes_the_places_of_what_was_there():
    document = parse("a: {b: {c: 1}, d: 2}\nf: 3\n", "r.yaml")
    document.put(*parse_override("a.b=[1.10]"))
    document.put(*parse_override("g.h.i=x"))
    assert document.data == {"a": {"b": [1.1], "d": 2}, "f": 3, "g": {"h": {"i": "x"}}}
    first, second = "--set a.b=[1.10]", "--set g.h.i=x"
    assert document.places == {
        (): Place(1),
        ("a",): Place(1),
        ("a", "d"): Place(1, "2"),
        ("f",): Place(2, "3"),
        ("a", "b"): Place(3, None, first),
        ("a", "b", 0): Place(3, "1.10", first),
        ("g",): Place(4, None, second),
        ("g", "h"): Place(4, None, second),
        ("g", "h", "i"): Place(4, "x", second),
    }
    assert (document.typed(("a", "b", 0)), document.typed(("a", "b")), document.typed(("z",))) == (
        "1.10",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("a.b.0=1", "--set a.b.0=1: a.b.0: 'a.b' is a list; set the whole list"),
        ("a.b.0.c=1", "--set a.b.0.c=1: a.b.0.c: 'a.b' is a list; set the whole list"),
        ("a.b", "--set a.b: write PATH=VALUE, as in --set training.gamma=0.95"),
        ("x={y: 1, y: 2}", "--set x={y: 1, y: 2}: x.y: is given twice, in lines 1 and 1"),
        ("x=", "--set x=: has no value; write x=null, or x='' for no text"),
    ],
)
def test_what_cannot_be_put_leaves_the_document_as_it_is(override, said):
    document = parse("a: {b: [1]}", "r.yaml")
    before = (dict(document.places), dump(document.data))
    document.put(*parse_override(override))
    assert (document.places, dump(document.data)) == before
    with pytest.raises(RecipeError) as caught:
        document.fail_if_wrong()
    assert caught.value.problems == (said,)


def test_flaws_are_told_once_by_line_and_by_the_nearest_place_that_is_known():
    document = parse("a: 1\nb:\n  c: 2\n", "r.yaml")
    document.fail_if_wrong()
    document.note(("b", "c", "d"), "three")
    document.note(("b", "x"), "two")
    document.note(("z",), "whole")
    document.note(("z",), "because of it", at=("b", "c"))
    document.note((), "no\x1bkeys")
    document.note(("b", "x"), "two")
    with pytest.raises(RecipeError) as caught:
        document.fail_if_wrong()
    assert caught.value.problems == (
        r"r.yaml:1: no\x1bkeys",
        "r.yaml:1: z: whole",
        "r.yaml:2: b.x: two",
        "r.yaml:3: b.c.d: three",
        "r.yaml:3: z: because of it",
    )


@pytest.mark.parametrize(
    ("text", "number", "kind"),
    [
        (f"{2**53 - 1}e0", 2**53 - 1, int),
        (f"{2**53}e0", 2.0**53, float),
        ("-1e20", -1e20, float),
        ("1.5e0", 1.5, float),
        ("1E2", 100, int),
        ("100.0", 100.0, float),
    ],
)
def test_a_whole_number_with_an_exponent_is_whole_as_long_as_it_is_exact(text, number, kind):
    assert value_of(text) == number
    assert type(value_of(text)) is kind


def test_what_is_read_up_to_the_limit_is_accepted():
    assert flaws_of(f"[{'x, ' * (MAX_VALUES - 1)}]") == []
    assert flaws_of(f"[{'x, ' * MAX_VALUES}]") == [(1, f"holds more than {MAX_VALUES} values")]
    assert flaws_of(f"a: &a 1\nb: [{'*a, ' * MAX_VALUES}]") == [(1, f"holds more than {MAX_VALUES} values")]
