"""Bad batches must not ruin the weights."""

from __future__ import annotations

import pytest
import torch

from cbr_a2c.optimizer import MOST_SKIPS_IN_A_ROW, GuardedAdam
from cbrcore.errors import RunFailed


class NanGradient(torch.autograd.Function):
    """A finite loss whose gradient is not."""

    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return torch.full((2,), float("nan"))


def weight() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([1.0, -2.0]))


def adam(*parameters, learning_rate: float = 0.1, clip: float = 1.0) -> GuardedAdam:
    return GuardedAdam("agent", parameters, learning_rate=learning_rate, clip=clip)


@pytest.mark.parametrize("fault", ["nan loss", "infinite loss", "nan gradient"])
def test_non_finite_updates_are_skipped_and_counted(fault):
    w = weight()
    optimizer = adam(w)
    loss = {
        "nan loss": lambda: (w * float("nan")).sum(),
        "infinite loss": lambda: (w * float("inf")).sum(),
        "nan gradient": lambda: NanGradient.apply(w),
    }[fault]()
    assert not optimizer.step(loss)
    assert optimizer.skipped == 1
    assert w.tolist() == [1.0, -2.0]
    assert optimizer.step(w.square().sum())
    assert torch.isfinite(w).all()


def test_too_many_skips_in_a_row_stop_the_run():
    w = weight()
    optimizer = adam(w)
    for _ in range(MOST_SKIPS_IN_A_ROW - 1):
        optimizer.step((w * float("nan")).sum())
    with pytest.raises(RunFailed, match="learning rate"):
        optimizer.step((w * float("nan")).sum())


def test_a_good_update_starts_the_count_anew():
    w = weight()
    optimizer = adam(w)
    for _ in range(3):
        for _ in range(MOST_SKIPS_IN_A_ROW - 1):
            optimizer.step((w * float("nan")).sum())
        assert optimizer.step(w.square().sum())


def test_without_parameters_or_with_a_zero_rate_nothing_happens():
    assert not adam().active
    w = weight()
    frozen = adam(w, learning_rate=0.0)
    assert not frozen.step(w.square().sum())
    assert w.tolist() == [1.0, -2.0]


def test_gradients_are_clipped_to_the_norm():
    w = weight()
    adam(w, clip=0.5).step((w * 100).sum())
    assert float(w.grad.norm()) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("before", [0, 1, MOST_SKIPS_IN_A_ROW - 1])
@pytest.mark.parametrize("good", [0, 1])
def test_a_restored_optimizer_goes_on_counting(before, good):
    def skip(optimizer, w):
        optimizer.step((w * float("nan")).sum())

    w, copy = weight(), weight()
    optimizer, again = adam(w), adam(copy)
    for _ in range(good):
        optimizer.step(w.square().sum())
    for _ in range(before):
        skip(optimizer, w)
    again.load_tensors(optimizer.tensors())
    assert len(optimizer.tensors()) == 3 * good + bool(before)  # what never skipped is kept as ever
    for _ in range(MOST_SKIPS_IN_A_ROW - 1 - before):
        skip(again, copy)
    with pytest.raises(RunFailed, match="learning rate"):
        skip(again, copy)


def test_restored_optimizer_continues_exactly():
    def steps(optimizer, w, count):
        for _ in range(count):
            optimizer.step((w.square() * torch.tensor([1.0, 3.0])).sum())

    w = weight()
    optimizer = adam(w)
    steps(optimizer, w, 3)
    copy = torch.nn.Parameter(w.detach().clone())
    again = adam(copy)
    again.load_tensors({name: value.clone() for name, value in optimizer.tensors().items()})
    steps(optimizer, w, 3)
    steps(again, copy, 3)
    assert torch.equal(w, copy)


@pytest.mark.filterwarnings("error")
def test_all_tensors_together_are_stepped_as_each_alone():
    """To the bit: parameters of several shapes, one without a gradient, over many steps and with clipping."""
    shapes = [(3, 4), (5,), (), (2, 2, 2), (7,)]

    def weights() -> list[torch.nn.Parameter]:
        draws = torch.Generator().manual_seed(0)
        return [torch.nn.Parameter(torch.randn(shape, generator=draws)) for shape in shapes]

    mine, theirs = weights(), weights()
    ours, plain = adam(*mine, learning_rate=0.01), torch.optim.Adam(theirs, lr=0.01, foreach=False, fused=False)
    for step in range(1, 30):
        losses = [sum(((step % 3) * w.sin() + w.square()).sum() for w in group[:-1]) for group in (mine, theirs)]
        assert ours.step(losses[0])
        plain.zero_grad()
        losses[1].backward()
        torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        plain.step()
    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))
    assert all(not torch.equal(one, before) for one, before in zip(mine[:-1], weights()[:-1], strict=True))
