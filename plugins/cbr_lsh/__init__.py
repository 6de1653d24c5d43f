"""Locality-sensitive hashing instead of vector quantization [P App. C]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_quantizers(registry: Registrar) -> None:
    registry.add(
        "lsh",
        factory="cbr_lsh.quantizer:HashedContext",
        config="cbr_lsh.config:HashedContextConfig",
        summary="hyperplane hash tables pick candidates, cosine of the contexts decides [P App. C, LSH]",
        requires=("torch",),
    )
