"""Entities as context selectors: retrieval without a state graph [P App. G]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_context_encoders(registry: Registrar) -> None:
    registry.add(
        "entity",
        factory="cbr_entity.encoder:EntityEncoder",
        config="cbr_entity.config:EntityConfig",
        summary="the action's object entity alone, no state graph (w/o GAT) [P App. G]",
        requires=("torch",),
    )


@hookimpl
def register_report_sections(registry: Registrar) -> None:
    registry.add(
        "objects",
        factory="cbr_entity.section:objects",
        summary="where the retriever puts the objects of the games: t-SNE, and leave-one-out accuracy [P Fig. 6]",
    )
