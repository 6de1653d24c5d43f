"""See what a recipe may say: the settings of every component and section, and the schema for editors."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "show",
        factory="cbr_show.command:show",
        summary="Show the settings of a component or of a recipe's section: type, default, bounds and meaning.",
    )
    registry.add(
        "schema",
        factory="cbr_show.command:schema",
        summary="Write the JSON Schema of a recipe, for editors that complete and check.",
    )
