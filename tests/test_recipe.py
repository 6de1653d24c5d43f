"""Recipes: what is accepted, everything that is refused, and in which words."""

from __future__ import annotations

import contextlib
import enum
import json
import os
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, model_validator

from cbr_memory.config import CaseMemoryConfig
from cbr_pretrain.config import PretrainConfig
from cbr_reuse.config import MostRelevantConfig
from cbr_sweep.section import SweepSection
from cbrcore.config import ComponentConfig, NoSettings, Part, Recipe, Settings
from cbrcore.errors import CbrError, RecipeError, printable
from cbrcore.recipe import MAX_BYTES, _read_file, dump_recipe, load_recipe, read_recipe_text, shipped
from cbrcore.registry import CORE_KEYS, Registrar, Registry

# Sample components: every kind of setting that a real one may have


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class GamesConfig(ComponentConfig):
    level: Literal["easy", "medium", "hard"] = "easy"
    games: tuple[str, ...] = ()
    folder: Path | None = None
    limits: dict[str, int] = Field(default={})
    max_steps: Annotated[int, Field(ge=1, le=1000)] = 50


class Schedule(Settings):
    start: Annotated[float, Field(gt=0)] = 1.0
    steps: int | None = None


class LearnerConfig(ComponentConfig):
    hidden: Annotated[int, Field(ge=1)] = 64
    rate: float = 1e-3
    use_bias: bool = True
    label: str = "none"
    words: list[str] = Field(default=[])
    colour: Colour = Colour.RED
    schedule: Schedule = Schedule()
    either: int | str = 0

    @model_validator(mode="after")
    def _bias(self) -> LearnerConfig:
        if self.hidden == 13:
            raise ValueError("hidden may not be 13 with this schedule")
        if self.hidden == 14:
            raise CbrError("14 is refused by the component itself", hint="use 15")
        return self


class GuesserConfig(ComponentConfig):
    hidden: int = 8
    guesses: int = 3


class KConfig(ComponentConfig):
    k: Annotated[int, Field(ge=1)] = 1


class NotSettings:
    pass


