"""Reuse and revise as the paper has them [P §3, §4.3]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_reuse_policies(registry: Registrar) -> None:
    registry.add(
        "most_relevant",
        factory="cbr_reuse.most_relevant:MostRelevant",
        config="cbr_reuse.config:MostRelevantConfig",
        summary="of the cases' templates on the current entities the most relevant admissible one [P §3, §4.3]",
        requires=(),
    )
    registry.add(
        "doubting",
        factory="cbr_reuse.doubting:Doubting",
        config="cbr_reuse.config:DoubtingConfig",
        summary="the same, but in a share of the training steps the agent acts although a case fits",
        requires=(),
    )
