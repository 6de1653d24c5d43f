"""Measure how fast it is on this machine, each figure against a named alternative of the same run."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "bench",
        factory="cbr_bench.command:bench",
        summary="Measure how fast it is on this machine, against named alternatives.",
    )
