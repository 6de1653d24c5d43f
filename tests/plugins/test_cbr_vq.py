"""KD codes: worked examples, gradients, codebook upkeep, the index."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cbr_keys.codes import CodeIndex
from cbr_vq.config import VectorQuantizerConfig
from cbr_vq.kmeans import kmeans
from cbr_vq.quantizer import VectorQuantizer
from cbrcore import Build, CbrError
from cbrcore.errors import RunFailed
from cbrcore.testing import QuantizerSuite


def quantizer(dim: int = 4, **config) -> VectorQuantizer:
    torch.manual_seed(0)
    defaults = {"codes": 2, "parts": 2}
    return VectorQuantizer(VectorQuantizerConfig(**(defaults | config)), Build(context_dim=dim))


def by_hand() -> VectorQuantizer:
    """Two parts of width 2 (so of length sqrt 2), two entries each."""
    vq = quantizer()
    root = math.sqrt(2)
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[root, 0.0], [0.0, root]], [[root, 0.0], [-root, 0.0]]]))
    return vq


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class TestContract(QuantizerSuite):
    def make(self, build: Build) -> VectorQuantizer:
        return VectorQuantizer(VectorQuantizerConfig(codes=8, parts=6), build)


def test_codes_by_hand_whatever_the_scale_of_a_part():
    vq = by_hand()
    contexts = torch.tensor([[3.0, 1.0, 5.0, 0.1], [0.1, 0.2, -9.0, 3.0], [0.5, -0.1, -0.01, 0.0]])
    assert vq.keys(contexts).tolist() == [[0, 0], [1, 1], [0, 1]]


def test_similarity_is_the_share_of_equal_codes():
    vq = by_hand()
    contexts = torch.tensor([[3.0, 1.0, 5.0, 0.1], [0.1, 0.2, -9.0, 3.0], [0.5, -0.1, -0.01, 0.0]])
    keys = torch.tensor([[0, 0], [0, 0], [0, 0]], dtype=torch.uint8)
    assert vq.similarity(contexts, keys).tolist() == [1.0, 0.0, 0.5]
    assert vq.pair_similarity(contexts, contexts.roll(-1, 0)).tolist() == [0.0, 0.5, 0.5]


def test_straight_through_gradient_is_that_of_the_soft_codes():
    vq = by_hand().double()
    contexts = torch.tensor([[0.8, 0.6, 0.6, 0.8]], dtype=torch.float64, requires_grad=True)
    keys = torch.tensor([[1, 0]], dtype=torch.uint8)
    vq.similarity(contexts, keys).sum().backward()

    soft_input = contexts.detach().clone().requires_grad_()
    parts = torch.nn.functional.normalize(soft_input.view(1, 2, 2), dim=-1) * math.sqrt(2)
    distances = ((parts[:, :, None] - vq.entries.detach()[None]) ** 2).sum(-1)
    p = torch.softmax(-distances, dim=-1)  # T = 1
    ((p[0, 0, 1] + p[0, 1, 0]) / 2).backward()
    torch.testing.assert_close(contexts.grad, soft_input.grad)
    assert vq.entries.grad.abs().sum() > 0


def test_memory_side_is_a_constant_and_pairs_train_both_sides():
    vq = quantizer(dim=8, codes=4)
    left, right = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    vq.pair_similarity(left, right).sum().backward()
    assert left.grad.abs().sum() > 0
    assert right.grad.abs().sum() > 0


def literal_outputs(vq: VectorQuantizer, contexts: Tensor) -> Tensor:
    """o_j = onehot(z^j) + p_j - stopgrad(p_j) [n, D, K], term by term."""
    parts = torch.nn.functional.normalize(contexts.view(len(contexts), -1, 1, vq.width), dim=-1) * vq.width**0.5
    distances = (parts - vq.entries).square().sum(dim=-1)
    p = torch.softmax(-distances / vq.config.temperature, dim=-1)
    return torch.nn.functional.one_hot(distances.argmin(dim=-1), vq.config.codes) + p - p.detach()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
def test_pair_similarity_and_its_gradients_are_those_of_the_printed_formula(temperature):
    vq = quantizer(dim=12, parts=4, codes=8, temperature=temperature)
    left, right = (torch.randn(9, 12, generator=generator(seed)).requires_grad_() for seed in (2, 3))
    found = vq.pair_similarity(left, right)
    expected = (literal_outputs(vq, left) * literal_outputs(vq, right)).sum(dim=-1).mean(dim=-1)
    torch.testing.assert_close(found, expected)
    leaves, weights = (left, right, vq.entries), torch.linspace(1, 2, 9)
    mine, theirs = (torch.autograd.grad((value * weights).sum(), leaves) for value in (found, expected))
    for one, other in zip(mine, theirs, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 20), st.sampled_from([1, 3, 6, 12]))
def test_the_three_similarities_are_the_same_number(seed, count, parts):
    """Exactly, so that a case found above tau is above tau wherever it is asked again."""
    vq = quantizer(dim=12, parts=parts, codes=3)
    left, right = torch.randn(2, count, 12, generator=generator(seed))
    keys, other = vq.keys(left), vq.keys(right)
    share = (keys == other).float().sum(dim=1) / parts
    index = vq.index()
    index.add(other)
    assert torch.equal(index.similarities(keys).diagonal(), share)
    assert torch.equal(vq.similarity(left, other), share)
    assert torch.equal(vq.pair_similarity(left, right), share)


def test_the_scale_of_a_context_does_not_matter():
    vq = quantizer(dim=12, parts=4, codes=8)
    contexts = torch.randn(20, 12)
    assert torch.equal(vq.keys(contexts), vq.keys(1000 * contexts))
    torch.testing.assert_close(vq.regularizer(contexts), vq.regularizer(1000 * contexts))


def test_gradient_descent_on_the_similarity_moves_codes_together():
    torch.manual_seed(1)
    vq = quantizer(dim=16, codes=4, parts=4)
    left, right = torch.randn(1, 16, requires_grad=True), torch.randn(1, 16)
    before = float(vq.pair_similarity(left, right).detach())
    optimizer = torch.optim.Adam([left], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        (1 - vq.pair_similarity(left, right)).square().sum().backward()
        optimizer.step()
    assert before < 1
    assert float(vq.pair_similarity(left, right).detach()) == 1


def test_regularizer_by_hand():
    vq = by_hand()
    contexts = torch.tensor([[1.0, 0.0, 0.0, 1.0]])  # part 0 sits on entry 0; part 1 is sqrt(2) (0, 1)
    root = math.sqrt(2)
    error = ((0 - root) ** 2 + (root - 0) ** 2) / 4  # squared distance to entry 0 of part 1, mean over d = 4
    assert float(vq.regularizer(contexts).detach()) == pytest.approx(1.25 * error)


@pytest.mark.parametrize(("codebook", "commitment"), [(1.0, 0.25), (1.0, 0.0), (0.0, 0.25), (0.5, 2.0)])
def test_entries_move_by_the_codebook_term_alone_and_contexts_by_the_commitment_alone(codebook, commitment):
    """d/dk of w (c - k)^2 / (n d) is 2 w (k - c) / (n d) for the chosen entries, 0 for the others; likewise for
    the contexts, through the scaling of their parts."""
    vq = quantizer(dim=6, codes=3, parts=2, codebook_weight=codebook, commitment_weight=commitment)
    contexts = torch.randn(5, 6, generator=generator(4)).requires_grad_()
    vq.regularizer(contexts).backward()

    leaf = contexts.detach().clone().requires_grad_()
    parts = torch.nn.functional.normalize(leaf.view(5, 2, 3), dim=-1) * math.sqrt(3)
    codes = vq.keys(contexts).long()
    slopes = torch.zeros_like(vq.entries)
    for row in range(5):
        for part in range(2):
            entry = vq.entries.detach()[part, codes[row, part]]
            slopes[part, codes[row, part]] += 2 * codebook * (entry - parts.detach()[row, part]) / 30
    chosen = torch.stack([vq.entries.detach()[[0, 1], row] for row in codes])  # [n, D, w]
    (commitment * (parts - chosen).square().sum() / 30).backward()
    torch.testing.assert_close(vq.entries.grad, slopes)
    torch.testing.assert_close(contexts.grad, leaf.grad)


def test_its_tensors_are_on_the_device_that_was_asked_for():
    vq = VectorQuantizer(VectorQuantizerConfig(parts=2), Build(context_dim=4, device="meta"))
    assert {each.device.type for each in vq.state_dict().values()} == {"meta"}
    assert vq.index().keys().device.type == "meta"


def test_parts_must_divide_the_width():
    with pytest.raises(CbrError, match=r"7 parts do not divide the width d = 24 .*\n.*6, 8"):
        VectorQuantizer(VectorQuantizerConfig(parts=7), Build(context_dim=24))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_contexts_that_are_not_finite_are_refused_and_do_no_harm(bad):
    vq = quantizer()
    contexts = torch.tensor([[1.0, 2.0, 0.0, 1.0], [1.0, bad, 0.0, 1.0]])
    before = {name: value.clone() for name, value in vq.state_dict().items()}
    for use in (
        lambda: vq.keys(contexts),
        lambda: vq.fit(contexts, generator()),
        lambda: vq.similarity(contexts, torch.zeros(2, 2, dtype=torch.uint8)),
        lambda: vq.pair_similarity(torch.ones(2, 4), contexts),
        lambda: vq.regularizer(contexts),
        lambda: vq.maintain(contexts, generator()),
    ):
        with pytest.raises(RunFailed, match="not finite"):
            use()
    assert all(torch.equal(value, before[name]) for name, value in vq.state_dict().items())


def test_a_zero_context_is_finite():
    vq = quantizer()
    zero = torch.zeros(1, 4, requires_grad=True)
    vq.pair_similarity(zero, torch.ones(1, 4)).sum().backward()
    assert torch.isfinite(zero.grad).all()


# -- where the codebooks start ---------------------------------------------------------------------------------


def test_kmeans_finds_clusters_and_is_repeatable():
    centres = torch.tensor([[-5.0, 0.0], [5.0, 0.0], [0.0, 7.0]])
    samples = (centres.repeat(20, 1) + 0.1 * torch.randn(60, 2, generator=generator(3))).unsqueeze(0)
    found, again = (kmeans(samples, 3, iterations=25, generator=generator()) for _ in range(2))
    assert torch.equal(found, again)
    assert torch.cdist(found[0], centres).amin(dim=0).max() < 0.2


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_kmeans_goes_on_until_every_centre_is_the_mean_of_its_samples(seed, parts):
    """No clusters to find at once: it takes several rounds, each of which brings centres nearer."""
    samples = torch.randn(parts, 80, 2, generator=generator(seed))

    def centres(rounds: int) -> Tensor:
        return kmeans(samples, 6, iterations=rounds, generator=generator(seed))

    def error(found: Tensor) -> float:
        return float(torch.cdist(samples, found).amin(dim=-1).square().sum())

    errors = [error(centres(rounds)) for rounds in range(4)]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == 4
    settled = centres(100)
    for part, found in zip(samples, settled, strict=True):
        codes = torch.cdist(part, found).argmin(dim=1)
        means = torch.stack([part[codes == code].mean(dim=0) for code in range(6)])
        torch.testing.assert_close(found, means)
    assert torch.equal(settled, centres(101))


def test_fewer_samples_than_entries_still_fit():
    vq = quantizer(codes=8)
    contexts = torch.randn(3, 4)
    vq.fit(contexts, generator())
    assert torch.isfinite(vq.entries).all()
    assert len(vq.keys(contexts).unique(dim=0)) == 3


def test_fit_starts_from_the_data():
    vq = quantizer(dim=8, codes=6, parts=2)
    contexts = torch.randn(6, 8)
    vq.idle.fill_(7)
    vq.fit(contexts, generator())
    assert float(vq.regularizer(contexts).detach()) == pytest.approx(0, abs=1e-10)
    assert not vq.idle.any()  # none of them is dead yet
    before = vq.entries.detach().clone()
    vq.fit(torch.zeros(0, 8), generator())
    assert torch.equal(vq.entries, before)


# -- upkeep ----------------------------------------------------------------------------------------------------


def with_a_dead_entry(**config) -> tuple[VectorQuantizer, Tensor]:
    """Entries of the one part: one far away from all data, one between two clusters. Contexts of both clusters."""
    vq = quantizer(dim=2, parts=1, revive_after=3, **config)
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[1.4, 0.0], [-9.0, -9.0]]]))
    return vq, torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]])


def test_a_dead_entry_moves_to_badly_represented_samples_and_gets_hits():
    vq, contexts = with_a_dead_entry()
    for _ in range(10):
        vq.maintain(contexts, generator())
    assert sorted(vq.keys(contexts).flatten().tolist()) == [0, 0, 1, 1]
    assert torch.equal(vq.idle, torch.zeros(1, 2, dtype=torch.long))


def test_a_dead_entry_stays_where_every_sample_is_well_represented():
    vq, contexts = with_a_dead_entry()
    codes = vq.keys(contexts[:2])
    for _ in range(10):
        vq.maintain(contexts[:2], generator())
    assert vq.entries[0, 1].tolist() == [-9.0, -9.0]
    assert torch.equal(vq.keys(contexts[:2]), codes)


def directions(*degrees: float) -> Tensor:
    """Contexts of one part of width 2, whose scaled parts have the length sqrt 2."""
    angles = torch.deg2rad(torch.tensor(degrees))
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def with_dead_entries(count: int, **config) -> VectorQuantizer:
    """One entry at 0 degrees, the others far away."""
    vq = quantizer(dim=2, parts=1, codes=1 + count, **({"revive_after": 3} | config))
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[math.sqrt(2), 0.0]] + [[-90.0, -90.0]] * count]))
    return vq


def places(vq: VectorQuantizer) -> list[float]:
    """Of the entries, in degrees; a dead one that never moved is left out."""
    return [math.degrees(math.atan2(y, x)) for x, y in vq.entries[0].tolist() if x > -50]


def test_dead_entries_move_to_different_places_the_worst_first():
    """Where one has moved, the next one has nothing to do there any more."""
    vq, contexts = with_dead_entries(2), directions(0, 170, 175, 90)
    for _ in range(3):
        vq.maintain(contexts, generator())
    assert places(vq) == pytest.approx([0, 175, 90])


def test_only_so_many_entries_move_as_are_needed():
    """Two of three dead entries are enough for samples in three places."""
    vq, contexts = with_dead_entries(3), directions(0, 1, 180, 155, 90)
    for _ in range(9):
        vq.maintain(contexts, generator())
    assert len(places(vq)) == 3


def revived_one_by_one(vq: VectorQuantizer, contexts: Tensor) -> None:
    """Each dead entry in turn looks for the sample that is worst off, by all distances of that moment."""
    parts = torch.nn.functional.normalize(contexts.view(len(contexts), -1, vq.width), dim=-1) * vq.width**0.5
    dead = (vq.idle >= vq.config.revive_after).clone()
    for codebook, entry in dead.nonzero().tolist():
        distances = [
            (sample - vq.entries.detach()[codebook]).square().sum(dim=-1) for sample in parts[:, codebook]
        ]
        errors = torch.stack([each.min() / vq.width for each in distances])
        if errors.max() >= vq.config.revive_error:
            with torch.no_grad():
                vq.entries[codebook, entry] = parts[errors.argmax(), codebook]
            vq.idle[codebook, entry] = 0


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_entries_are_revived_as_if_one_by_one(seed, spread):
    """Where nothing is far, in some codebooks, and in all of them."""
    fast, slow = (quantizer(dim=8, parts=4, codes=6, revive_after=2, revive_error=0.2) for _ in range(2))
    contexts = 1 + spread * torch.randn(7, 8, generator=generator(seed))
    with torch.no_grad():
        fast.entries[:2, 0] = slow.entries[:2, 0] = 1.0  # two codebooks have an entry where all samples are
    used = torch.nn.functional.one_hot(fast.keys(contexts).long(), 6).any(dim=0)
    for vq in (fast, slow):
        vq.idle.copy_(torch.where(used, 0, 5))
    revived_one_by_one(slow, contexts)
    fast._revive(fast._parts(contexts))
    torch.testing.assert_close(fast.entries, slow.entries)
    assert torch.equal(fast.idle, slow.idle)
    moved = ((fast.idle == 0) & ~used).any(dim=1).tolist()
    assert moved[2:] == [True, True]
    assert any(moved[:2]) is (spread == 1)


def test_an_entry_that_was_just_revived_is_not_moved_again_before_it_was_idle_as_long_as_any():
    vq = with_dead_entries(1)
    found = []
    for contexts in [directions(0, 90)] * 3 + [directions(0, 270)] * 4:
        vq.maintain(contexts, generator())
        found.append((places(vq)[1:], vq.idle[0, 1].item()))
    up, down = [pytest.approx(90)], [pytest.approx(-90)]
    assert found == [([], 1), ([], 2), (up, 0), (up, 1), (up, 2), (down, 0), (down, 0)]


def test_entries_of_other_codebooks_are_left_alone():
    vq = quantizer(dim=4, parts=2, codes=2, revive_after=2)
    root = math.sqrt(2)
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[root, 0], [0, root]], [[root, 0], [-90, -90]]]))
    contexts = torch.tensor([[1.0, 0, 1, 0], [0, 1.0, 0, 1]])
    for _ in range(2):
        vq.maintain(contexts, generator())
    expected = torch.tensor([[[root, 0], [0, root]], [[root, 0], [0, root]]])
    torch.testing.assert_close(vq.entries.detach(), expected)
    assert vq.idle.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(("error", "moves"), [(0.4, True), (0.99, True), (1.01, False), (1.9, False)])
def test_a_sample_is_badly_represented_by_its_squared_distance_per_dimension(error, moves):
    """||(0, sqrt 2) - (sqrt 2, sqrt 2)||^2 / 2 = 1."""
    vq = quantizer(dim=2, parts=1, codes=2, revive_after=1, revive_error=error)
    root = math.sqrt(2)
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[root, root], [-90, -90]]]))
    vq.maintain(torch.tensor([[0.0, 1.0]]), generator())
    assert (len(places(vq)) == 2) == moves


@pytest.mark.parametrize("after", [1, 2, 5])
def test_an_entry_is_dead_after_so_many_updates_without_use_in_a_row(after):
    vq = with_dead_entries(1, revive_after=after)
    vq.idle[0, 1] = 0
    for count in range(1, after + 1):
        assert len(places(vq)) == 1
        vq.maintain(directions(0, 90), generator())
        assert vq.idle[0, 0] == 0  # in use
        assert vq.idle[0, 1] == (count if count < after else 0)
    assert len(places(vq)) == 2


@pytest.mark.parametrize("waiting", [3, 4, 9])
def test_a_dead_entry_waits_until_it_is_needed(waiting):
    vq = with_dead_entries(1, revive_after=3)
    for count in range(1, waiting + 1):
        vq.maintain(directions(0, 5), generator())
        assert (len(places(vq)), vq.idle[0, 1].item()) == (1, count)
    vq.maintain(directions(0, 90), generator())
    assert places(vq) == pytest.approx([0, 90])


def test_a_revived_entry_stays_near_the_data_and_in_use_while_training_goes_on():
    """Nothing that remembers the dead entry (the optimiser's moments) may carry it off again."""
    vq = quantizer(dim=8, parts=2, codes=4, revive_after=5)
    with torch.no_grad():
        vq.entries[1, 3] = 1000.0
    optimizer = torch.optim.Adam(vq.parameters(), lr=1e-3)
    hits = []
    for step in range(16):
        contexts = torch.randn(64, 8, generator=generator(step))
        optimizer.zero_grad()
        vq.regularizer(contexts).backward()
        optimizer.step()
        vq.maintain(contexts, generator())
        hits.append(int((vq.keys(contexts)[:, 1] == 3).sum()))
    assert hits[:4] == [0] * 4
    assert min(hits[4:]) > 0
    assert vq.entries[1, 3].norm().item() == pytest.approx(2, rel=0.2)  # parts have the length sqrt 4


def test_constant_contexts_use_one_code_and_change_nothing():
    vq = quantizer(dim=8, codes=4, revive_after=3)
    contexts = torch.randn(1, 8).repeat(5, 1)
    vq.fit(contexts, generator())
    before = vq.entries.detach().clone()
    for _ in range(20):
        vq.maintain(contexts, generator())
    assert vq.metrics() == pytest.approx({"code_usage": 1 / 4, "code_perplexity": 1})
    assert torch.equal(vq.entries, before)


def test_revival_can_be_turned_off_and_reading_never_revives():
    vq, contexts = with_a_dead_entry()
    for _ in range(10):
        vq.eval().keys(contexts)
    off = quantizer(dim=2, parts=1, revive_after=0)
    before = off.entries.detach().clone()
    for _ in range(10):
        off.maintain(contexts, generator())
    assert vq.entries[0, 1].tolist() == [-9.0, -9.0]
    assert torch.equal(off.entries, before)


def test_usage_and_perplexity_by_hand_and_independent_of_the_batch_size():
    contexts = torch.tensor([[1.0, 0.0, 1.0, 0.0]] * 3 + [[0.0, 1.0, 1.0, 0.0]])
    whole, single = by_hand(), by_hand()
    assert whole.metrics() == {"code_usage": 0.0, "code_perplexity": 0.0}
    whole.maintain(contexts, generator())
    for row in contexts:
        single.maintain(row[None], generator())
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    expected = {"code_usage": (1.0 + 0.5) / 2, "code_perplexity": (math.exp(entropy) + 1) / 2}
    assert whole.metrics() == pytest.approx(expected)
    assert single.metrics() == pytest.approx(expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 30))