OFFERED = {
    "environment": {"lab/games": GamesConfig, "other/games": GamesConfig},
    "text_encoder": {"cbr_text_encoders/transformer": KConfig, "lab/tiny": KConfig},
    "context_encoder": {"lab/graph": KConfig},
    "quantizer": {"lab/codes": KConfig},
    "reuse_policy": {"cbr_reuse/most_relevant": MostRelevantConfig},
    "retain_policy": {"cbr_retain/last_k": KConfig, "lab/all": KConfig},
    "agent": {"lab/learner": LearnerConfig, "lab/guesser": GuesserConfig, "lab/odd": NotSettings},
    "memory": {"cbr_memory/case_memory": CaseMemoryConfig, "lab/odd": KConfig},
    "learner": {"cbr_a2c/a2c": NoSettings, "lab/slow": KConfig},
    "pretraining": {"cbr_pretrain/contrastive": PretrainConfig, "lab/copy": KConfig},
    "recorder": {"lab/log": KConfig},
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    made = Registry()
    for kind, offered in OFFERED.items():
        for qualified, config in offered.items():
            plugin, name = qualified.split("/")
            registrar = Registrar(kind, plugin)
            registrar.add(name, factory="nowhere:Nothing", config=f"{config.__module__}:{config.__name__}")
            made.extend(registrar.components)
    made.extend(section("cbr_sweep", "sweep", SweepSection).components)
    return made


def section(plugin: str, name: str, model: type) -> Registrar:
    registrar = Registrar("recipe_section", plugin)
    registrar.add(name, factory=f"{model.__module__}:{model.__name__}")
    return registrar


PLAIN = """\
schema: 1
name: plain
environment: {use: lab/games}
agent: {use: lab/learner}
run: {episodes: 100}
"""
CASES = """\
schema: 1
environment: {use: lab/games}
context_encoder: {use: lab/graph}
quantizer: {use: lab/codes}
memory: {}
agent: {use: lab/learner}
run: {env_steps: 1e5}
"""


def read(text: str, registry: Registry, *overrides: str) -> Recipe:
    return read_recipe_text(text, "r.yaml", overrides=overrides, registry=registry)


def problems(text: str, registry: Registry, *overrides: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read(text, registry, *overrides)
    assert caught.value.exit_code == 2
    return list(caught.value.problems)


def with_agent(settings: str) -> str:
    """The plain recipe with agent settings; the first of them stands in line 5."""
    return PLAIN.replace("{use: lab/learner}", "\n  use: lab/learner\n  " + settings)


# What is accepted


def test_a_baseline_recipe(registry: Registry):
    recipe = read(PLAIN, registry)
    assert (recipe.schema_version, recipe.name, recipe.seed) == (1, "plain", 0)
    assert recipe.agent.use == "lab/learner"
    assert recipe.agent.settings == LearnerConfig()
    assert recipe.text_encoder.use == "cbr_text_encoders/transformer"
    assert (recipe.run.episodes, recipe.run.env_steps) == (100, None)
    assert not recipe.uses_cases
    assert (
        recipe.context_encoder
        is recipe.quantizer
        is recipe.retain_policy
        is recipe.memory
        is recipe.reuse_policy
        is None
    )
    assert recipe.sections == {}


def test_a_memory_makes_it_a_case_based_recipe(registry: Registry):
    recipe = read(CASES, registry)
    assert recipe.uses_cases
    assert recipe.memory == Part(use="cbr_memory/case_memory", settings=CaseMemoryConfig())
    assert recipe.retain_policy is not None
    assert recipe.retain_policy.use == "cbr_retain/last_k"
    assert recipe.run.env_steps == 100_000
    assert recipe.name == "r"


def test_bare_names_become_qualified(registry: Registry):
    assert read(PLAIN.replace("lab/learner", "learner"), registry).agent.use == "lab/learner"


def test_settings_of_every_kind_are_read(registry: Registry):
    recipe = read(
        with_agent(
            "rate: 1e-4\n  use_bias: false\n  label: no\n  words: [yes, no, look]\n  colour: blue\n"
            "  schedule: {start: 1, steps: 1e3}\n  either: x"
        ),
        registry,
    )
    assert recipe.agent.settings == LearnerConfig(
        rate=1e-4, use_bias=False, label="no", words=["yes", "no", "look"], colour=Colour.BLUE,
        schedule=Schedule(start=1.0, steps=1000), either="x",
    )  # fmt: skip


@pytest.mark.parametrize(
    "typed",
    ["1.10", "2024-01-01", "9:05", "true", "False", "007", "1e-4", ".nan", "1_000", "no", "12345678901234567890"]
)  # fmt: skip
def test_text_settings_keep_their_text(registry: Registry, typed: str):
    assert read(with_agent(f"label: {typed}"), registry).agent.settings.label == typed
    assert read(with_agent(f"words: [a, {typed}]"), registry).agent.settings.words == ["a", typed]
    assert read(PLAIN, registry, f"agent.label={typed}").agent.settings.label == typed


@pytest.mark.parametrize("typed", ["null", "Null", "NULL", "~", ""])
def test_nothing_is_no_text(registry: Registry, typed: str):
    for settings_text in (f"label: {typed}", f"words: [a, {typed or '~'}]"):
        with pytest.raises(RecipeError, match=r"agent\.(label|words\[1\]): must be text, got nothing"):
            read(with_agent(settings_text.strip()), registry)


def test_of_several_slips_of_use_the_first_is_told(registry: Registry):
    for first, second in (("usee", "us"), ("us", "usee")):
        found = problems(PLAIN, registry, f"agent={{k: 1, {first}: lab/learner, {second}: lab/learner}}")
        assert [problem.partition("}: ")[2] for problem in found] == [
            f"agent.{first}: unknown key. Did you mean 'use'?"
        ]


@pytest.mark.parametrize("slip", ["usee", "uses", "us", "Use", "USE", "uuse"])
def test_a_slip_of_use_is_told_in_every_part(registry: Registry, slip: str):
    for part in ("environment", "text_encoder", "agent", "learner", "memory", "quantizer", "training.pretrain"):
        text = CASES if part in ("memory", "quantizer") else PLAIN
        with pytest.raises(RecipeError) as caught:
            read(text, registry, f"{part}.{slip}=lab/x")
        assert any(
            f"{part}.{slip}: unknown key. Did you mean {part}.use?" in each for each in caught.value.problems
        )
    with pytest.raises(RecipeError, match=rf"agent\.{slip}: unknown key\. Did you mean 'use'\?"):
        read(PLAIN, registry, f"agent={{{slip}: lab/learner}}")


SOMEWHERE = {"memory.cases": "cases.jsonl", "training.pretrain.retriever": "retriever.safetensors"}


@pytest.mark.parametrize("setting", SOMEWHERE)
def test_what_a_run_needs_is_looked_for_where_it_starts(
    registry: Registry, tmp_path: Path, monkeypatch, setting: str
):
    monkeypatch.delenv("NOPE", raising=False)
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "empty").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / SOMEWHERE[setting]).write_text("")
    path = tmp_path / "r.yaml"
    path.write_text(CASES)
    for value, said in {
        "missing": f"{tmp_path / 'missing'}: no such file or folder",
        "$NOPE/x": "holds $NOPE, which is not set",
        "link/below": f"{tmp_path / 'link'}: a link to nowhere (-> gone)",
        "empty": f"{tmp_path / 'empty'} holds no {SOMEWHERE[setting]}",
    }.items():
        with pytest.raises(RecipeError) as caught:
            load_recipe(path, overrides=[f"{setting}={value}"], registry=registry, starts=True)
        assert f"{setting}: " in str(caught.value)
        assert said in str(caught.value)
        load_recipe(path, overrides=[f"{setting}={value}"], registry=registry)  # a run that began may have lost it
    load_recipe(path, overrides=[f"{setting}=here"], registry=registry, starts=True)


