"""Settings: the base class of every component's config, and the recipe's own sections.

Defaults are the paper's values (or our reading of them, docs/paper/readings.md). Every field
has a description and bounds; ``cbr show PLUGIN/NAME`` prints them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_serializer
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from cbrcore.errors import CbrError, link_to_nowhere, os_failure


class Settings(BaseModel):
    """Frozen, no unknown keys, no NaN. Recipes are read strictly: no silent conversion of text to numbers."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True, validate_default=True
    )


class ComponentConfig(Settings):
    """Base of a component's settings; the `use` key is taken off before it is built."""


class NoSettings(ComponentConfig):
    """For components without settings."""


class Part(BaseModel):
    """A part of a recipe: which component, and its checked settings."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    use: str
    """Qualified name, plugin/name."""
    settings: Any
    """The component's own config object."""

    @model_serializer
    def _as_in_a_recipe(self) -> dict[str, Any]:
        return {"use": self.use, **self.settings.model_dump(mode="json", by_alias=True)}


Resolve = Callable[[str, str, Any], Part]
"""The context in which a recipe is validated: (kind, key, what is written) -> the part; what is wrong with it is a
ValidationError, whose places start inside of the part."""


@dataclass(frozen=True)
class NestedPart:
    """Marks a setting that is a part of its own, so that a component can be built around another one::

        agent: Annotated[Part, NestedPart("agent")]

    In a recipe it is written as any part is, ``use`` and settings; reading the recipe makes the `Part`. The outer
    component builds it with `Build.make`. With the type ``Part | None`` and the default None it may be left out.
    """

    kind: str
    """Of the component, as in "agent"."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source)
        may_be_none = inner["type"] == "nullable"

        def resolved(written: Any, info: ValidationInfo) -> Any:
            if info.context is None or isinstance(written, Part) or (written is None and may_be_none):
                return written
            resolve: Resolve = info.context
            return resolve(self.kind, info.field_name or self.kind, written)

        return core_schema.with_info_before_validator_function(resolved, inner)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "object", "part": self.kind}


def nested_parts(settings: BaseModel | type[BaseModel]) -> dict[str, NestedPart]:
    """The settings that are parts of their own, by name."""
    model = settings if isinstance(settings, type) else type(settings)
    marks = ((name, mark) for name, field in model.model_fields.items() for mark in field.metadata)
    return {name: mark for name, mark in marks if isinstance(mark, NestedPart)}


@dataclass(frozen=True)
class ExistingPath:
    """Marks a text setting that names a file or folder which must be there when a run starts::

        path: Annotated[str, ExistingPath("cbr cases export RUN DIR")] | None = None

    `cbr check`, and what starts runs, look for it before anything is built; a run that began may have lost it.
    """

    mend: str
    """What to type where it is missing."""
    holds: str = ""
    """A file that the folder must hold."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | {"existing": asdict(self)}


class MemoryConfig(ComponentConfig):
    """Settings that every case memory has [P §3]; those of a memory are a subclass."""

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.7
    """tau: a case is retrieved if its relevance is strictly greater."""
    refresh: bool = False
    """Compute the keys of all cases anew whenever the retriever has changed. Off in the paper: keys stay as they
    were when the case was retained."""
    cases: Annotated[str, ExistingPath("cbr cases export RUN DIR", holds="cases.jsonl")] | None = None
    """Start with the cases that `cbr cases export` wrote to this folder, relative to the recipe."""


class ReuseConfig(ComponentConfig):
    """Settings that every reuse policy has [P §3]; those of a policy are a subclass."""

    needs_cases: ClassVar[bool] = True
    """Whether a recipe with the policy must have a case memory; where it need not, it has cases of its own."""
    own_choice: ClassVar[bool] = False
    """Whether `choose` is more than the order by relevance: an agent that chooses itself would ignore it."""

    retry_failed: bool = True
    """Reuse an action again that earned nothing earlier in the same episode (the paper does). `false` is a
    deviation: revise then drops such candidates in the same room, until the episode ends."""

    def retries(self) -> bool | None:
        """Whether failed actions are reused again, for `protocol`; None where the setting has no meaning."""
        return self.retry_failed


class TrainingConfig(Settings):
    """Losses and optimisers [P §5, App. A]."""

    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Discount."""
    update_every: Annotated[int, Field(ge=1)] = 20
    """Environment steps per update (n of n-step A2C); an episode's end updates too."""
    agent_learning_rate: Annotated[float, Field(gt=0, le=1)] = 3e-5
    """Adam's step size for the agent."""
    retriever_learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-5
    """Adam's step size for the retriever while the agent trains; 0 freezes it."""
    value_weight: Annotated[float, Field(ge=0)] = 0.5
    """Weight of L_v = 1/2 (R - V)^2."""
    entropy_weight: Annotated[float, Field(ge=0)] = 1e-4
    """eta, weight of sum pi log pi."""
    clip: Annotated[float, Field(gt=0)] = 40.0
    """Largest gradient norm."""
    margin: Annotated[float, Field(gt=0, le=1)] = 0.5
    """mu of the contrastive loss."""
    win_bonus: Annotated[float, Field(ge=0)] = 0.0
    """Added to the agent's reward (not to the retriever's) on the step that wins; the TWC baselines use 100."""
    pretrain: Annotated[Part | None, NestedPart("pretraining")] = None
    """How the retriever is pretrained."""


