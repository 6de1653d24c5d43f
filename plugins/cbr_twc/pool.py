"""Generated houses to train on beside the published games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cbr_twc.config import TwcConfig
from cbr_twc.exclusion import sharing_heads
from cbr_twc.files import GameFiles
from cbr_twc.generate import generated_houses, objects


def houses(
    config: TwcConfig, cache_dir: Path, measured: Sequence[GameFiles]
) -> tuple[list[GameFiles], dict[str, Any]]:
    """`config.houses` games for each level that is trained on.

    Args:
        measured: the games of all other splits, for `config.leave_out`.

    Returns:
        The games, and what the results say of them: how many there are, and which objects were left out.
    """
    left_out = sharing_heads(objects(), measured) if config.leave_out == "heads" else frozenset()
    levels, seed = config.levels("train"), config.generation_seed
    paths = [
        path
        for place, level in enumerate(levels)
        for path in generated_houses(level, config.houses, seed, cache_dir, left_out, after=levels[:place])
    ]
    told: dict[str, Any] = {"count": len(paths)}
    if config.leave_out is not None:
        told["left_out"] = sorted(left_out)
    return [GameFiles(path.with_suffix(".json"), path, made_here=True) for path in paths], told