def test_words_that_other_yaml_takes_for_booleans_are_words_and_keys(registry: Registry):
    recipe = read(PLAIN.replace("lab/games}", "lab/games, games: [no, on], limits: {on: 3, no: 4}}"), registry)
    assert recipe.environment.settings.games == ("no", "on")
    assert recipe.environment.settings.limits == {"on": 3, "no": 4}


def test_merge_keys_work_across_sections(registry: Registry):
    text = CASES.replace("{use: lab/graph}", "&part {use: lab/graph, k: 3}")
    recipe = read(text.replace("quantizer: {use: lab/codes}", "quantizer: {<<: *part, use: lab/codes}"), registry)
    assert recipe.quantizer is not None
    assert (recipe.quantizer.use, recipe.quantizer.settings.k) == ("lab/codes", 3)


def test_null_is_the_same_as_leaving_a_section_out(registry: Registry):
    assert read(PLAIN + "memory: null\nsweep: ~\ntraining: null\n", registry) == read(PLAIN, registry)
    baseline = read(CASES, registry, "memory=null", "context_encoder=null", "quantizer=null")
    assert not baseline.uses_cases


def test_whole_numbers_may_not_have_a_fraction_but_an_exponent(registry: Registry):
    assert read(with_agent("hidden: 1e2"), registry).agent.settings.hidden == 100
    assert problems(with_agent("hidden: 1.5"), registry) == [
        "r.yaml:6: agent.hidden: must be a whole number, got 1.5"
    ]


# Everything that is refused, in which words

