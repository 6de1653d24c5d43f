"""Which parts a recipe has that it does not name: defaults, what others bring, recorders; sections of plugins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from plugin_fixtures import Site, run_cbr
from pydantic import Field

from cbr_memory.config import CaseMemoryConfig
from cbr_pretrain.config import PretrainConfig
from cbr_reuse.config import MostRelevantConfig
from cbr_sweep.differences import differences, flat
from cbrcore.config import (
    ComponentConfig,
    MemoryConfig,
    NestedPart,
    NoSettings,
    Part,
    Recipe,
    Settings,
    TrainingConfig,
)
from cbrcore.errors import PluginError, RecipeError
from cbrcore.interfaces import Fault, Trial
from cbrcore.plugins import load_plugins
from cbrcore.recipe import dump_recipe, plain_recipe, read_recipe_text
from cbrcore.recipe.model import DEFAULTS, PARTS, SECTIONS, SUGGESTED
from cbrcore.registry import CORE_KEYS, KINDS, Registrar, Registry


class KConfig(ComponentConfig):
    k: Annotated[int, Field(ge=1)] = 1
    label: str = "none"


class AcmeMemoryConfig(MemoryConfig):
    decay: Annotated[float, Field(gt=0)] = 0.5


class AroundConfig(ComponentConfig):
    inner: Annotated[Part, NestedPart("memory")]
    spare: Annotated[Part | None, NestedPart("learner")] = None


class WatchSection(Settings):
    """Something that a plugin does with runs."""

    every: Annotated[int, Field(ge=1)] = 10
    label: str = "none"
    seeds: tuple[int, ...] = ()

    def faults(self, trial: Trial) -> Iterator[Fault]:
        for position in range(len(self.seeds)):
            yield from trial({"seed": ("seeds", position)})
        if self.every == 13:
            yield ("every",), "13 is unlucky"


class WrongSection:
    pass


class UnsteadySection(Settings):
    def faults(self, trial: Trial) -> Iterator[Fault]:
        yield (), "is not right"
        raise KeyError("oops")


class StubbornSection(Settings):
    def faults(self, trial: Trial) -> list[Fault]:
        return [((), "is never right")]


PLAIN = """\
schema: 1
name: plain
environment: {use: lab/games}
agent: {use: lab/plain}
run: {episodes: 100}
"""
CASES = (
    PLAIN
    + """\
