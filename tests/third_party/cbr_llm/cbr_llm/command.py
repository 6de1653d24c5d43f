"""``cbr tiny-llm``: a language model of one's own, where none can be downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def tiny_llm(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="Its training games are played at random.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model's folder, which must not be there.")],
    plays: Annotated[int, typer.Option(min=1, help="Random plays of each training game.")] = 20,
    updates: Annotated[int, typer.Option(min=1, help="Training updates.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Of plays and weights.")] = 0,
) -> None:
    """Train a tiny language model on random plays of a recipe's training games, for cbr_llm/llm."""
    from cbr_llm.tiny import Training, train_tiny

    told = train_tiny(recipe, out, Training(plays=plays, updates=updates, seed=seed))
    typer.echo(f"{out}: {told}")
