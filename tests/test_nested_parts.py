"""Parts within parts: a setting that is a component of its own, in recipes, in lists, and when it is built."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch
import yaml
from pydantic import Field, ValidationError, model_validator
from toy import ToyEnvironment

from cbr_show.describing import describe
from cbr_show.overview import recipe_text
from cbrcore.config import ComponentConfig, NestedPart, NoSettings, Part, Recipe, Settings, nested_parts
from cbrcore.errors import CbrError, RecipeError
from cbrcore.interfaces import Build
from cbrcore.recipe import dump_recipe, read_recipe_text
from cbrcore.registry import Registrar, Registry
from cbrcore.rng import derive_seed
from cbrcore.runs.assemble import _part, assemble
from cbrcore.testing import WordHashEncoder


class Schedule(Settings):
    start: Annotated[float, Field(gt=0)] = 1.0


class InnerConfig(ComponentConfig):
    hidden: Annotated[int, Field(ge=1)] = 8
    label: str = "none"
    schedule: Schedule = Schedule()


class OtherConfig(ComponentConfig):
    hidden: int = 5


class OuterConfig(ComponentConfig):
    agent: Annotated[Part, NestedPart("agent")]
    """The inner one."""
    keeps: Annotated[Part | None, NestedPart("retain_policy")] = None
    """One that may be left out."""
    width: Annotated[int, Field(ge=1)] = 2

    @model_validator(mode="after")
    def _fits(self) -> OuterConfig:
        if getattr(self.agent.settings, "hidden", 0) == self.width:
            raise ValueError("hidden may not be width")
        return self


class Inner(torch.nn.Linear):
    """Weights that tell from which random stream they come."""

    def __init__(self, config: ComponentConfig, build: Build) -> None:
        super().__init__(3, 2)
        self.config, self.build = config, build

    def initial_state(self) -> None:
        return None

    def policy(self, inputs: list) -> list:
        return []


class Outer(torch.nn.Module):
    def __init__(self, config: OuterConfig, build: Build) -> None:
        super().__init__()
        self.drawn = torch.nn.Parameter(torch.randn(config.width))
        self.agent = build.make("agent", build)

    def initial_state(self) -> None:
        return None

    def policy(self, inputs: list) -> list:
        return []


class JointOuter(Outer):
    """It has the abilities of a `RevisingAgent`."""

    def revise(self, candidates: list, drawn: object) -> None:
        return None


def environment(config: ComponentConfig, build: Build) -> ToyEnvironment:
    return ToyEnvironment()


def text_encoder(config: ComponentConfig, build: Build) -> WordHashEncoder:
    return WordHashEncoder()


OFFERED = {
    "environment": {"lab/games": ("environment", NoSettings)},
    "text_encoder": {"cbr_text_encoders/transformer": ("text_encoder", NoSettings)},
    "learner": {"cbr_a2c/a2c": ("learner", NoSettings)},
    "retain_policy": {"lab/keep": ("Nothing", OtherConfig)},
    "agent": {
        "lab/inner": ("Inner", InnerConfig),
        "lab/other": ("Inner", OtherConfig),
        "lab/outer": ("Outer", OuterConfig),
        "lab/joint": ("JointOuter", OuterConfig),
        "lab/twin": ("Inner", InnerConfig),
        "zoo/twin": ("Inner", InnerConfig),
    },
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    made = Registry()
    for kind, offered in OFFERED.items():
        for qualified, (factory, config) in offered.items():
            plugin, name = qualified.split("/")
            registrar = Registrar(kind, plugin)
            path = f"{config.__module__}:{config.__name__}"
            registrar.add(name, factory=f"{__name__}:{factory}", config=path)
            made.extend(registrar.components)
    registrar = Registrar("recipe_section", "cbr_sweep")
    registrar.add("sweep", factory="cbr_sweep.section:SweepSection")
    made.extend(registrar.components)
    return made


RECIPE = """\
schema: 1
name: nested
environment: {use: lab/games}
agent:
  use: lab/outer
  width: 3
  agent:
    use: lab/inner
    hidden: 16