context_encoder: {use: lab/graph}
quantizer: {use: lab/codes}
memory: {}
"""
)
TENSORBOARD = "cbr_tensorboard/tensorboard"


def offer(kind: str, name: str, config: type = NoSettings, **brings: str) -> list:
    registrar = Registrar(kind, name.partition("/")[0])
    path = f"{config.__module__}:{config.__qualname__}"
    factory = path if kind == "recipe_section" else "nowhere:Nothing"
    registrar.add(name.partition("/")[2], factory=factory, config=path, brings=brings)
    return registrar.components


OFFERED = [
    *offer("environment", "lab/games"),
    *offer("text_encoder", DEFAULTS["text_encoder"], KConfig),
    *offer("context_encoder", "lab/graph"),
    *offer("quantizer", "lab/codes"),
    *offer("memory", DEFAULTS["memory"], CaseMemoryConfig),
    *offer("memory", "lab/fading", AcmeMemoryConfig),
    *offer("memory", "lab/odd", KConfig),
    *offer("memory", "lab/around", AroundConfig),
    *offer("reuse_policy", DEFAULTS["reuse_policy"], MostRelevantConfig),
    *offer("retain_policy", DEFAULTS["retain_policy"], KConfig),
    *offer("agent", "lab/plain", KConfig),
    *offer("agent", "lab/joint", learner="lab/joint"),
    *offer("agent", "lab/rememberer", memory="lab/fading", quantizer="lab/codes", context_encoder="lab/graph"),
    *offer("agent", "lab/lost", learner="lab/nowhere"),
    *offer("agent", "lab/untaught", pretraining="lab/copy", recorder="lab/log"),
    *offer("learner", DEFAULTS["learner"], KConfig),
    *offer("learner", "lab/joint", KConfig),
    *offer("agent", "lab/deep", learner="lab/deep"),
    *offer("learner", "lab/deep", quantizer="lab/codes", memory="lab/fading"),
    *offer("pretraining", DEFAULTS["pretraining"], PretrainConfig),
    *offer("pretraining", "lab/copy", KConfig),
    *offer("recorder", "lab/log", KConfig),
    *offer("recipe_section", "lab/watch", WatchSection),
    *offer("recipe_section", "lab/wrong", WrongSection),
    *offer("recipe_section", "lab/twice", Settings),
    *offer("recipe_section", "zoo/twice", Settings),
    *offer("recipe_section", "lab/stubborn", StubbornSection),
    *offer("recipe_section", "lab/unsteady", UnsteadySection),
]


def registry_of(components: list) -> Registry:
    made = Registry()
    made.extend(components)
    return made


@pytest.fixture(scope="module")
def registry() -> Registry:
    return registry_of(OFFERED)


@pytest.fixture(scope="module")
def recording() -> Registry:
    return registry_of([*OFFERED, *offer("recorder", TENSORBOARD, KConfig)])


def read(text: str, registry: Registry, *overrides: str) -> Recipe:
    return read_recipe_text(text, "r.yaml", overrides=overrides, registry=registry)


def problems(text: str, registry: Registry, *overrides: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read(text, registry, *overrides)
    return list(caught.value.problems)


# The table of defaults


def test_the_defaults_are_of_kinds_that_a_recipe_has_and_are_installed():
    assert {*DEFAULTS, *SUGGESTED} <= {*PARTS, "pretraining", "recorder"} <= set(KINDS)
    found = load_plugins().registry
    for kind, use in (DEFAULTS | SUGGESTED).items():
        assert found.find(kind, use).qualified == use


def test_the_keys_of_the_core_are_the_fields_of_a_recipe():
    fields = [name for name in Recipe.model_fields if name not in ("schema_version", "sections")]
    assert ["schema", *fields] == list(CORE_KEYS)
    assert {*PARTS, *SECTIONS, "recorders"} < set(CORE_KEYS)


def test_a_recipe_has_a_learner_a_text_encoder_and_a_pretraining(registry: Registry):
    recipe = read(PLAIN, registry)
    assert recipe.learner == Part(use="cbr_a2c/a2c", settings=KConfig())
    assert recipe.text_encoder.use == "cbr_text_encoders/transformer"
    assert recipe.training.pretrain == Part(use="cbr_pretrain/contrastive", settings=PretrainConfig())
    assert (recipe.memory, recipe.recorders) == (None, ())


def test_where_a_kind_has_a_default_no_use_line_is_needed(registry: Registry):
    text = CASES.replace("memory: {}", "memory: {threshold: 0.6, capacity: 5}\nretain_policy: {k: 3}\n")
    recipe = read(text + "learner: {k: 2}\ntraining: {pretrain: {episodes: 0}}\n", registry)
    assert recipe.memory == Part(
        use="cbr_memory/case_memory", settings=CaseMemoryConfig(threshold=0.6, capacity=5)
    )
    assert recipe.retain_policy == Part(use="cbr_retain/last_k", settings=KConfig(k=3))
    assert (recipe.learner.settings.k, recipe.training.pretrain.settings.episodes) == (2, 0)


def test_another_component_is_named_as_any_part_is(registry: Registry):
    recipe = read(CASES, registry, "memory={use: fading, decay: 0.1}", "training.pretrain.use=copy")
    assert recipe.memory == Part(use="lab/fading", settings=AcmeMemoryConfig(decay=0.1))
    assert recipe.training.pretrain == Part(use="lab/copy", settings=KConfig())


def test_another_memory_starts_from_its_own_defaults(registry: Registry):
    text = CASES.replace("memory: {}", "memory: {threshold: 0.6}")
    assert read(text, registry, "memory.use=fading").memory.settings.threshold == 0.7
    same = read(text, registry, "memory.use=case_memory").memory
    assert (same.use, same.settings.threshold) == ("cbr_memory/case_memory", 0.6)
    pretrain = PLAIN + "training: {pretrain: {episodes: 3}}"
    assert read(pretrain, registry, "training.pretrain.use=copy").training.pretrain.settings == KConfig()


def test_a_default_holds_within_parts_too(registry: Registry):
    recipe = read(CASES, registry, "agent.use=plain", "retain_policy.k=2", "memory.threshold=0.5")
    assert recipe.retain_policy.settings.k == 2
    found = problems(CASES.replace("memory: {}", "memory: {use: around, inner: {treshold: 1}}"), registry)
    assert found == [
        "r.yaml:8: memory.use: 'test_recipe_parts:AroundConfig' of 'lab/around' is not a "
        "cbrcore.MemoryConfig class"
    ]


def test_no_pretraining_can_be_said(registry: Registry):
    recipe = read(PLAIN + "training: {pretrain: null}", registry)
    assert recipe.training.pretrain is None
    assert read(dump_recipe(recipe), registry) == recipe


def test_settings_made_in_python_have_no_default_parts():
    assert TrainingConfig().pretrain is None


@pytest.mark.parametrize("kind", ["text_encoder", "learner", "memory", "retain_policy"])
def test_a_default_that_is_not_installed_is_told(kind: str):
    smaller = registry_of([component for component in OFFERED if component.qualified != DEFAULTS[kind]])
    (problem,) = [problem for problem in problems(CASES, smaller) if "retain" not in problem or "retain" in kind]
    assert f"{kind}.use: unknown {kind} {DEFAULTS[kind]!r}" in problem


def test_without_the_default_pretraining_there_is_none():
    smaller = registry_of([component for component in OFFERED if component.kind != "pretraining"])
    recipe = read(PLAIN, smaller)
    assert recipe.training.pretrain is None
    assert read(dump_recipe(recipe), smaller) == recipe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("memory: {use: odd}", "memory.use: 'test_recipe_parts:KConfig' of 'lab/odd' is not a "
                               "cbrcore.MemoryConfig class"),
        ("memory: {capacity: 0}", "memory.capacity: must be at least 1, got 0"),
        ("memory: {capcity: 1}", "memory.capcity: unknown key. Did you mean memory.capacity?"),
        ("memory: {use: fading, capacity: 1}", "memory.capacity: unknown key. Choose one of: threshold, refresh, "
                                               "cases, decay."),
        ("memory: 3", "memory: must be a section; write 'memory: {use: PLUGIN/NAME}'"),
        ("memory: lab/fading", "memory: must be a section; write 'memory: {use: lab/fading}'"),
        ("memory: {use: 3}", "memory: does not say which component; add 'use: PLUGIN/NAME', one of: "
                             "cbr_memory/case_memory, lab/around, lab/fading, lab/odd"),
        ("memory: {}\nlearner: {use: a2d}", "learner.use: unknown learner 'a2d'. Did you mean 'cbr_a2c/a2c'?"),
        ("memory: {}\nlearner: {j: 1}", "learner.j: unknown key. Choose one of: k, label."),
        ("memory: {}\ntraining: {pretrain: {use: copy, episodes: 1}}",
         "training.pretrain.episodes: unknown key. Did you mean run.episodes?"),
        ("memory: {}\ntraining: {pretrain: 3}",
         "training.pretrain: must be a section; write 'pretrain: {use: PLUGIN/NAME}'"),
        ("memory: {}\ntraining: {pretrain: {use: copi}}",
         "training.pretrain.use: unknown pretraining 'copi'. Did you mean 'lab/copy'?"),
        ("memory: {}\nlearner:",
         "learner: is empty; write 'learner: {}' for its defaults, or remove the line"),
        ("memory: {}\nsections: {}", "sections: unknown key. Did you mean memory.eviction?"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_part_is_told_with_its_line(registry: Registry, text: str, said: str):
    (problem,) = problems(CASES.replace("memory: {}", text), registry)
    assert problem.startswith(f"r.yaml:{8 + text.count(chr(10))}: {said}")


def test_wrong_defaults_of_an_author_are_told():
    (problem,) = problems(
        PLAIN, registry_of([*OFFERED, *offer("agent", "zoo/wrong", WrongDefault)]), "agent.use=wrong"
    )
    assert problem == "--set agent.use=wrong: agent.k: must be at least 1, got 0"


class WrongDefault(ComponentConfig):
    k: Annotated[int, Field(ge=1)] = 0


# What a part brings


def test_a_part_brings_others_unless_the_recipe_names_them(registry: Registry):
    joint = PLAIN.replace("lab/plain", "joint")
    assert read(joint, registry).learner.use == "lab/joint"
    assert read(joint + "learner: {use: a2c}", registry).learner.use == "cbr_a2c/a2c"
    assert read(joint + "learner: {k: 3}", registry).learner == Part(use="lab/joint", settings=KConfig(k=3))
    assert read(PLAIN, registry, "agent.use=joint").learner.use == "lab/joint"
    assert read(joint, registry, "agent.use=plain").learner.use == "cbr_a2c/a2c"


def test_parts_are_brought_that_the_recipe_does_not_have(registry: Registry):
    recipe = read(PLAIN.replace("lab/plain", "lab/rememberer"), registry)
    assert recipe.uses_cases
    assert [part.use for part in (recipe.memory, recipe.quantizer, recipe.context_encoder)] == [
        "lab/fading", "lab/codes", "lab/graph",
    ]  # fmt: skip
    assert recipe.retain_policy.use == "cbr_retain/last_k"
    assert read(dump_recipe(recipe), registry) == recipe


def test_what_is_brought_may_bring_more(registry: Registry):
    recipe = read(PLAIN, registry, "agent.use=deep", "context_encoder.use=graph")
    assert [part.use for part in (recipe.learner, recipe.quantizer, recipe.memory, recipe.retain_policy)] == [
        "lab/deep", "lab/codes", "lab/fading", "cbr_retain/last_k",
    ]  # fmt: skip


def test_pretraining_and_recorder_can_be_brought(registry: Registry):
    recipe = read(PLAIN, registry, "agent.use=untaught")
    assert recipe.training.pretrain.use == "lab/copy"
    assert [part.use for part in recipe.recorders] == ["lab/log"]
    assert read(PLAIN, registry, "agent.use=untaught", "recorders=[]").recorders == ()


def test_a_brought_part_that_is_not_installed_is_told_where_it_was_brought(registry: Registry):
    assert problems(PLAIN.replace("lab/plain", "lab/lost"), registry) == [
        "r.yaml:4: learner.use: unknown learner 'lab/nowhere'. Did you mean 'lab/deep'?"
    ]


# Recorders


def test_the_default_recorder_is_there_if_it_is_installed(registry: Registry, recording: Registry):
    assert read(PLAIN, registry).recorders == ()
    assert read(PLAIN, recording).recorders == (Part(use=TENSORBOARD, settings=KConfig()),)
    assert read(PLAIN + "recorders: []", recording).recorders == ()
    assert read(PLAIN + "recorders: null", recording) == read(PLAIN, recording)


def test_recorders_are_names_or_sections(recording: Registry):
    recipe = read(PLAIN + "recorders: [log, {use: lab/log, k: 3}, {k: 2}]", recording)
    assert recipe.recorders == (
        Part(use="lab/log", settings=KConfig()),
        Part(use="lab/log", settings=KConfig(k=3)),
        Part(use=TENSORBOARD, settings=KConfig(k=2)),
    )
    assert plain_recipe(recipe)["recorders"][1] == {"use": "lab/log", "k": 3, "label": "none"}
    assert read(dump_recipe(recipe), recording) == recipe


@pytest.mark.parametrize(
    ("recorders", "said"),
    [
        ("[lag]", "recorders[0].use: unknown recorder 'lag'. Did you mean 'lab/log'?"),
        ("[log, {use: log, k: 0}]", "recorders[1].k: must be at least 1, got 0"),
        ("[log, {use: log, lable: x}]", "recorders[1].lable: unknown key. Did you mean recorders.1.label?"),
        ("[3]", "recorders[0]: must be a section; write 'recorders: {use: PLUGIN/NAME}'"),
        ("lab/log", "recorders: must be a list, got the text 'lab/log'. Write [lab/log]."),
        ("[{}]", "recorders[0].use: unknown recorder 'cbr_tensorboard/tensorboard'. Choose one of: lab/log."),
    ],
)
def test_a_wrong_recorder_is_told(registry: Registry, recorders: str, said: str):
    assert problems(PLAIN + f"recorders: {recorders}", registry) == [f"r.yaml:6: {said}"]


def test_text_settings_of_a_recorder_keep_their_text(registry: Registry):
    assert read(PLAIN + "recorders: [{use: log, label: 1.10}]", registry).recorders[0].settings.label == "1.10"


# Sections of plugins


def test_a_section_of_a_plugin_is_checked_as_the_cores_own(registry: Registry):
    recipe = read(PLAIN + "watch: {every: 3, label: 1.10}", registry, "watch.seeds=[1, 2]")
    assert recipe.sections == {"watch": WatchSection(every=3, label="1.10", seeds=(1, 2))}
    assert plain_recipe(recipe)["watch"] == {"every": 3, "label": "1.10", "seeds": [1, 2]}
    assert read(dump_recipe(recipe), registry) == recipe
    assert read(PLAIN, registry).sections == read(PLAIN + "watch: null", registry).sections == {}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("watch: {every: 0}", "watch.every: must be at least 1, got 0"),
        ("watch: {evry: 1}", "watch.evry: unknown key. Did you mean watch.every?"),
        ("watch: {gamma: 1}", "watch.gamma: unknown key. Did you mean training.gamma?"),
        ("watch: 3", "watch: must be a section of 'key: value' lines; write {} for its defaults"),
        ("watch:", "watch: is empty; write 'watch: {}' for its defaults, or remove the line"),
        ("watch: {every: 13}", "watch.every: 13 is unlucky"),
        (
            "watch: {seeds: [1, -2]}",
            "watch.seeds[1]: must be at least 0 and less than 9223372036854775808, got -2",
        ),
        ("wacht: {}", "wacht: unknown key. Did you mean watch?"),
        ("every: 3", "every: unknown key. Choose one of: "),
        ("stubborn: {}", "stubborn: is never right"),
        ("wrong: {}", "wrong: 'test_recipe_parts:WrongSection' of 'lab/wrong' is not a pydantic model class"),
        ("twice: {}", "twice: is offered by lab and by zoo; uninstall one of them"),
    ],
)
def test_a_wrong_section_of_a_plugin_is_told(registry: Registry, section: str, said: str):
    (problem,) = problems(PLAIN + section, registry)
    assert problem.startswith(f"r.yaml:6: {said}")


def test_a_section_whose_check_fails_is_told(registry: Registry):
    first, second = problems(PLAIN + "unsteady: {}", registry)
    assert first.endswith("unsteady: is not right")
    assert second.endswith("unsteady: its own check failed: KeyError: 'oops'")


def test_a_section_without_its_plugin_is_told_what_may_be_missing(registry: Registry):
    (problem,) = problems(PLAIN + "sweep: {seed: [0, 1]}", registry)
    assert problem.startswith("r.yaml:6: sweep: unknown key. ")
    assert problem.endswith(" If a plugin offers it: is that plugin installed?")


@pytest.mark.parametrize("name", CORE_KEYS)
def test_the_cores_own_keys_are_refused_as_names_of_sections(name: str):
    with pytest.raises(PluginError, match=rf"the recipe section '{name}' is the core's own \(cbrcore\)"):
        offer("recipe_section", f"acme/{name}")


SECTION = """\
from pydantic import Field
from cbrcore import Settings, hookimpl


