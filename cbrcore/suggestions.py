"""What somebody meant who wrote an unknown key: the same word elsewhere, another word for it, or a slip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cbrcore.errors import closest
from cbrcore.yamltext import Keys

OTHER_WORDS = {
    "lr": "training.agent_learning_rate",
    "learning_rate": "training.agent_learning_rate",
    "discount": "training.gamma",
    "mu": "training.margin",
    "eta": "training.entropy_weight",
    "entropy_coef": "training.entropy_weight",
    "value_coef": "training.value_weight",
    "grad_clip": "training.clip",
    "tau": "memory.threshold",
    "memory_size": "memory.capacity",
    "epochs": "run.episodes",
    "steps": "run.env_steps",
    "total_steps": "run.env_steps",
    "device": "run.device",
    "env": "environment",
    "encoder": "context_encoder",
    "retriever": "context_encoder",
    "retain": "retain_policy",
    "train": "training",
    "eval": "evaluation",
    "version": "schema",
}
"""Words that the paper or other libraries use -> where the setting is here."""


class Places:
    """All keys that this recipe could have: top-level ones, and the settings of each section by dotted path."""

    def __init__(self, top: Sequence[str], settings: Mapping[str, Sequence[str]]) -> None:
        self._top = top
        self._paths = [*top, *(f"{section}.{path}" for section, paths in settings.items() for path in paths)]

    def __repr__(self) -> str:
        return f"Places({len(self._paths)} keys)"

    def unknown(self, keys: Keys) -> str:
        """What to say about the unknown key at `keys`."""
        meant = self._meant(str(keys[-1]).lower().replace("-", "_"), self._siblings(keys))
        if meant:
            return f"unknown key. Did you mean {' or '.join(meant)}?"
        names = [path.rpartition(".")[2] for path in self._siblings(keys)]
        return (
            f"unknown key. Choose one of: {', '.join(names)}."
            if names
            else "unknown key; there are no settings here"
        )

    def _siblings(self, keys: Keys) -> list[str]:
        """The known paths in the same section."""
        around = "".join(f"{key}." for key in keys[:-1])
        inside = {
            path.removeprefix(around).partition(".")[0]: None for path in self._paths if path.startswith(around)
        }
        return [around + name for name in inside] if around else list(self._top)

    def _meant(self, word: str, siblings: Sequence[str]) -> list[str]:
        here = {path.rpartition(".")[2]: path for path in siblings}
        if word in here:
            return [here[word]]
        elsewhere = [path for path in self._paths if path.rpartition(".")[2] == word]
        if elsewhere:
            return sorted(elsewhere, key=lambda path: path.count("."))[:3]
        if word in OTHER_WORDS:
            return [OTHER_WORDS[word]]
        slip = closest(word, here)
        if slip is not None:
            return [here[slip]]
        names = {path.rpartition(".")[2]: path for path in self._paths}
        slip = closest(word, [name for name in names if len(name) > 3])
        return [names[slip]] if slip is not None else []
