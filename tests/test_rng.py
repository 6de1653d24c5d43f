"""Named random streams."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from cbrcore.rng import Streams, derive_seed, generator, undisturbed_randomness


def test_streams_do_not_depend_on_who_else_draws():
    alone, crowded = Streams(3), Streams(3)
    crowded.numpy("newcomer").random(100)
    assert alone.numpy("agent").random() == crowded.numpy("agent").random()


def test_names_and_seeds_give_different_streams():
    draws = {Streams(seed).numpy(name).random() for seed in (0, 1) for name in ("a", "b")}
    assert len(draws) == 4


def test_restored_streams_continue_where_the_state_was_taken():
    streams = Streams(7)
    streams.numpy("n").random(5)
    torch.rand(5, generator=streams.torch("t"))
    state = json.loads(json.dumps(streams.state()))
    expected = streams.numpy("n").random(), torch.rand(1, generator=streams.torch("t"))
    again = Streams(0)
    again.restore(state)
    assert (again.numpy("n").random(), torch.rand(1, generator=again.torch("t"))) == expected
    assert again.seed == 7
    assert again.numpy("new").random() == Streams(7).numpy("new").random()


def test_seed_is_the_same_in_every_process():
    code = "from cbrcore.rng import derive_seed; print(derive_seed(5, 'agent'))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": h}, capture_output=True, text=True, check=True
        ).stdout
        for h in ("1", "2")
    }
    assert seen == {f"{derive_seed(5, 'agent')}\n"}


@pytest.mark.parametrize(
    ("seed", "name", "derived"),
    [
        (0, "", 6718039795000161910),
        (5, "agent", 352752548283620189),
        (7, "train:1", 7864139580587472698),
        (2**63, "x", 5363316787883890228),
    ],
)
def test_a_seed_is_that_of_every_machine_and_version(seed: int, name: str, derived: int):
    """Figures of a paper can be made again only while these stay."""
    assert derive_seed(seed, name) == derived
    assert 0 <= derived < 2**63
    assert Streams(seed).numpy(name).random() == generator(derived).random()
    assert Streams(seed).torch(name).initial_seed() == derived


def test_a_stream_is_one_object():
    streams = Streams(3)
    assert streams.numpy("a") is streams.numpy("a")
    assert streams.torch("a") is streams.torch("a")
    assert repr(streams) == "Streams(seed=3, used=['a', 'a'])"


def test_global_randomness_is_given_back_even_after_an_error():
    def draws() -> tuple[float, float]:
        random.seed(1)
        np.random.seed(1)
        with pytest.raises(KeyError), undisturbed_randomness():
            random.random(), np.random.random(), {}["nothing"]
        return random.random(), np.random.random()

    random.seed(1)
    np.random.seed(1)
    assert (random.random(), np.random.random()) == draws()