AGENTS = "lab/guesser, lab/learner, lab/odd"
ADD_USE = f"add 'use: PLUGIN/NAME', one of: {AGENTS}"
EITHER = "needs either 'episodes' or 'env_steps', and not both; as in 'episodes: 100'"
A_SECTION = "must be a section of 'key: value' lines; write {} for its defaults"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("hidden: '64'", "agent.hidden: must be a whole number, got the text '64'. Leave the quotes and leading "
                         "zeros out."),
        ("hidden: true", "agent.hidden: must be a whole number, got true"),
        ("hidden: 0", "agent.hidden: must be at least 1, got 0"),
        ("hidden: null", "agent.hidden: must be a whole number, got nothing"),
        ("hidden: 9:05", "agent.hidden: must be a whole number, got the text '9:05'"),
        ("hidden: 13", "agent: hidden may not be 13 with this schedule"),
        ("hidden: 14", "agent: 14 is refused by the component itself. use 15"),
        ("rate: .nan", "agent.rate: must be a finite number, got nan"),
        ("rate: 1e999", "agent.rate: must be a finite number, got inf"),
        ("rate: 1,5", "agent.rate: must be a number, got the text '1,5'"),
        ("rate: [1]", "agent.rate: must be a number, got a list of 1"),
        ("use_bias: yes", "agent.use_bias: must be true or false, got the text 'yes'. Write true."),
        ("use_bias: off", "agent.use_bias: must be true or false, got the text 'off'. Write false."),
        ("use_bias: 1", "agent.use_bias: must be true or false, got 1"),
        ("label: [a]", "agent.label: must be text, got a list of 1"),
        ("label:", "agent.label: must be text, got nothing"),
        ("words: look", "agent.words: must be a list, got the text 'look'. Write [look]."),
        ("words: {a: b}", "agent.words: must be a list, got a section"),
        ("colour: rde", "agent.colour: must be 'red' or 'blue', got the text 'rde'. Did you mean 'red'?"),
        ("schedule: 3", "agent.schedule: must be a section of 'key: value' lines, got 3"),
        ("schedule: {start: 0}", "agent.schedule.start: must be more than 0, got 0"),
        ("schedule: {strat: 1}", "agent.schedule.strat: unknown key. Did you mean agent.schedule.start?"),
        ("hiden: 3", "agent.hiden: unknown key. Did you mean agent.hidden?"),
        ("use-bias: true", "agent.use-bias: unknown key. Did you mean agent.use_bias?"),
        ("threshold: 0.5", "agent.threshold: unknown key. Did you mean memory.threshold?"),
        ("tau: 0.5", "agent.tau: unknown key. Did you mean memory.threshold?"),
        ("xyzzy: 1", "agent.xyzzy: unknown key. Choose one of: hidden, rate, use_bias, label, words, colour, "
                     "schedule, either."),
        ("max_steps: 3", "agent.max_steps: unknown key. Did you mean environment.max_steps?"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_explained_with_its_line(registry: Registry, settings: str, said: str):
    line = 4 if said.startswith("agent: ") else 6
    assert problems(with_agent(settings), registry) == [f"r.yaml:{line}: {said}"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema: 1\n", "", "1: has no schema number; add the line 'schema: 1'"),
        ("schema: 1", "schema: 2", "1: schema: this cbr reads schema 1, not 2; use the cbr that wrote it"),
        ("schema: 1", "schema: '1'", "1: schema: this cbr reads schema 1, not '1'; use the cbr that wrote it"),
        ("schema: 1", "schema: true", "1: schema: this cbr reads schema 1, not True; use the cbr that wrote it"),
        ("name: plain", "seed: -1", "2: seed: must be at least 0 and less than 9223372036854775808, got -1"),
        ("name: plain", f"seed: {2**63}", f"2: seed: must be at least 0 and less than {2**63}, got {2**63}"),
        ("name: plain", "name: [a]", "2: name: must be text, got a list of 1"),
        ("name: plain", "lr: 3", "2: lr: unknown key. Did you mean training.agent_learning_rate?"),
        ("name: plain", "episodes: 3", "2: episodes: unknown key. Did you mean run.episodes or "
                                       "training.pretrain.episodes?"),
        ("name: plain", "gama: 3", "2: gama: unknown key. Did you mean training.gamma?"),
        ("name: plain", "hidden: 3", "2: hidden: unknown key. Did you mean agent.hidden?"),
        ("name: plain", "trainig: {}", "2: trainig: unknown key. Did you mean training?"),
        ("name: plain", "training: {gama: 1}", "2: training.gama: unknown key. Did you mean training.gamma?"),
        ("name: plain", "training: 3", "2: training: " + A_SECTION),
        ("name: plain", "memory:", "2: memory: is empty; write 'memory: {}' for its defaults, or remove the line"),
        ("name: plain", "evaluation: {splits: in}",
         "2: evaluation.splits: must be a list, got the text 'in'. Write [in]."),
        ("name: plain", "training: {pretrain: {epochs: 0}}",
         "2: training.pretrain.epochs: must be at least 1, got 0"),
        ("name: plain", "training: {gamma: 2}", "2: training.gamma: must be at least 0 and at most 1, got 2"),
        ("agent: {use: lab/learner}\n", "",
         "1: agent: is required; add 'agent: {use: PLUGIN/NAME}', one of: " + AGENTS),
        ("agent: {use: lab/learner}", "agent:", "4: agent: does not say which component; " + ADD_USE),
        ("{use: lab/learner}", "{hidden: 3}", "4: agent: does not say which component; " + ADD_USE),
        ("{use: lab/learner}", "{use: 3}", "4: agent: does not say which component; " + ADD_USE),
        ("{use: lab/learner}", "lab/learner", "4: agent: must be a section; write 'agent: {use: lab/learner}'"),
        ("{use: lab/learner}", "[1]", "4: agent: must be a section; write 'agent: {use: PLUGIN/NAME}'"),
        ("lab/learner", "lab/lerner", "4: agent.use: unknown agent 'lab/lerner'. Did you mean 'lab/learner'?"),
        ("lab/learner", "lab/codes", "4: agent.use: 'lab/codes' belongs under 'quantizer', not under 'agent'"),
        ("lab/learner", "os.system",
         "4: agent.use: 'os.system' looks like an import path; `use` takes registered names only"),
        ("lab/games", "games", "3: environment.use: environment 'games' is offered by several plugins. "
                               "Write one of: lab/games, other/games"),
        ("lab/learner", "lab/odd", "4: agent.use: 'test_recipe:NotSettings' of 'lab/odd' is not a "
                                   "cbrcore.ComponentConfig class"),
        ("run: {episodes: 100}\n", "", "1: does not say how long to run; add 'run: {episodes: 100}'"),
        ("{episodes: 100}", "{}", "5: run: " + EITHER),
        ("{episodes: 100}", "{episodes: 1, env_steps: 2}",
         "5: run: " + EITHER),
        ("{episodes: 100}", "{episodes: -1}", "5: run.episodes: must be at least 0, got -1"),
        ("{episodes: 100}", "{episodes: 1, device: gpu}",
         "5: run.device: must be 'auto', 'cpu' or 'cuda', got the text 'gpu'. Did you mean 'cpu'?"),
    ],
)  # fmt: skip
def test_a_wrong_recipe_is_explained_with_its_line(registry: Registry, old: str, new: str, said: str):
    found = problems(PLAIN.replace(old, new), registry)
    assert f"r.yaml:{said}" in found
    assert len(found) == 1 or new == "memory:"


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a\\b", "", "x" * 101])
def test_a_name_must_be_fit_for_a_folder(registry: Registry, name: str):
    (problem,) = problems(PLAIN.replace("name: plain", f"name: '{name}'"), registry)
    assert problem.startswith("r.yaml:2: name: must be text")


