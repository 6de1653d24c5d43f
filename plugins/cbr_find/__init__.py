"""Find one's way: which recipes there are, a recipe of one's own, which runs there are, how they differ."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "recipes",
        factory="cbr_find.recipes_command:recipes",
        summary="List the recipes that are here: what each one is, what it costs, what it needs.",
    )
    registry.add(
        "new-recipe",
        factory="cbr_find.new_recipe_command:new_recipe",
        summary="Write a recipe of your own to start from: a copy of one that is here, with its comments.",
    )
    registry.add(
        "runs",
        factory="cbr_find.runs_command:runs",
        summary="List the runs in a folder: how far each one is, and what came of it.",
    )
    registry.add(
        "compare",
        factory="cbr_find.compare_command:compare",
        summary="Put runs side by side: the settings in which they differ, and their figures.",
    )
