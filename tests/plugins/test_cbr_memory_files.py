"""Case files are checked like a recipe: file, line, what is wrong; an interrupted writer leaves no half of it."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from cbr_keys.codes import CodeIndex
from cbr_memory.files import CASES_FILE, FACTS, KEYS_FILE, SITUATIONS_FILE, read_cases, write_cases
from cbr_memory.memory import CaseMemory
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import StoredCases
from cbrcore.types import Case, Provenance, StateGraph

GRAPH = StateGraph.of([("cup", "on", "rack"), ("rack", "at", "kitchen")], ["player"])
FILES = (CASES_FILE, SITUATIONS_FILE, KEYS_FILE)


def stored() -> StoredCases:
    """Three cases of two situations."""
    cases = [
        Case(id=n, template="put {} on {}", entities=("cup", "rack"), text="put café cup on rack",
             provenance=Provenance("kitchen", 7, n, 3, 1.0), seeds=("cup", "rack"), reused=n)
        for n in range(3)
    ]  # fmt: skip
    situations = [GRAPH, ("You see a cup.", frozenset({"a", "b"})), GRAPH]
    keys = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.uint8)
    return StoredCases(cases, keys, situations, "encoder | quantizer", "digest", 3)


def same(one: StoredCases, other: StoredCases) -> bool:
    keys = one.keys is other.keys or torch.equal(one.keys, other.keys)
    facts = [(each.cases, each.situations, each.identity, each.weights, each.next_id) for each in (one, other)]
    return keys and facts[0] == facts[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_cases(tmp_path / "cases", stored())
    return tmp_path / "cases"


def test_what_was_written_reads_back(folder: Path):
    assert same(read_cases(folder), stored())
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("to", ["cases", "a/b/c", "."])
def test_cases_go_into_any_folder_and_replace_those_that_are_there(tmp_path: Path, to: str):
    write_cases(tmp_path / to, replace(stored(), weights="others"))
    write_cases(tmp_path / to, stored())
    assert same(read_cases(tmp_path / to), stored())


LINE = {
    "id": 1, "template": "a", "entities": [], "text": "a", "rewarded": 1, "reused": 0, "last_step": 0, "seeds": [],
    "provenance": {"game": "g", "seed": 0, "episode": 0, "step": 0, "reward": 1.0}, "reuse_rewarded": 0,
    "situation": 0,
}  # fmt: skip


def line(**changes: object) -> str:
    return json.dumps(LINE | changes)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (CASES_FILE, "5", "object"),
        (CASES_FILE, "null", "object"),
        (CASES_FILE, "[]", "object"),
        (CASES_FILE, "{}", "id: Field required"),
        (CASES_FILE, "[" * 5000 + "]" * 5000, "recursion limit"),
        (CASES_FILE, '{"id": 1, "tem', "EOF"),
        (CASES_FILE, line(id="1"), "id: "),
        (CASES_FILE, line(id=True), "id: "),
        (CASES_FILE, line(id=-1), "id: "),
        (CASES_FILE, line(id=10**30), "id: "),
        (CASES_FILE, line(rewarded=2**53), "rewarded: Input should be less than"),
        (CASES_FILE, line(id=0), "id: 0 is that of line 1, too"),
        (CASES_FILE, line(id=9), "id: 9, but the next case of all would be 3"),
        (CASES_FILE, line(entities=[1]), "entities.0: "),
        (CASES_FILE, line(entities="cup"), "entities: "),
        (CASES_FILE, line(situation=7), "situation: 7, but situations.jsonl holds 2"),
        (CASES_FILE, line(situation=-1), "situation: "),
        (CASES_FILE, line(provenance=None), "provenance: "),
        (CASES_FILE, line(provenance=LINE["provenance"] | {"reward": float("nan")}), "reward: "),
        (CASES_FILE, line(provenance=LINE["provenance"] | {"reward": float("inf")}), "reward: "),
        (CASES_FILE, line(provenance=LINE["provenance"]).replace("1.0", "1e999"), "reward: "),
        (CASES_FILE, line(text="\ud800"), "hex escape"),
        (CASES_FILE, line(odd=1), "odd: "),
        (CASES_FILE, "", "EOF"),
        (SITUATIONS_FILE, "[1]", "a list that does not say what it is"),
        (SITUATIONS_FILE, '{"graph": 5}', "a list of 2 is wanted, not 5"),
        (SITUATIONS_FILE, '{"graph": [["a"], [["a", "b"]]]}', "a list of 3 is wanted"),
        (SITUATIONS_FILE, '{"graph": [["a"], [["a", "on", "b"]]]}', "without the node 'b'"),
        (SITUATIONS_FILE, '{"graph": [[1], []]}', "a text is wanted, not 1"),
        (SITUATIONS_FILE, '{"set": {"a": 1}}', "a list is wanted"),
        (SITUATIONS_FILE, '{"a": [], "b": []}', "one kind of thing"),
        (SITUATIONS_FILE, '{"odd": []}', "'odd' is no kind"),
        (SITUATIONS_FILE, "NaN", "NaN is no finite number"),
        (SITUATIONS_FILE, "1e999", "no finite number"),
        (SITUATIONS_FILE, "9" * 5000, "digit"),
        (SITUATIONS_FILE, '"\\ud800"', "surrogate"),
        (SITUATIONS_FILE, '{"tuple": [' * 5000 + "]}" * 5000, "nested too deeply"),
        (SITUATIONS_FILE, '{"tu', "nterminated|delimiter"),
    ],
)
def test_a_wrong_line_is_named_with_file_and_line(folder: Path, name: str, text: str, said: str):
    lines = (folder / name).read_text().splitlines()
    lines[1] = text
    (folder / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(RunFolderError, match=said) as caught:
        read_cases(folder)
    assert str(caught.value).startswith(f"{folder / name}:2: ")
    assert caught.value.hint


def test_a_line_that_is_no_utf_8_or_torn_is_named(folder: Path):
    whole = (folder / CASES_FILE).read_bytes()
    for content, number in ((whole.replace(b"\xc3\xa9", b"\xff", 1), 1), (whole[:-40], 3)):
        (folder / CASES_FILE).write_bytes(content)
        with pytest.raises(RunFolderError) as caught:
            read_cases(folder)
        assert str(caught.value).startswith(f"{folder / CASES_FILE}:{number}: ")


def keys_file(keys: torch.Tensor | None, facts: object = None) -> bytes:
    facts = {"identity": "i", "weights": "w", "next_id": 3} if facts is None else facts
    return save({} if keys is None else {"keys": keys}, {FACTS: json.dumps(facts)})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (keys_file(torch.zeros(2, 3)), "3 cases but 2 keys"),
        (keys_file(torch.zeros(4, 3)), "3 cases but 4 keys"),
        (keys_file(None), "3 cases but 0 keys"),
        (keys_file(torch.full((3, 3), torch.nan)), "not finite"),
        (keys_file(torch.full((3, 3), torch.inf)), "not finite"),
        (keys_file(torch.zeros(())), ""),
        (keys_file(torch.zeros(3, 3), 5), "object"),
        (keys_file(torch.zeros(3, 3), {"identity": "i"}), "weights: Field required"),
        (keys_file(torch.zeros(3, 3), {"identity": 1, "weights": "", "next_id": 3}), "identity: "),
        (keys_file(torch.zeros(3, 3), {"identity": "", "weights": "", "next_id": -3}), "next_id: "),
        (save({"keys": torch.zeros(3, 3)}), "metadata|case_memory"),
        (b"", ""),
        (b"\xff" * 100, ""),
        (struct.pack("<Q", 1 << 60) + b"{}", ""),
        (struct.pack("<Q", 5000) + b"[" * 5000, ""),
    ],
    ids=lambda value: "file" if isinstance(value, bytes) else value,
)
def test_keys_that_do_not_fit_are_told(folder: Path, content: bytes, said: str):
    (folder / KEYS_FILE).write_bytes(content)
    with pytest.raises(RunFolderError, match=said or "keys") as caught:
        read_cases(folder)
    assert str(caught.value).startswith(str(folder / KEYS_FILE))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_emptied_or_a_folder_is_told(folder: Path, name: str):
    (folder / name).write_bytes(b"")
    with pytest.raises(RunFolderError, match=str(folder)):
        read_cases(folder)
    (folder / name).unlink()
    with pytest.raises(RunFolderError, match=f"not a case memory: no {name}"):
        read_cases(folder)
    (folder / name).mkdir()
    with pytest.raises(CbrError, match=f"{name}: Is a directory"):
        read_cases(folder)


@pytest.mark.parametrize(
    "keys",
    [
        torch.zeros(3, 4, dtype=torch.uint8),
        torch.zeros(3, 3, 2, dtype=torch.uint8),
        torch.zeros(3, 3),
        torch.zeros(3, 3, dtype=torch.complex64),
    ],
    ids=["width", "depth", "float", "complex"],
)
def test_keys_of_another_shape_or_kind_do_not_get_into_a_memory(folder: Path, keys: torch.Tensor):
    facts = {"identity": "i", "weights": "w", "next_id": 3}
    (folder / KEYS_FILE).write_bytes(keys_file(keys, facts))
    memory = CaseMemory(CodeIndex(3, "cpu"), identity="i")
    with pytest.raises(RunFolderError, match="but the quantizer makes uint8"):
        memory.load(folder)
    found = read_cases(folder)
    with pytest.raises(RunFolderError, match="but the quantizer makes uint8"):
        memory.merge(found, found.keys)
    assert len(memory) == 0


keys = st.text() | st.sampled_from([*LINE, "graph", "set", "tuple"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(keys, parts, max_size=3),
    max_leaves=8,
)
ANY = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def refused_or_whole(folder: Path, again: Path) -> None:
    """What can be read is the same when it is written again and read."""
    try:
        found = read_cases(folder)
    except RunFolderError:
        return
    write_cases(again, found)
    assert same(read_cases(again), found)


@ANY
@given(value=values, key=st.sampled_from([None, *LINE]), name=st.sampled_from([CASES_FILE, SITUATIONS_FILE]))
def test_any_json_as_a_line_is_refused_or_read(folder: Path, tmp_path: Path, value: object, key: str, name: str):
    shutil.rmtree(folder)
    write_cases(folder, stored())
    lines = (folder / name).read_text().splitlines()
    lines[1] = json.dumps(value if key is None else json.loads(lines[1]) | {key: value})
    (folder / name).write_text("\n".join(lines) + "\n")
    refused_or_whole(folder, tmp_path / "again")


@ANY
@given(data=st.data(), name=st.sampled_from(FILES), flip=st.integers(1, 255))
def test_any_flipped_or_cut_byte_is_refused_or_read(folder: Path, tmp_path: Path, data, name: str, flip: int):
    shutil.rmtree(folder)
    write_cases(folder, stored())
    content = bytearray((folder / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= flip
    else:
        del content[at:]
    (folder / name).write_bytes(content)
    refused_or_whole(folder, tmp_path / "again")


@pytest.mark.parametrize("step", range(1, 4))
@pytest.mark.parametrize("there", [False, True])
def test_a_writer_that_is_killed_leaves_no_mixture(tmp_path: Path, monkeypatch, there: bool, step: int):
    """After whichever rename: there is no memory, or a whole one; and the next writer is not hindered."""
    if there:
        write_cases(tmp_path, stored())
    left = [step]

    def killed(self: Path, target: Path) -> Path:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return original(self, target)

    original = Path.replace
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_cases(tmp_path, stored())
    with pytest.raises(RunFolderError, match="not a case memory: no "):
        read_cases(tmp_path)
    monkeypatch.undo()
    write_cases(tmp_path, stored())
    assert same(read_cases(tmp_path), stored())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), ("a", float("-inf")), object()])
def test_a_situation_that_could_not_be_read_back_is_left_out(tmp_path: Path, value: object):
    given = stored()
    given.situations[1] = value
    write_cases(tmp_path, given)
    assert read_cases(tmp_path).situations == [GRAPH, None, GRAPH]
