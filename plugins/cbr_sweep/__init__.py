"""Sweeps: one recipe, several axes, a run for each combination of their values."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "sweep",
        factory="cbr_sweep.command:sweep",
        summary="Execute all runs of a recipe's sweep; what is done is skipped.",
    )