@pytest.mark.parametrize("name", ["bike + cbr (seed 1)", "caffè-2.5"])
def test_a_name_may_hold_what_people_write(registry: Registry, name: str):
    assert read(PLAIN.replace("name: plain", f"name: {name}"), registry).name == name


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (
            "context_encoder",
            "4: memory: a case memory needs a context_encoder; add 'context_encoder: {use: cbr_seeded",
        ),
        ("quantizer", "4: memory: a case memory needs a quantizer; add 'quantizer: {use: cbr_vq/vq}'"),
    ],
)
def test_a_memory_needs_its_parts(registry: Registry, missing: str, said: str):
    text = "".join(line for line in CASES.splitlines(keepends=True) if not line.startswith(missing))
    (problem,) = problems(text, registry)
    assert problem.startswith(f"r.yaml:{said}")


@pytest.mark.parametrize(
    "part",
    [
        "context_encoder: {use: graph}",
        "quantizer: {use: codes}",
        "reuse_policy: {retry_failed: false}",
        "retain_policy: {use: all}",
    ],
)
def test_the_parts_of_a_memory_need_the_memory(registry: Registry, part: str):
    kind = part.partition(":")[0]
    assert problems(PLAIN + part, registry) == [
        f"r.yaml:6: {kind}: only a case memory uses it; add 'memory: {{}}', or remove {kind}"
    ]


def test_all_problems_are_reported_at_once_in_the_order_of_their_lines(registry: Registry):
    text = """\
schema: 3
name: x
agent:
  hidden: 0
  use: lab/learner
  rate: fast
lr: 1
environment: {use: lab/game}
run: {episodes: 1, episodes: 2}
memory: {tau: 3}
"""
    found = problems(text, registry, "seed=-1", "training.gama=1")
    labels = [problem.split(" ")[0] for problem in found]
    assert labels == [
        "r.yaml:1:", "r.yaml:4:", "r.yaml:6:", "r.yaml:7:", "r.yaml:8:", "r.yaml:9:", "r.yaml:10:", "r.yaml:10:",
        "r.yaml:10:", "--set", "--set",
    ]  # fmt: skip


def test_a_missing_default_text_encoder_is_a_problem_of_the_recipe(registry: Registry):
    smaller = Registry()
    smaller.extend([component for component in registry if component.kind != "text_encoder"])
    smaller.unavailable["cbr_text_encoders"] = "ImportError: x"
    (problem,) = problems(PLAIN, smaller)
    assert problem.startswith(
        "r.yaml:1: text_encoder.use: unknown text_encoder 'cbr_text_encoders/transformer'. Its"
    )


# The file itself


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "r.yaml:1: is empty; a recipe starts with 'schema: 1'"),
        (b"# nothing\n", "r.yaml:1: is empty; a recipe starts with 'schema: 1'"),
        (b"\xef\xbb\xbf", "r.yaml:1: is empty; a recipe starts with 'schema: 1'"),
        (b"- a\n- b", "r.yaml:1: is a list; a recipe is a section"),
        (b"just words", "r.yaml:1: is a single value; a recipe is a section"),
        (b"schema: 1\n---\nschema: 1", "r.yaml:2: column 1: a second document starts here"),
        (b"schema: 1\nrun:\n\tepisodes: 1", "r.yaml:3: column 1: a tab may not indent YAML"),
        (b"schema: 1\nname: caf\xe9", "r.yaml:2: is not UTF-8 text; save it as UTF-8"),
        ("schema: 1".encode("utf-16"), "r.yaml:1: is not UTF-8 text; save it as UTF-8"),
        (b"x" * (5 * 1024 * 1024), f"r.yaml: is larger than {MAX_BYTES // 1024} KiB, so it is no recipe"),
        (
            b"a: !!python/object/apply:os.system ['touch marker']",
            "r.yaml:1: column 4: tags such as '!!python/object",
        ),
    ],
)
def test_what_is_no_recipe_gives_one_clear_line(
    registry: Registry, tmp_path: Path, monkeypatch, content, said: str
):
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_bytes(content)
    with pytest.raises(RecipeError) as caught:
        load_recipe("r.yaml", registry=registry)
    (problem,) = caught.value.problems
    assert problem.startswith(said)
    assert not Path("marker").exists()