class Notes(Settings):
    words: int = Field(default=3, ge=1)


@hookimpl
def register_recipe_sections(registry):
    registry.add("notes", factory=f"{__name__}:Notes", summary="what to note")
"""


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    path = tmp_path / "noted.yaml"
    path.write_text("schema: 1\nenvironment: {use: cbr_twc/twc}\nagent: {use: cbr_random/random}\n"
                    "run: {episodes: 1}\nnotes: {words: 0}\n")  # fmt: skip
    return path


def test_the_section_of_a_loose_file(tmp_path: Path, noted: Path):
    loose = tmp_path / "noting.py"
    loose.write_text(SECTION)
    assert f"{noted}:5: notes: unknown key." in run_cbr("check", noted).stderr
    answer = run_cbr("check", noted, "--plugin", loose)
    assert f"{noted}:5: notes.words: must be at least 1, got 0" in answer.stderr
    answer = run_cbr("check", noted, "--plugin", loose, "--set", "notes.words=5")
    assert ["notes", '{"words": 5}'] in [line.split(maxsplit=1) for line in answer.stdout.splitlines()]


def test_the_section_of_an_installed_package(site: Site, noted: Path):
    site.plugin("notes_cbr", SECTION)
    answer = run_cbr("check", noted)
    assert f"{noted}:5: notes.words: must be at least 1, got 0" in answer.stderr
    shown = run_cbr("show", "notes").stdout
    assert shown.startswith("notes (a section of a recipe)\n")
    assert "words" in shown
    schema = json.loads(run_cbr("schema").stdout)
    assert schema["properties"]["notes"]["anyOf"][0]["properties"]["words"]["minimum"] == 1


def test_a_plugin_that_claims_a_key_of_the_core_is_refused_and_both_are_named(site: Site):
    site.plugin("greedy", SECTION.replace('"notes"', '"training"'))
    (info,) = [info for info in load_plugins().plugins if info.name == "greedy"]
    assert info.status == "refused"
    assert "the recipe section 'training' is the core's own (cbrcore)" in str(info)
    assert "greedy" in str(info)


# Recipes of runs that were made before


BEFORE = """\
schema: 1
name: before
seed: 3
directory: /tmp
environment:
  use: lab/games
