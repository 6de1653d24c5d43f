"""Settings of the agents."""

from __future__ import annotations

import string
from typing import Annotated, Literal

from cbrcore import ComponentConfig
from pydantic import Field, field_validator

TEMPLATE = "{cases}{history}{observation}\n{inventory}\n>"
CASE = 'In a similar situation "{case}" was rewarded.\n'
FIELDS = {
    "template": ("cases", "history", "observation", "feedback", "description", "inventory", "commands"),
    "case_template": ("case", "command", "relevance"),
}
"""setting -> what may stand in braces there"""


class LlmConfig(ComponentConfig):
    """A frozen causal language model of the library transformers."""

    model: Annotated[str, Field(min_length=1)]
    """A folder as `save_pretrained` writes it (relative to the recipe), or the name of a model on the Hugging Face
    Hub that is in the local cache. Weights are read from safetensors alone."""
    revision: str | None = None
    """Branch, tag or commit of a model of the hub."""
    local_files_only: bool = True
    """Nothing is downloaded. `false`: a model that is not here is fetched from the hub when the run starts."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights. The model stands where the recipe's networks do (`run.device`)."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """So many commands go through the model together."""
    template: str = TEMPLATE
    """The prompt, which ends where the command begins. In braces: cases, history, observation (feedback and
    description), feedback, description, inventory, commands (all admissible ones, a line each)."""
    case_template: str = CASE
    """What is said of a retrieved case. In braces: case (the command that was retained), command (the same on what
    is here), relevance."""
    cases: Annotated[int, Field(ge=0)] = 3
    """How many of the retrieved cases the prompt tells, the most relevant ones."""
    history: Annotated[int, Field(ge=0)] = 3
    """How many earlier steps the prompt tells, the last ones."""
    ending: str = "\n"
    """What follows a command and is scored with it: else "take cup" is as likely as all that begins with it."""
    normalise: Literal["tokens", "characters", "nothing"] = "tokens"
    """What the log-likelihood of a command is divided by."""
    prior: str | None = None
    """A text that tells nothing, as ">": a command's log-likelihood behind it is subtracted, so that words which
    are likely everywhere count less [Holtzman et al. 2021, "Surface form competition"]. Left out: nothing is."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Scores are divided by it before the softmax; small: the best command nearly always."""
    max_prompt: Annotated[int, Field(ge=1)] | None = None
    """Tokens of the longest prompt. Left out: what the model can take. A longer one loses its oldest steps, then
    the least relevant cases, then its beginning."""
    share_prefix: bool = True
    """Compute the prompt once for all commands. `false`: once for each, which is slower and gives the same."""

    @field_validator("template", "case_template")
    @classmethod
    def _its_fields_are_known(cls, value: str, info: object) -> str:
        known = FIELDS[str(getattr(info, "field_name", ""))]
        try:
            named = [name for _, name, _, _ in string.Formatter().parse(value) if name is not None]
            value.format_map(dict.fromkeys(known, ""))
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(
                f"{error} does not fit; in braces may stand: {', '.join(known)}; {{{{ is a brace"
            ) from error
        if not named:
            raise ValueError(f"it tells nothing; in braces may stand: {', '.join(known)}")
        return value
