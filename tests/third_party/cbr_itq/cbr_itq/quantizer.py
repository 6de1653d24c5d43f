"""ITQ as a quantizer: contexts to binary codes."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cbr_itq.config import IterativeQuantizerConfig
from cbr_itq.index import BitIndex, share_of_equal_bits
from cbr_itq.rotation import learned_rotation, nearest_rotation, principal_directions, random_rotation, signs
from cbrcore import Build, CbrError


class IterativeQuantizer(nn.Module):
    """key(c) = sign((c - mean) W R); sim(c, c') = share of equal bits.

    W are the principal directions of the contexts that training saw last, R the rotation learned on them. While
    the encoder trains, contexts drift: `maintain` keeps a window of them and fits anew, from the rotation that is
    nearest to the last one, so that codes change no more than the data ask for. Before any fit the directions are
    random.

    Shapes: n contexts, d = build.context_dim, c = config.bits, w = config.window.

    Raises:
        CbrError: there are more bits than d.
    """

    mean: Tensor
    directions: Tensor
    scale: Tensor
    window: Tensor
    counts: Tensor

    def __init__(self, config: IterativeQuantizerConfig, build: Build) -> None:
        super().__init__()
        width = build.context_dim
        if config.bits > width:
            raise CbrError(
                f"quantizer.bits: {config.bits} bits are more than the width d = {width} of a context",
                hint=f"set `bits` to at most {width}",
            )
        self.config = config
        start = torch.linalg.qr(torch.randn(width, config.bits))[0]  # [d, c]
        self.register_buffer("mean", torch.zeros(width, device=build.device))
        self.register_buffer("directions", start.to(build.device))  # W R
        self.register_buffer("scale", torch.ones((), device=build.device))
        self.register_buffer("window", torch.zeros(config.window, width, device=build.device))
        self.register_buffer("counts", torch.zeros(3, dtype=torch.long))  # contexts seen, since the last fit, fits
        self._indices: weakref.WeakSet[BitIndex] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"IterativeQuantizer(bits={self.config.bits}, refit={self.config.refit!r})"

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Fit to contexts [n, d], which become the window (the last w of them); nothing happens if n is 0."""
        if len(contexts):
            self.counts[0] = 0
            self._remember(contexts)
            self._fit(random_rotation(self.config.bits, generator))

    def keys(self, contexts: Tensor) -> Tensor:
        """[n, d] -> [n, c] int8 of 1 and -1."""
        with torch.no_grad():
            return signs(self._projected(contexts)).to(torch.int8)

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: forward the exact share of equal bits, backward through tanh (straight-through)."""
        return share_of_equal_bits(self._soft_signs(contexts), keys.to(contexts.dtype))

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n], gradients to both sides."""
        return share_of_equal_bits(self._soft_signs(left), self._soft_signs(right))

    def regularizer(self, contexts: Tensor) -> Tensor:
        """0: nothing is trained by gradients."""
        return contexts.new_zeros(())

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Keep the update's contexts [n, d]; fit anew when it is time, as long as no stored key depends on it."""
        if not len(contexts):
            return
        self._remember(contexts)
        due = 0 < self.config.refit_every <= int(self.counts[1])
        if due and (self.config.refit == "always" or not any(map(len, self._indices))):
            self._fit(None)

    def index(self) -> BitIndex:
        """An empty index."""
        made = BitIndex(self.config.bits, self.mean.device)
        self._indices.add(made)
        return made

    def metrics(self) -> Mapping[str, float]:
        """Of the rotation and its directions.

        itq_fits: how often they were fitted.
        itq_variance: the share of the variance in the window of contexts that the directions hold.
        """
        kept = self._kept()
        centred = kept - kept.mean(dim=0) if len(kept) else kept
        whole = float(centred.square().sum())
        held = float((centred @ self.directions).square().sum())
        return {"itq_fits": float(self.counts[2]), "itq_variance": held / whole if whole else 0.0}

    def _projected(self, contexts: Tensor) -> Tensor:
        """(c - mean) W R, [n, c]."""
        return (contexts - self.mean) @ self.directions

    def _soft_signs(self, contexts: Tensor) -> Tensor:
        projected = self._projected(contexts)
        soft = torch.tanh(self.config.slope * projected / self.scale)
        return signs(projected) + soft - soft.detach()

    def _remember(self, contexts: Tensor) -> None:
        """Put contexts [n, d] into the window, over the oldest ones."""
        newest = contexts.detach()[-len(self.window) :]
        places = (int(self.counts[0]) + torch.arange(len(newest))) % len(self.window)
        self.window[places.to(self.window.device)] = newest.to(self.window)
        self.counts[:2] += len(newest)

    def _kept(self) -> Tensor:
        """The window as far as it is filled, [<= w, d]."""
        return self.window[: int(self.counts[0])]

    def _fit(self, rotation: Tensor | None) -> None:
        """Mean, principal directions and rotation of the window, in float64.

        Args:
            rotation: to begin with [c, c]; None: the one that is nearest to what was learned before.
        """
        contexts = self._kept().cpu().double()
        mean = contexts.mean(dim=0)
        principal = principal_directions(contexts - mean, self.config.bits)  # W [d, c]
        if rotation is None:
            rotation = nearest_rotation(principal.T @ self.directions.cpu().double())
        projected = (contexts - mean) @ principal  # V [n, c]
        directions = principal @ learned_rotation(projected, rotation, self.config.iterations)
        scale = projected.square().mean().sqrt().clamp(min=1e-6)
        for buffer, value in ((self.mean, mean), (self.directions, directions), (self.scale, scale)):
            buffer.copy_(value)  # in place: who watches the buffers notices
        self.counts[1] = 0
        self.counts[2] += 1
