"""Goal cases: a case is a whole goal, and all cases together are evidence for another one."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_context_encoders(registry: Registrar) -> None:
    registry.add(
        "names",
        factory="cbr_goals.encoder:NamesEncoder",
        config="cbr_goals.config:NamesConfig",
        summary="the names of an action's first two entities, by views of their words; no state, no training",
        requires=("torch",),
    )


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "kernel",
        factory="cbr_goals.kernel:Kernel",
        config="cbr_goals.config:KernelConfig",
        summary="no quantization; similarity = exp of weighted cosines, one weight for each view of the names",
        requires=("torch",),
    )


@hookimpl
def register_memories(registry: Registrar) -> None:
    registry.add(
        "evidence",
        factory="cbr_goals.memory:evidence_memory",
        config="cbr_goals.config:EvidenceConfig",
        summary="sums over all cases what they say for a goal; its weights are fitted to what was tried",
        requires=("torch",),
    )


@hookimpl
def register_reuse_policies(registry: Registrar) -> None:
    registry.add(
        "goals",
        factory="cbr_goals.policy:goals",
        config="cbr_goals.config:GoalsConfig",
        summary="goals from cases, by their probability and the way that leads there",
        requires=("torch",),
    )


@hookimpl
def register_learners(registry: Registrar) -> None:
    registry.add(
        "fit",
        factory="cbr_goals.learner:Fit",
        config="cbr_goals.config:FitConfig",
        summary="fits evidence and kernel to what was tried, around the learner that trains the agent",
        requires=("torch",),
    )


@hookimpl
def register_pair_features(registry: Registrar) -> None:
    registry.add(
        "conceptnet",
        factory="cbr_goals.conceptnet:ConceptNet",
        config="cbr_goals.config:ConceptNetConfig",
        summary="how near two names are in the part of ConceptNet that comes with TWC's training games",
        requires=("torch",),
    )