def test_files_that_cannot_be_read(registry: Registry, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "quickstart.yaml").write_text(PLAIN)
    for name, said in {
        "folder": "is a folder; name the recipe file in it",
        "quikstart.yaml": "no such file. Did you mean 'quickstart.yaml'?",
        "other/there.yaml": "no such file.",
    }.items():
        with pytest.raises(RecipeError) as caught:
            load_recipe(tmp_path / name, registry=registry)
        assert caught.value.problems == (f"{tmp_path / name}: {said}",)


@pytest.mark.parametrize(
    ("name", "said"),
    [("plain.yaml/r.yaml", "Not a directory"), ("circle.yaml", "Too many levels of symbolic links")],
)
def test_what_the_system_does_not_open_is_said_with_its_words(registry: Registry, tmp_path: Path, name, said):
    (tmp_path / "plain.yaml").write_text(PLAIN)
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    with pytest.raises(RecipeError) as caught:
        _read_file(tmp_path / name)
    assert caught.value.problems == (f"{tmp_path / name}: cannot be read: {said}",)


@pytest.mark.parametrize(("size", "fits"), [(MAX_BYTES, True), (MAX_BYTES + 1, False)])
def test_a_recipe_may_have_so_many_bytes(tmp_path: Path, size: int, fits: bool):
    (tmp_path / "r.yaml").write_bytes(b"#" * size)
    with pytest.raises(RecipeError) if not fits else contextlib.nullcontext():
        assert len(_read_file(tmp_path / "r.yaml")) == size


def test_a_byte_that_is_no_text_is_told_with_its_line(tmp_path: Path):
    (tmp_path / "r.yaml").write_bytes(b"a: 1\nb: 2\nc: \xff\nd: 3\n")
    with pytest.raises(RecipeError, match=r"r\.yaml:3: is not UTF-8 text"):
        _read_file(tmp_path / "r.yaml")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("recipes/quickstart.yaml", True),
        ("recipes/smoke/text_cbr_generated.yaml", True),
        ("recipes/nothing.yaml", False),
        ("recipes/smoke", False),
        ("recipes/../recipes/quickstart.yaml", False),
        ("other/recipes/quickstart.yaml", False),
        ("quickstart.yaml", False),
        ("cbrcore/cli.py", False),
    ],
)
def test_recipes_of_the_package_are_found_by_their_path(tmp_path: Path, monkeypatch, path: str, there: bool):
    monkeypatch.chdir(tmp_path)
    found = shipped(Path(path))
    assert (found is not None) == there
    assert found is None or (found.is_file() and str(found).endswith(f"/{path}"))


def test_only_where_a_run_starts_a_recipe_as_text_needs_its_files(registry: Registry, tmp_path: Path):
    text = CASES.replace("memory: {}", "memory: {cases: gone}")
    given = {"folder": tmp_path, "registry": registry}
    for found in (read_recipe_text(text, "r", **given), read_recipe_text(text, "r", starts=False, **given)):
        assert (found.directory, found.memory.settings.cases) == (tmp_path.resolve(), "gone")
    with pytest.raises(RecipeError) as caught:
        read_recipe_text(text, "r.yaml", starts=True, **given)
    assert caught.value.problems == (
        f"r.yaml:5: memory.cases: {tmp_path / 'gone'}: no such file or folder. cbr cases export RUN DIR",
    )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs file permissions")
def test_a_file_without_permission(registry: Registry, tmp_path: Path):
    path = tmp_path / "secret.yaml"
    path.write_text(PLAIN)
    path.chmod(0)
    with pytest.raises(RecipeError, match="cannot be read: Permission denied"):
        load_recipe(path, registry=registry)


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(registry: Registry, tmp_path: Path):
    path = tmp_path / "plain.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode())
    assert load_recipe(path, registry=registry).name == "plain"
    path.write_bytes(b"\xef\xbb\xbf" + PLAIN.replace("lab/learner", "oops").replace("\n", "\r\n").encode())
    with pytest.raises(RecipeError, match=r"plain\.yaml:4: agent\.use"):
        load_recipe(path, registry=registry)


# Folders


def test_paths_start_at_the_recipes_folder_wherever_it_is_read_from(registry: Registry, tmp_path, monkeypatch):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "a.yaml").write_text(PLAIN)
    (tmp_path / "link.yaml").symlink_to(folder / "a.yaml")
    for where, name in ((folder, "a.yaml"), (tmp_path, "recipes/a.yaml"), (Path("/"), folder / "a.yaml")):
        monkeypatch.chdir(where)
        assert load_recipe(name, registry=registry).directory == folder.resolve()
    assert load_recipe(tmp_path / "link.yaml", registry=registry).directory == folder.resolve()


