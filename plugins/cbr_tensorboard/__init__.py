"""TensorBoard: the numbers of each metrics row as scalars."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_recorders(registry: Registrar) -> None:
    registry.add(
        "tensorboard",
        factory="cbr_tensorboard.recorder:TensorBoardRecorder",
        summary="TensorBoard event files in the run folder; does nothing where tensorboard is not installed",
        requires=("tensorboard",),
    )
