"""The multi-paragraph text-based retriever: contexts from observation texts, no state graph [P App. F]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_context_encoders(registry: Registrar) -> None:
    registry.add(
        "mptr",
        factory="cbr_mptr.encoder:MultiParagraphEncoder",
        config="cbr_mptr.config:MultiParagraphConfig",
        summary="the observation's text and earlier ones that share an object, no state graph [P App. F]",
        requires=("torch",),
    )