def test_the_folder_can_be_stated(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.yaml"
    path.write_text(PLAIN + "directory: ../games")
    assert load_recipe(path, registry=registry).directory == (tmp_path.parent / "games").resolve()
    path.write_text(PLAIN + "directory: $NOT_SET_ANYWHERE/x")
    with pytest.raises(RecipeError, match=r"a\.yaml:6: directory: .*NOT_SET_ANYWHERE"):
        load_recipe(path, registry=registry)


# --set


def test_overrides_follow_the_same_rules_as_the_file(registry: Registry):
    recipe = read(
        CASES, registry,
        "training.gamma=0.5", "agent.rate=1e-4", "agent.schedule.start=2", "environment.games=[no, on]",
        "memory.threshold=0.6", "seed=7", "run={episodes: 3}", "evaluation.passes=1e1", "agent.label='1e5'",
    )  # fmt: skip
    assert recipe.training.gamma == 0.5
    assert recipe.agent.settings == LearnerConfig(rate=1e-4, schedule=Schedule(start=2), label="1e5")
    assert recipe.environment.settings.games == ("no", "on")
    assert recipe.memory.settings == CaseMemoryConfig(threshold=0.6)
    assert (recipe.seed, recipe.run.episodes, recipe.run.env_steps, recipe.evaluation.passes) == (7, 3, None, 10)


def test_overrides_may_make_sections(registry: Registry):
    recipe = read(
        PLAIN,
        registry,
        "memory.threshold=0.6",
        "quantizer.use=codes",
        "quantizer.k=2",
        "context_encoder.use=graph",
    )
    assert recipe.memory.settings == CaseMemoryConfig(threshold=0.6)
    assert recipe.quantizer is not None
    assert recipe.quantizer.settings.k == 2


def test_the_last_override_of_a_path_wins(registry: Registry):
    assert read(PLAIN, registry, "seed=1", "seed=2").seed == 2


@pytest.mark.parametrize("order", [1, -1])
def test_another_component_starts_from_its_own_defaults(registry: Registry, order: int):
    overrides = ["agent.use=guesser", "agent.guesses=5"][::order]
    recipe = read(with_agent("hidden: 100\n  rate: 1"), registry, *overrides)
    assert recipe.agent.use == "lab/guesser"
    assert recipe.agent.settings == GuesserConfig(hidden=8, guesses=5)


@pytest.mark.parametrize("same", ["lab/learner", "learner"])
def test_the_same_component_keeps_its_settings(registry: Registry, same: str):
    assert read(with_agent("hidden: 100"), registry, f"agent.use={same}").agent.settings.hidden == 100


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.gama=0.5", "training.gama: unknown key. Did you mean training.gamma?"),
        ("trainig.gamma=0.5", "trainig: unknown key. Did you mean training?"),
        ("gamma=0.5", "gamma: unknown key. Did you mean training.gamma?"),
        ("training.gamma=abc", "training.gamma: must be a number, got the text 'abc'"),
        ("training.gamma.x=1", "training.gamma: must be a number, got a section"),
        ("training=5", "training: " + A_SECTION),
        ("agent.use=lerner", "agent.use: unknown agent 'lerner'. Did you mean 'lab/learner'?"),
        ("agent.hidden=0", "agent.hidden: must be at least 1, got 0"),
        ("quantizer.k=0", "quantizer: does not say which component; add 'use: PLUGIN/NAME', one of: lab/codes"),
        ("agent.words.0=x", "agent.words.0: 'agent.words' is a list; set the whole list"),
        ("training.gamma=", "has no value; write training.gamma=null, or training.gamma='' for no text"),
        ("training.gamma", "write PATH=VALUE, as in --set training.gamma=0.95"),
        ("=1", "write PATH=VALUE, as in --set training.gamma=0.95"),
        ("a..b=1", "write PATH=VALUE, as in --set training.gamma=0.95"),
        ("seed=!!python/object/apply:os.system ['x']",
         "column 1: tags such as '!!python/object/apply:os.system' are not allowed; write the value itself"),
        ("agent.label={a: 1, a: 2}", "agent.label.a: is given twice, in lines 1 and 1"),
        ("seed=[", "column 2: expected the node content, but found '<stream end>'"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_named(registry: Registry, override: str, said: str):
    found = problems(with_agent("words: [a]"), registry, override)
    assert [problem for problem in found if "only a case memory uses it" not in problem] == [
        f"--set {override}: {said}"
    ]


def test_wrong_overrides_are_gathered_too(registry: Registry):
    assert len(problems(PLAIN, registry, "seed", "seed=", "seed=-1", "x=1")) == 4


# Sweeps


def test_a_sweep_is_kept_as_it_stands(registry: Registry):
    axes = "{training.gamma: [0.9, 1e-1], agent.use: [learner, guesser], seed: [0, 1], memory: [null]}"
    assert read(f"{PLAIN}sweep: {axes}", registry).sections["sweep"].root == {
        "training.gamma": [0.9, 0.1], "agent.use": ["learner", "guesser"], "seed": [0, 1], "memory": [None],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("[1]", "6: sweep: must be a section of 'dotted.path: [values]' lines"),
        (
            "{training.gamma: []}",
            "6: sweep.training.gamma: needs a list of values, as in 'training.gamma: [0.9, 0.95]'",
        ),
        (
            "{training.gamma: 1}",
            "6: sweep.training.gamma: needs a list of values, as in 'training.gamma: [0.9, 0.95]'",
        ),
        (
            "{training: {gamma: [1]}}",
            "6: sweep.training: needs a list of values, as in 'training.gamma: [0.9, 0.95]'",
        ),
        ("{training.gama: [1]}", "6: sweep.training.gama[0]: unknown key. Did you mean training.gamma?"),
        ("{training.gamma: [0.9, 9]}", "6: sweep.training.gamma[1]: must be at least 0 and at most 1, got 9"),
        (
            "{agent.use: [learner, lerner]}",
            "6: sweep.agent.use[1]: unknown agent 'lerner'. Did you mean 'lab/learner'?",
        ),
        ("{agent: [{use: learner, hidden: 0}]}", "6: sweep.agent[0]: hidden: must be at least 1, got 0"),
        ("{schema: [1]}", "6: sweep.schema: cannot be swept"),
        ("{sweep.seed: [1]}", "6: sweep.sweep.seed: cannot be swept"),
        ("{a..b: [1]}", "6: sweep.a..b: cannot be swept"),
    ],
)
def test_a_wrong_sweep_is_explained(registry: Registry, sweep: str, said: str):
    assert problems(PLAIN + f"sweep: {sweep}", registry) == [f"r.yaml:{said}"]


# The resolved recipe


def test_the_resolved_recipe_holds_qualified_names_and_every_setting(registry: Registry):
    text = dump_recipe(read(CASES, registry, "agent.use=guesser"))
    assert "agent:\n  use: lab/guesser\n  hidden: 8\n  guesses: 3\n" in text
    assert "retain_policy:\n  use: cbr_retain/last_k\n  k: 1\n" in text
    assert "threshold: 0.7" in text
    assert text.startswith("schema: 1\nname: r\nseed: 0\n")


@pytest.mark.parametrize("text", [PLAIN, CASES, CASES + "sweep: {seed: [0, 1], agent.label: ['1e5', no]}"])
def test_the_resolved_recipe_reads_back_equal_from_another_folder(registry: Registry, tmp_path: Path, text: str):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "original.yaml").write_text(text)
    recipe = load_recipe(tmp_path / "a" / "original.yaml", registry=registry)
    (tmp_path / "b" / "recipe.yaml").write_text(dump_recipe(recipe))
    again = load_recipe(tmp_path / "b" / "recipe.yaml", registry=registry)
    assert again == recipe
    assert dump_recipe(again) == dump_recipe(recipe)


