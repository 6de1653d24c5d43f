"""The same recipe on a CPU and on a CUDA device. Each test runs on the CPU everywhere: it is known to work;
its twin is marked `gpu` and is for machines that have one (``tests/gpu/check.sh``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs.assemble import assemble
from cbrcore.types import Observation

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
    ),
]


@pytest.fixture(params=DEVICES)
def device(request) -> str:
    return request.param


def parts_on(device: str):
    registry = load_plugins().registry
    return assemble(load_recipe(SMOKE, overrides=[f"run.device={device}"], registry=registry), registry)


def first_seen(parts) -> list[Observation]:
    environment = parts.environments[0]
    seen = [environment.reset(game, 1) for game in environment.games("train")]
    environment.close()
    return seen


def test_all_weights_and_keys_are_on_the_device_and_say_the_same_there(device):
    here, there = parts_on("cpu"), parts_on(device)
    (seen, *_) = first_seen(here)
    first_seen(there)
    for parts, expected in ((here, "cpu"), (there, device)):
        weights = [*parts.reasoner.agent.parameters(), *parts.reasoner.retriever.encoder.parameters()]
        assert {weight.device.type for weight in weights} == {expected}
    tuples = sorted({action.seeds for action in seen.admissible if action.seeds})
    encoders = [parts.reasoner.retriever.encoder for parts in (here, there)]
    pairs = [(encoders[0].situation(seen, []), seeds) for seeds in tuples]
    contexts, others = (encoder.contexts_of_pairs(pairs).detach() for encoder in encoders)
    assert contexts.shape == (len(tuples), encoders[0].dim)
    assert torch.allclose(contexts, others.cpu(), atol=1e-4)
    quantizers = (here.reasoner.retriever.quantizer, there.reasoner.retriever.quantizer)
    keys, twins = (quantizer.keys(each) for quantizer, each in zip(quantizers, (contexts, others), strict=True))
    assert (keys == twins.cpu()).double().mean() > 0.95  # a context between two codes may fall on the other side


def test_a_run_goes_through_and_its_weights_load_on_a_cpu(device, cbr, tmp_path):
    done = cbr("run", SMOKE, "--device", device, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["training"]["env_steps"] > 0
    weights = [load_file(file) for file in (tmp_path / "run" / "checkpoints").rglob("*.safetensors")]
    tensors = [each for named in weights for each in named.values() if each.is_floating_point()]
    assert tensors
    assert all(torch.isfinite(each).all() for each in tensors)
    measured = cbr("evaluate", tmp_path / "run", "--device", "cpu")
    assert measured.returncode == 0, measured.stderr


def test_a_stopped_run_goes_on_on_the_same_device(device, cbr, tmp_path):
    short = cbr("run", SMOKE, "--device", device, "--set", "run.episodes=1", "--out", tmp_path / "run")
    assert short.returncode == 0, short.stderr
    longer = cbr("run", "--resume", tmp_path / "run", "--set", "run.episodes=2")
    assert longer.returncode == 0, longer.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["episode"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == 4  # two passes over two games
