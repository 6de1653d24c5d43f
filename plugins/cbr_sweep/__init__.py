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


@hookimpl
def register_recipe_sections(registry: Registrar) -> None:
    registry.add(
        "sweep",
        factory="cbr_sweep.section:SweepSection",
        summary="axes whose values are combined, each combination a run; several settings together as a variant",
    )
