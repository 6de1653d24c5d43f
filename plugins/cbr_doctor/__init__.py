"""See what is installed and found, test it, and tell how to mend what is wrong."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "doctor",
        factory="cbr_doctor.command:doctor",
        summary="See what is installed and found, test it, and tell how to mend what is wrong.",
    )
