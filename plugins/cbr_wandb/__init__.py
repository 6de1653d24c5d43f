"""Weights & Biases: rows, results and the recipe of a run, offline unless told otherwise."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_recorders(registry: Registrar) -> None:
    registry.add(
        "wandb",
        factory="cbr_wandb.recorder:WandbRecorder",
        config="cbr_wandb.config:WandbConfig",
        summary="Weights & Biases; offline, in the run folder, unless told otherwise",
        requires=("wandb",),
    )
