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
