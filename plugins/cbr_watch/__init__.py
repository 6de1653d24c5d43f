"""Watch a trained agent, or play with its advice; why it acted as it did."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "play",
        factory="cbr_watch.command:play",
        summary="Watch a run's agent play, with each retrieve, reuse, revise decision explained.",
    )


@hookimpl
def register_report_sections(registry: Registrar) -> None:
    registry.add(
        "decisions",
        factory="cbr_watch.section:decisions",
        summary="Single decisions of trained agents: what was compared, retrieved, reused and revised [P Fig. 3]",
    )
