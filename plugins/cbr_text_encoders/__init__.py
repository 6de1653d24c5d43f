"""Frozen text encoders: any transformers model, or a tiny untrained one for tests."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_text_encoders(registry: Registrar) -> None:
    registry.add(
        "transformer",
        factory="cbr_text_encoders.transformer:TransformerEncoder",
        config="cbr_text_encoders.config:TransformerConfig",
        summary="any AutoModel by name or folder; by default the packaged MiniLM, offline",
        requires=("torch", "transformers"),
    )
    registry.add(
        "untrained",
        factory="cbr_text_encoders.untrained:UntrainedEncoder",
        config="cbr_text_encoders.config:UntrainedConfig",
        summary="tiny random word vectors, for tests: no model needed",
        requires=("torch",),
    )


@hookimpl
def register_checks(registry: Registrar) -> None:
    registry.add(
        "packaged",
        factory="cbr_text_encoders.checks:packaged",
        summary="the text encoder that recipes use by default",
        requires=("torch", "transformers"),
    )