run: {episodes: 1}
"""


def read(text: str, registry: Registry, *overrides: str) -> Recipe:
    return read_recipe_text(text, "r.yaml", overrides=overrides, registry=registry)


def problems(text: str, registry: Registry, *overrides: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read(text, registry, *overrides)
    return list(caught.value.problems)


# What is accepted


def test_a_nested_part_is_checked_and_gets_its_qualified_name(registry: Registry):
    found = read(RECIPE.replace("use: lab/inner", "use: inner"), registry).agent
    assert found == Part(
        use="lab/outer",
        settings=OuterConfig(width=3, agent=Part(use="lab/inner", settings=InnerConfig(hidden=16))),
    )
    assert isinstance(found.settings.agent.settings, InnerConfig)


def test_a_nested_part_may_be_optional(registry: Registry):
    assert read(RECIPE, registry).agent.settings.keeps is None
    assert read(RECIPE, registry, "agent.keeps=null").agent.settings.keeps is None
    kept = read(RECIPE, registry, "agent.keeps={use: keep, hidden: 1}").agent.settings.keeps
    assert kept == Part(use="lab/keep", settings=OtherConfig(hidden=1))


def test_parts_nest_to_any_depth(registry: Registry):
    deep = RECIPE.replace(
        "use: lab/inner\n    hidden: 16", "use: lab/outer\n    agent: {use: lab/other, hidden: 7}"
    )
    assert read(deep, registry).agent.settings.agent.settings.agent.settings == OtherConfig(hidden=7)
    assert problems(deep.replace("hidden: 7", "hiden: 7"), registry) == [
        "r.yaml:9: agent.agent.agent.hiden: unknown key. Did you mean agent.agent.agent.hidden?"
    ]


def test_text_settings_of_a_nested_part_keep_their_text(registry: Registry):
    text = RECIPE.replace("hidden: 16", "label: 1.10")
    assert read(text, registry).agent.settings.agent.settings.label == "1.10"


def test_the_resolved_recipe_reads_back_equal(registry: Registry):
    recipe = read(RECIPE, registry, "agent.keeps.use=keep")
    written = dump_recipe(recipe)
    assert yaml.safe_load(written)["agent"] == {
        "use": "lab/outer",
        "agent": {"use": "lab/inner", "hidden": 16, "label": "none", "schedule": {"start": 1.0}},
        "keeps": {"use": "lab/keep", "hidden": 5},
        "width": 3,
    }
    assert read(written, registry) == recipe


# Overrides and sweeps


def test_overrides_reach_into_nested_parts(registry: Registry):
    found = read(RECIPE, registry, "agent.agent.hidden=4", "agent.agent.schedule.start=2").agent.settings.agent
    assert found.settings == InnerConfig(hidden=4, schedule=Schedule(start=2.0))


def test_another_inner_component_starts_from_its_own_defaults(registry: Registry):
    found = read(RECIPE, registry, "agent.agent.use=lab/other").agent.settings
    assert (found.width, found.agent) == (3, Part(use="lab/other", settings=OtherConfig()))
    same = read(RECIPE, registry, "agent.agent.use=inner").agent.settings.agent
    assert same.settings.hidden == 16
    both = read(RECIPE, registry, "agent.agent.hidden=9", "agent.agent.use=lab/other").agent.settings.agent
    assert both.settings == OtherConfig(hidden=9)


def test_an_agent_can_be_put_around_another_one(registry: Registry):
    plain = RECIPE[: RECIPE.index("agent:")] + "agent: {use: lab/inner, hidden: 16}\nrun: {episodes: 1}\n"
    found = read(plain, registry, "agent.use=lab/outer", "agent.agent.use=lab/inner").agent.settings
    assert found == OuterConfig(agent=Part(use="lab/inner", settings=InnerConfig()))


def test_nested_settings_can_be_swept(registry: Registry):
    recipe = read(RECIPE + "sweep: {agent.agent.hidden: [4, 5]}\n", registry)
    assert recipe.sections["sweep"].root == {"agent.agent.hidden": [4, 5]}
    assert problems(RECIPE + "sweep:\n  agent.agent.hidden: [4, 0]\n", registry) == [
        "r.yaml:12: sweep.agent.agent.hidden[1]: must be at least 1, got 0"
    ]


# Everything that is refused, in which words

AGENTS = "lab/inner, lab/joint, lab/other, lab/outer, lab/twin, zoo/twin"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hidden: 16", "hidden: 0", "9: agent.agent.hidden: must be at least 1, got 0"),
        ("hidden: 16", "hiden: 3", "9: agent.agent.hiden: unknown key. Did you mean agent.agent.hidden?"),
        ("hidden: 16", "xyzzy: 3", "9: agent.agent.xyzzy: unknown key. Choose one of: hidden, label, schedule."),
        ("hidden: 16", "width: 3", "9: agent.agent.width: unknown key. Did you mean agent.width?"),
        ("hidden: 16", "schedule: {start: 0}", "9: agent.agent.schedule.start: must be more than 0, got 0"),
        ("width: 3", "hidden: 3", "6: agent.hidden: unknown key. Did you mean agent.agent.hidden?"),
        ("lab/inner", "lab/iner", "8: agent.agent.use: unknown agent 'lab/iner'. Did you mean 'lab/inner'?"),
        ("lab/inner", "lab/keep",
         "8: agent.agent.use: 'lab/keep' belongs under 'retain_policy', not under 'agent'"),
        ("lab/inner", "twin", "8: agent.agent.use: agent 'twin' is offered by several plugins. "
                              "Write one of: lab/twin, zoo/twin"),
        ("  agent:\n    use: lab/inner\n    hidden: 16", "",
         f"4: agent.agent: is required; add 'agent: {{use: PLUGIN/NAME}}', one of: {AGENTS}"),
        ("    use: lab/inner\n", "",
         f"7: agent.agent: does not say which component; add 'use: PLUGIN/NAME', one of: {AGENTS}"),
        ("agent:\n    use: lab/inner\n    hidden: 16", "agent: lab/inner",
         "7: agent.agent: must be a section; write 'agent: {use: lab/inner}'"),
        ("width: 3", "keeps: {use: lab/nothing}",
         "6: agent.keeps.use: unknown retain_policy 'lab/nothing'. Choose one of: lab/keep."),
        ("hidden: 16", "hidden: 3", "4: agent: hidden may not be width"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(registry: Registry, old: str, new: str, said: str):
    assert problems(RECIPE.replace(old, new), registry) == [f"r.yaml:{said}"]


def test_faults_outside_and_inside_are_told_together(registry: Registry):
    text = RECIPE.replace("width: 3", "width: 0").replace("hidden: 16", "hidden: 0").replace("episodes: 1", "x: 1")
    found = [problem.split(": ")[:2] for problem in problems(text, registry)]
    assert found == [["r.yaml:6", "agent.width"], ["r.yaml:9", "agent.agent.hidden"], ["r.yaml:10", "run.x"]]


def test_settings_made_in_python_need_a_part():
    with pytest.raises(ValidationError, match="settings"):
        OuterConfig(agent={"use": "lab/inner"})
    with pytest.raises(ValidationError, match="Part"):
        OuterConfig(agent=None)


# Told to people


def test_the_settings_that_are_parts_are_known_and_described():
    assert nested_parts(OuterConfig) == {"agent": NestedPart("agent"), "keeps": NestedPart("retain_policy")}
    assert nested_parts(InnerConfig()) == {}
    found = {setting.path: setting for setting in describe(OuterConfig)}
    assert list(found) == ["agent", "keeps", "width"]
    assert (found["agent"].type, found["agent"].default) == ("part (agent)", "required")
    assert (found["keeps"].type, found["keeps"].default) == ("part (retain_policy)", "null")
    assert found["agent"].description == "The inner one."


def test_a_recipe_is_listed_with_the_parts_in_its_parts(registry: Registry):
    lines = [line.split(maxsplit=2) for line in recipe_text(read(RECIPE, registry)).splitlines()]
    assert ["agent", "lab/outer", '{"width": 3}'] in lines
    assert ["agent.agent", "lab/inner", '{"hidden": 16}'] in lines


# Built


def build(registry: Registry, *overrides: str, text: str = RECIPE) -> torch.nn.Module:
    recipe = read(text, registry, "evaluation.splits=[]", *overrides)
    return assemble(recipe, registry).reasoner.agent


def test_the_outer_part_builds_the_inner_one_from_its_settings(registry: Registry):
    agent = build(registry)
    assert agent.agent.config == InnerConfig(hidden=16)
    assert agent.agent.build.text_encoder is not None


def test_the_inner_part_draws_its_weights_from_a_stream_of_its_own(registry: Registry):
    """What the outer part draws does not change it, nor the reverse."""
    first, second = build(registry), build(registry, "agent.width=20")
    assert torch.equal(first.agent.weight, second.agent.weight)
    assert torch.equal(first.drawn, build(registry, "agent.agent.hidden=7").drawn)
    assert not torch.equal(first.agent.weight, build(registry, "seed=1").agent.weight)


def test_a_joint_agent_needs_a_case_memory(registry: Registry):
    with pytest.raises(CbrError, match="lab/joint weighs what a case memory offers"):
        build(registry, "agent.use=lab/joint", "agent.agent.use=lab/inner")


# -- random numbers --------------------------------------------------------------------------------------------

DRAWN: list[float] = []


class Drawing:
    """A part that draws when it is made."""

    def __init__(self, config: NoSettings, build: Build) -> None:
        DRAWN.append(float(torch.rand(())))

    def begin(self, folder, recipe, *, after) -> None: ...
    def write(self, row) -> None: ...
    def finish(self, results) -> None: ...
    def close(self) -> None: ...


@pytest.mark.parametrize(("path", "stream"), [("", "recorder"), ("agent.agent", "agent.agent")])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_part_draws_its_weights_from_a_stream_named_after_its_place(path, stream, seed):
    """Whatever was drawn before, and nobody else's numbers change."""
    registrar = Registrar("recorder", "lab")
    registrar.add("drawing", factory=f"{__name__}:Drawing")
    registry = Registry()
    registry.extend(registrar.components)
    before = torch.random.get_rng_state()
    _part(registry, "recorder", Part(use="lab/drawing", settings=NoSettings()), Build(seed=seed), path)
    assert torch.equal(torch.random.get_rng_state(), before)
    alone = torch.Generator().manual_seed(derive_seed(seed, f"init:{stream}"))
    assert DRAWN[-1] == float(torch.rand((), generator=alone))