text_encoder:
  use: cbr_text_encoders/transformer
  k: 1
  label: none
context_encoder:
  use: lab/graph
quantizer:
  use: lab/codes
retain_policy:
  use: cbr_retain/last_k
  k: 1
  label: none
agent:
  use: lab/plain
  k: 1
  label: none
memory:
  threshold: 0.7
  capacity: null
  eviction: oldest
  neighbours: 1
  outcome: rewarded
  refresh: false
  cases: null
  retry_failed: true
training:
  gamma: 0.9
  pretrain:
    episodes: 20
    epochs: 20
run:
  episodes: 100
  env_steps: null
"""


def test_a_stored_recipe_of_before_is_the_same_recipe(registry: Registry):
    now = read(CASES, registry, "name=before", "seed=3", "directory=/tmp")
    assert read(BEFORE, registry) == now
    assert (
        read(BEFORE.replace("lab/plain\n  k: 1\n  label: none", "lab/joint"), registry).learner.use == "lab/joint"
    )


# How two recipes differ


def test_recipes_are_compared_setting_by_setting(registry: Registry):
    one = plain_recipe(read(CASES, registry))
    other = plain_recipe(read(CASES, registry, "training.gamma=0.5", "memory.use=fading", "watch.every=3"))
    assert [str(found) for found in differences(one, other)] == [
        "memory.use is 'cbr_memory/case_memory' there, 'lab/fading' now",
        "training.gamma is 0.9 there, 0.5 now",
        "watch.every is not set there, 3 now",
        "watch.label is not set there, 'none' now",
        "watch.seeds is not set there, [] now",
    ]
    assert differences(one, one) == differences(flat(one), one) == []
    assert [found.path for found in differences(other, one)][:2] == ["memory.use", "training.gamma"]


def test_flat_data_keeps_empty_sections_and_lists():
    data = {"a": {"b": {"c": 1}, "d": {}}, "e": [1, {"f": 2}], "g": None}
    assert flat(data) == {"a.b.c": 1, "a.d": {}, "e": [1, {"f": 2}], "g": None}
    assert flat(flat(data)) == flat(data)


def test_of_another_part_only_its_use_line_is_told():
    one = {"agent": {"use": "a/x", "inner": {"use": "a/y", "n": 1}}, "users": 1}
    inner = differences(one, {"agent": {"use": "a/x", "inner": {"use": "a/z", "m": 1}}, "users": 2})
    assert [found.path for found in inner] == ["agent.inner.use", "users"]
    outer = differences(one, {"agent": {"use": "a/w"}, "users": 1})
    assert [found.path for found in outer] == ["agent.use", "agent.inner.use"]


@pytest.mark.parametrize(
    ("memory", "reuse", "threshold", "retry"),
    [
        ("{retry_failed: false, threshold: 0.6}", None, 0.6, False),
        ("{retry_failed: false}", "{}", 0.7, False),
        ("{retry_failed: true}", "{}", 0.7, True),
        ("{}", "{retry_failed: false}", 0.7, False),
        ("{}", None, 0.7, True),
    ],
)
def test_a_setting_that_stood_in_the_memory_is_taken_to_where_it_belongs(
    registry: Registry, memory: str, reuse: str | None, threshold: float, retry: bool
):
    text = CASES.replace("memory: {}", f"memory: {memory}") + (f"reuse_policy: {reuse}\n" if reuse else "")
    recipe = read(text, registry)
    assert (recipe.memory.settings.threshold, recipe.reuse_policy.settings.retry_failed) == (threshold, retry)
    assert read(dump_recipe(recipe), registry) == recipe


def test_a_setting_that_stands_in_both_places_is_a_mistake_in_the_old_one(registry: Registry):
    text = CASES.replace("memory: {}", "memory: {retry_failed: true}") + "reuse_policy: {retry_failed: false}\n"
    (problem,) = problems(text, registry)
    assert problem.startswith(
        "r.yaml:8: memory.retry_failed: unknown key. Did you mean reuse_policy.retry_failed?"
    )


@pytest.mark.parametrize(("first", "second"), [("lab/joint", "lab/deep"), ("lab/deep", "lab/joint")])
def test_of_two_parts_that_bring_one_kind_the_first_of_the_recipe_counts(first: str, second: str):
    more = [*offer("environment", "zoo/one", learner=first), *offer("agent", "zoo/two", learner=second)]
    recipe = read(PLAIN, registry_of([*OFFERED, *more]), "environment.use=one", "agent.use=two", *PLAYS)
    assert recipe.learner.use == first


EITHER = "needs either 'episodes' or 'env_steps', and not both; as in 'episodes: 100'"
PLAYS = ("context_encoder.use=graph", "quantizer.use=codes", "memory={}")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("run: {}", f"5: run: {EITHER}"),
        ("run: {num_envs: 2}", f"5: run: {EITHER}"),
        ("run: {episodes: 1, env_steps: 1}", f"5: run: {EITHER}"),
        ("run: {episodes: x}", "5: run.episodes: must be a whole number, got the text 'x'"),
        ("run: {episodes: 1, env_steps: x}", "5: run.env_steps: must be a whole number, got the text 'x'"),
        ("run: null", "1: does not say how long to run; add 'run: {episodes: 100}'"),
        ("run: 3", "5: run: must be a section of 'key: value' lines; write {} for its defaults"),
    ],
)  # fmt: skip
def test_a_recipe_says_once_how_long_to_run(registry: Registry, run: str, said: str):
    found = problems(PLAIN.replace("run: {episodes: 100}", run), registry)
    assert found == [f"r.yaml:{said}"]


@pytest.mark.parametrize("run", ["{episodes: 0}", "{env_steps: 1}", "{episodes: 3, env_steps: null}"])
def test_one_way_of_saying_how_long_is_enough(registry: Registry, run: str):
    assert read(PLAIN.replace("{episodes: 100}", run), registry).run.num_envs == 1


@pytest.mark.parametrize(
    "overrides",
    [
        ("agent.k=2", "agent.use=plain"),
        ("agent.use=plain", "agent.k=2"),
        ("agent={use: joint}", "agent.k=2", "agent.use=plain"),
        ("agent.k=2", "agent={use: plain}"),
        ("agent.use=joint", "agent.use=plain", "agent.k=2"),
    ],
)
def test_sections_are_set_before_what_is_in_them_and_use_before_the_rest(registry: Registry, overrides):
    assert read(PLAIN, registry, *overrides).agent == Part(use="lab/plain", settings=KConfig(k=2))
