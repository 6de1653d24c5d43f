"""Settings of `most_relevant`."""

from cbrcore.config import ReuseConfig


class MostRelevantConfig(ReuseConfig):
    """The rule of the paper [P §3]; every deviation from it is a setting that is off by default."""

    retry_solved: bool = True
    """Reuse actions on an object again whose goal was reached earlier in the same episode: the first entity of a
    rewarded action (the paper does). `false` is a deviation."""