LABELS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    hidden=st.integers(15, 10**6),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    label=LABELS,
    words=st.lists(LABELS | st.sampled_from(["no", "1e-4", "9:05", "~", "1.10"]), max_size=3),
    either=st.integers() | LABELS,
)
def test_any_settings_survive_a_dump(registry: Registry, **values):
    recipe = read(PLAIN, registry)
    agent = recipe.agent.model_copy(update={"settings": LearnerConfig(**values)})
    changed = recipe.model_copy(update={"agent": agent})
    assert read(dump_recipe(changed), registry) == changed


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | LABELS | st.sampled_from(["lab/learner", "codes"])
)
KEYS = (
    st.sampled_from([*CORE_KEYS, "sweep", "use", "hidden", "gamma", "pretrain", "episodes"])
    | st.sampled_from(["agent.hidden", "memory.threshold", "training.pretrain"])
    | LABELS
)
SECTIONS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=15
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.dictionaries(KEYS, SECTIONS, max_size=5),
    path=st.lists(KEYS, min_size=1, max_size=3),
    value=SECTIONS,
)
def test_whatever_is_written_is_a_recipe_or_a_recipe_error(registry: Registry, changes, path, value):
    """Also for things nobody thought of: no other exception, and one line for each problem."""
    override = f"{'.'.join(path)}={json.dumps(value)}"
    text = yaml.safe_dump({**yaml.safe_load(PLAIN), **changes}, allow_unicode=True)
    found: tuple[str, ...] = ()
    try:
        read(text, registry, override)
    except RecipeError as error:
        found = error.problems
    assert all(problem.startswith(("r.yaml:", "--set ")) and printable(problem) == problem for problem in found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(st.sampled_from("abc:-[]{}&*!|>'\"%@#?,\\ \t\n01.~<=") | st.characters(), max_size=60))
def test_whatever_the_text_the_answer_is_a_recipe_error(registry: Registry, text: str):
    with pytest.raises(RecipeError):
        read(text, registry)
