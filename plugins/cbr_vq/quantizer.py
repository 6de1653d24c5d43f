"""The discretization phi: R^d -> Z_K^D of the paper: KD codes by vector quantization [P §4.2]."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbr_keys.checks import finite
from cbr_keys.codes import CodeIndex
from cbr_keys.figures import code_figures, remember
from cbr_vq.config import VectorQuantizerConfig
from cbr_vq.kmeans import kmeans, squared_distances
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build


class VectorQuantizer(nn.Module):
    """A context is cut into D parts; part j becomes the number of the nearest of the K entries of codebook j:

        z^j = argmin_i ||c^j - k_i^j||^2              sim(c, c') = share of equal codes

    Gradients pass straight through: with p_j = softmax_i(-||c^j - k_i^j||^2 / T) the output is
    o_j = onehot(z^j) + p_j - stopgrad(p_j) and sim = 1/D sum_j o_j . o'_j, so the value is exactly the share of
    equal codes, and its gradient that of the soft codes.

    Each part is first scaled to the length sqrt(d/D), so that distances, and with them T = 1, mean the same
    whatever the encoder's scale is; a part of zeros stays zero.

    Shapes: n contexts, d = build.context_dim, w = d / D.

    Raises:
        CbrError: D does not divide d.
    """

    entries: Tensor
    idle: Tensor
    recent: Tensor
    seen: Tensor

    def __init__(self, config: VectorQuantizerConfig, build: Build) -> None:
        super().__init__()
        _require_divisor(build.context_dim, config.parts)
        self.config = config
        self.width = build.context_dim // config.parts
        self.device = build.device
        self.entries = nn.Parameter(torch.randn(config.parts, config.codes, self.width))  # [D, K, w]
        self.register_buffer("idle", torch.zeros(config.parts, config.codes, dtype=torch.long))
        self.register_buffer("recent", torch.zeros(config.window, config.parts, dtype=torch.long))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.to(build.device)

    def __repr__(self) -> str:
        return f"VectorQuantizer(codes={self.config.codes}, parts={self.config.parts})"

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Start the codebooks from the k-means centres of contexts [n, d]; nothing happens if n is 0."""
        if not len(contexts):
            return
        samples = self._parts(contexts.detach()).transpose(0, 1)  # [D, n, w]
        centres = kmeans(samples, self.config.codes, iterations=self.config.kmeans_iterations, generator=generator)
        with torch.no_grad():
            self.entries.copy_(centres)
            self.idle.zero_()

    def keys(self, contexts: Tensor) -> Tensor:
        """The codes z [n, D] as bytes."""
        with torch.no_grad():
            codes: Tensor = self._distances(contexts).argmin(dim=-1)
            return codes.to(torch.uint8)

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: share of equal codes of context i [n, d] and stored key i [n, D], a constant."""
        stored = F.one_hot(keys.long(), self.config.codes).to(contexts.dtype)  # [n, D, K]
        equal: Tensor = (self._outputs(contexts) * stored).sum(dim=-1)  # [n, D]
        return equal.mean(dim=-1)

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: share of equal codes of contexts left_i and right_i [n, d]; gradients reach both."""
        return (self._outputs(left) * self._outputs(right)).sum(dim=-1).mean(dim=-1)

    def regularizer(self, contexts: Tensor) -> Tensor:
        """||stopgrad(c^j) - k_z^j||^2 moves the entries, ||c^j - stopgrad(k_z^j)||^2 keeps contexts near them;
        weighted, the mean over contexts and dimensions. 0 for an empty batch."""
        if not len(contexts):
            return contexts.new_zeros(())
        parts = self._parts(contexts)  # [n, D, w]
        chosen = self._chosen(self.keys(contexts).long())  # [n, D, w]
        codebook = self.config.codebook_weight * F.mse_loss(chosen, parts.detach())
        commitment = self.config.commitment_weight * F.mse_loss(parts, chosen.detach())
        return codebook + commitment

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Count which entries the update's contexts [n, d] use, and revive the dead ones.

        An entry without use for `revive_after` updates moves to where this batch has a part that is far from every
        entry.
        """
        if not len(contexts):
            return
        codes = self.keys(contexts).long()  # [n, D]
        remember(self.recent, self.seen, codes)
        used = F.one_hot(codes, self.config.codes).any(dim=0)  # [D, K]
        self.idle.copy_(torch.where(used, 0, self.idle + 1))
        if self.config.revive_after:
            self._revive(self._parts(contexts.detach()))

    def index(self) -> CodeIndex:
        """An empty index for this quantizer's codes."""
        return CodeIndex(self.config.parts, self.device)

    def metrics(self) -> Mapping[str, float]:
        """Over the recent contexts of training, each the mean over the D codebooks.

        code_usage: the share of a codebook's entries in use.
        code_perplexity: the number of equally often used entries that would be as varied.
        """
        return code_figures(self.recent, self.seen, self.config.codes)

    def _parts(self, contexts: Tensor) -> Tensor:
        """[n, d] -> [n, D, w], each part of length sqrt(w)."""
        parts = finite(contexts).view(len(contexts), self.config.parts, self.width)
        scaled: Tensor = F.normalize(parts, dim=-1) * self.width**0.5
        return scaled

    def _distances(self, contexts: Tensor) -> Tensor:
        """||c^j - k_i^j||^2 [n, D, K]."""
        return squared_distances(self._parts(contexts).transpose(0, 1), self.entries).transpose(0, 1)

    def _outputs(self, contexts: Tensor) -> Tensor:
        """o = onehot(z) + p - stopgrad(p), [n, D, K]."""
        distances = self._distances(contexts)
        hard = F.one_hot(distances.argmin(dim=-1), self.config.codes).to(distances.dtype)
        soft = torch.softmax(-distances / self.config.temperature, dim=-1)
        return hard + (soft - soft.detach())

    def _chosen(self, codes: Tensor) -> Tensor:
        """The entries k_z^j of codes [n, D]: [n, D, w]."""
        return self.entries[torch.arange(len(self.entries), device=codes.device), codes]

    def _revive(self, parts: Tensor) -> None:
        """Move dead entries onto samples of parts [n, D, w] that are badly represented.

        Where every sample has an entry near it nothing moves: an entry put beside a used one would only give
        known contexts new codes, and the cases in memory would no longer be found.
        """
        dead = self.idle >= self.config.revive_after  # [D, K]
        if not dead.any():
            return
        with torch.no_grad():
            errors = squared_distances(parts.transpose(0, 1), self.entries).amin(dim=-1) / self.width  # [D, n]
        dead &= (errors.amax(dim=1) >= self.config.revive_error).unsqueeze(1)  # nothing is far in most codebooks
        for codebook, entry in dead.nonzero().tolist():
            worst = int(errors[codebook].argmax())
            if errors[codebook, worst] < self.config.revive_error:
                continue
            with torch.no_grad():
                self.entries[codebook, entry] = parts[worst, codebook]
            self.idle[codebook, entry] = 0
            moved = parts[:, codebook] - parts[worst, codebook]  # [n, w]
            errors[codebook] = torch.minimum(errors[codebook], moved.square().sum(dim=-1) / self.width)


def _require_divisor(dim: int, parts: int) -> None:
    if dim % parts:
        near = sorted((n for n in range(1, dim + 1) if dim % n == 0), key=lambda n: (abs(n - parts), n))[:3]
        raise CbrError(
            f"quantizer.parts: {parts} parts do not divide the width d = {dim} of a context",
            hint=f"set `parts` to {', '.join(map(str, sorted(near)))}",
        )
