"""The paper's numbers beside ours: a section of the report, from recipes/tables/paper.yaml."""

from cbrcore import Registrar, hookimpl


@hookimpl
def register_report_sections(registry: Registrar) -> None:
    registry.add(
        "paper",
        factory="cbr_paper.section:beside_the_paper",
        summary="Our numbers beside the paper's, cell by cell; names agents and places as the paper does",
    )
    registry.add(
        "jericho",
        factory="cbr_paper.ceilings:of_jericho",
        summary="Jericho game by game: ours beside the ceiling of 100 steps, the paper, the best published",
    )
