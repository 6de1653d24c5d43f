"""The case memory of the paper, with votes of several neighbours, negative cases and eviction as options."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_memories(registry: Registrar) -> None:
    registry.add(
        "case_memory",
        factory="cbr_memory.memory:case_memory",
        config="cbr_memory.config:CaseMemoryConfig",
        summary="a set of (key, template) pairs; the most similar case above tau is retrieved [P §3]",
        requires=("torch",),
    )