def test_figures_do_not_depend_on_how_contexts_come_in_batches(sizes, window):
    contexts = torch.randn(sum(sizes), 4, generator=generator(len(sizes)))
    batched, single = quantizer(window=window), quantizer(window=window)
    for batch in contexts.split(sizes):
        batched.maintain(batch, generator())
    for row in contexts:
        single.maintain(row[None], generator())
    assert batched.metrics() == single.metrics()
    latest = single.keys(contexts)[-window:]  # each context counts once
    assert batched.metrics()["code_usage"] == sum(len(codes.unique()) for codes in latest.T) / 4


def test_figures_count_the_recent_contexts_only():
    vq = quantizer(window=4)
    with torch.no_grad():
        vq.entries.copy_(by_hand().entries)
    vq.maintain(torch.tensor([[0.0, 1.0, -1.0, 0.0]] * 3), generator())
    vq.maintain(torch.tensor([[1.0, 0.0, 1.0, 0.0]] * 9), generator())
    assert vq.metrics()["code_usage"] == 0.5


def test_training_goes_on_from_a_checkpoint_as_if_never_interrupted():
    def train(vq: VectorQuantizer, steps: range) -> None:
        for step in steps:
            contexts = torch.randn(3, 8, generator=generator(step))
            (slope,) = torch.autograd.grad(vq.regularizer(contexts), [vq.entries])
            with torch.no_grad():
                vq.entries -= 0.1 * slope
            vq.maintain(contexts, generator(step))

    straight, interrupted, resumed = (quantizer(dim=8, codes=8, revive_after=3, window=20) for _ in range(3))
    resumed.fit(torch.randn(50, 8), generator())
    train(straight, range(20))
    train(interrupted, range(9))
    resumed.load_state_dict(interrupted.state_dict())
    train(resumed, range(9, 20))
    expected = straight.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.state_dict().items())
    assert resumed.metrics() == straight.metrics()


def test_nothing_happens_for_an_empty_batch():
    vq = quantizer()
    before = {name: value.clone() for name, value in vq.state_dict().items()}
    empty = torch.zeros(0, 4, requires_grad=True)
    vq.maintain(empty, generator())
    vq.fit(empty, generator())
    loss = vq.regularizer(empty) + vq.pair_similarity(empty, empty).sum()
    loss = loss + vq.similarity(empty, vq.keys(empty)).sum()
    loss.backward()
    assert loss.item() == 0
    assert vq.keys(empty).shape == (0, 2)
    assert all(torch.equal(value, before[name]) for name, value in vq.state_dict().items())


# -- the index -------------------------------------------------------------------------------------------------


def test_default_threshold_needs_23_of_32_equal_codes():
    index = CodeIndex(32, "cpu")
    index.add(torch.zeros(1, 32, dtype=torch.uint8))
    query = torch.zeros(2, 32, dtype=torch.uint8)
    query[0, :9] = 1  # 23 equal
    query[1, :10] = 1  # 22 equal
    above = index.similarities(query) > 0.7
    assert above.flatten().tolist() == [True, False]
