"""Look into the case memory of a run, take its cases out, put some in."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "cases",
        factory="cbr_cases.command:cases_app",
        summary="Look into the case memory of a run; take its cases out, or put some in.",
    )