class EvaluationConfig(Settings):
    """How a trained agent is measured; weights and memory are frozen [P §6]."""

    splits: tuple[str, ...] = ("in", "out")
    """Splits of the environment."""
    passes: Annotated[int, Field(ge=1)] = 5
    """Plays of every game."""
    random_passes: Annotated[int, Field(ge=1)] | None = None
    """Those of the uniform random policy. Left out: 100 or what a slow environment says, or `passes` if more."""
    modes: Annotated[tuple[Literal["sampled", "greedy"], ...], Field(min_length=1)] = ("sampled", "greedy")
    """How the agent picks an action when it is asked; the first is the main result."""


class RunConfig(Settings):
    """How long, and on what."""

    episodes: Annotated[int, Field(ge=0)] | None = None
    """Passes over the training games."""
    env_steps: Annotated[int, Field(ge=1)] | None = None
    """Environment steps, instead of passes."""
    num_envs: Annotated[int, Field(ge=1, le=256)] = 1
    """Games played at the same time, each in an environment of its own; networks and memory are shared. An update
    takes the steps of all of them, and new episodes begin when all have ended."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the networks run."""
    checkpoint_every: Annotated[int, Field(ge=1)] = 50
    """Game plays between checkpoints."""
    isolate: bool = False
    """Play in child processes: an environment that hangs, crashes or exits costs one episode (`engine_error`)."""
    step_limit: Annotated[float, Field(gt=0)] = 20.0
    """Seconds that an isolated environment has for a step; a reset has ten times as many."""


class Recipe(Settings):
    """A checked experiment. Made by `cbrcore.recipe`, which knows YAML, plugins and line numbers."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(max_length=100, pattern=r"^\w[\w .,+=()@-]*$")]
    """Names the run folder. The recipe file's own name if left out."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Every random source of the run is derived from it."""
    directory: Path = Field(default_factory=Path.cwd)
    """Relative paths in the settings start here: the folder of the recipe file unless it says otherwise."""
    environment: Annotated[Part, NestedPart("environment")]
    text_encoder: Annotated[Part, NestedPart("text_encoder")]
    context_encoder: Annotated[Part | None, NestedPart("context_encoder")] = None
    quantizer: Annotated[Part | None, NestedPart("quantizer")] = None
    memory: Annotated[Part | None, NestedPart("memory")] = None
    """Its settings are a `MemoryConfig`."""
    reuse_policy: Annotated[Part | None, NestedPart("reuse_policy")] = None
    """Its settings are a `ReuseConfig`."""
    retain_policy: Annotated[Part | None, NestedPart("retain_policy")] = None
    agent: Annotated[Part, NestedPart("agent")]
    learner: Annotated[Part, NestedPart("learner")]
    recorders: tuple[Annotated[Part, NestedPart("recorder")], ...] = ()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    run: RunConfig = RunConfig()
    sections: Mapping[str, Any] = {}
    """The sections of plugins, by key, each a settings object of its plugin's class."""

    @property
    def uses_cases(self) -> bool:
        """Whether this is a CBR agent; otherwise it is the plain neural baseline."""
        return self.memory is not None


def expand_path(text: str, base: Path) -> Path:
    """The absolute path that `text` means: ``~`` and ``$VAR`` are expanded, a relative path starts at `base`.

    Raises:
        CbrError: it is empty, holds a control character, an unknown variable or user, or leads to nowhere.
    """
    if not text.strip() or any(ord(character) < 32 for character in text):
        raise CbrError(f"{text!r} is not a path", hint=r"Write Windows paths in single quotes: 'C:\temp'")
    unset = [name for name in re.findall(r"\$\{?(\w+)", text) if name not in os.environ]
    if unset:
        raise CbrError(f"the path {text!r} holds ${unset[0]}, which is not set", hint=f"export {unset[0]}=...")
    expanded = os.path.expanduser(os.path.expandvars(text))
    if text.startswith("~") and expanded.startswith("~"):
        raise CbrError(f"the path {text!r} starts with a user that this machine does not know")
    if nowhere := link_to_nowhere(base / expanded):
        raise CbrError(nowhere, hint="mend or remove the link, or name another path")
    return Path(os.path.realpath(base / expanded))


def existing_path(text: str, base: Path, *, mend: str, holds: str = "") -> Path:
    """As `expand_path`, and it is there; see `ExistingPath`.

    Raises:
        CbrError: also if nothing is there, or not what it should hold, or nobody may look.
    """
    path = expand_path(text, base)
    try:
        if not path.exists():
            raise CbrError(f"{path}: no such file or folder", hint=mend)
        if holds and not (path / holds).is_file():
            raise CbrError(f"{path} holds no {holds}", hint=mend)
    except OSError as error:
        raise os_failure(error, path) from error
    return path


def cache_dir() -> Path:
    """CBR_CACHE, or cbr/ in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.path.expanduser(os.environ.get("CBR_CACHE") or Path(base) / "cbr"))
