"""The agent keeps the contract of its kind; a worked example; what it reads; what is said where no model is."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cbrcore import (
    Action,
    AgentInput,
    Build,
    Candidate,
    Case,
    CbrError,
    Match,
    ModelError,
    Observation,
    Provenance,
    RevisingAgent,
    TellsHandicaps,
)
from cbrcore.testing import AgentSuite, sample_observation
from pydantic import ValidationError

from cbr_llm.agent import LlmAgent, LlmReviser
from cbr_llm.config import LlmConfig
from cbr_llm.model import NOTE, find_model
from cbr_llm.prompt import Prompt, case_lines, fitting


class Contract(AgentSuite):
    kind: type[LlmAgent]

    @pytest.fixture(autouse=True)
    def folder(self, llama: Path) -> None:
        self.model = str(llama)

    def make(self, build: Build) -> LlmAgent:
        return self.kind(LlmConfig(model=self.model), build)

    def test_it_has_nothing_to_train_and_nothing_for_a_checkpoint(self, build: Build) -> None:
        agent = self.make(build)
        assert list(agent.parameters()) == []
        assert agent.state_dict() == {}
        assert not agent.policy(self.inputs(agent))[0].logits.requires_grad

    def test_it_tells_what_it_knew_before(self, build: Build) -> None:
        agent = self.make(build)
        assert isinstance(agent, TellsHandicaps)
        # 27 words twice, norms, and two layers of attention, three projections and norms
        size = 2 * 27 * 16 + 16 + 2 * (4 * 16 * 16 + 3 * 16 * 32 + 2 * 16)
        assert f": llama, {size:,} parameters, frozen" in agent.handicaps["language_model"]
        json.dumps(dict(agent.handicaps))


class TestLlm(Contract):
    kind = LlmAgent

    def test_it_is_no_revising_agent(self, build: Build) -> None:
        assert not isinstance(self.make(build), RevisingAgent)


class TestReviser(Contract):
    kind = LlmReviser

    def test_the_action_that_a_candidate_offered_is_told(self, build: Build) -> None:
        agent = self.make(build)
        assert isinstance(agent, RevisingAgent)
        first, second = candidate("take {}", "apple", 0.8), candidate("take {}", "apple", 0.9)
        failed = replace(candidate("take {}", "apple", 0.95), verdict="failed")
        assert agent.revise([first, second, failed], first.action) is second
        assert agent.revise([first, failed], Action("look", "look")) is None
        assert agent.revise([], first.action) is None


# log p(command | prompt)

FOLLOWING = {
    ">": {"take": 0.5, "wash": 0.25},
    "take": {"cup": 0.5, "apple": 0.125},
    "wash": {"cup": 0.5},
    "cup": {"#": 0.5, "from": 0.25},
    "apple": {"#": 1 / 3},
    "from": {"rack": 0.5},
    "rack": {"#": 0.5},
}
BIGRAM = ("<unk>", ">", "take", "wash", "cup", "apple", "from", "rack", "look", "#")
BY_HAND = {
    "take cup": 0.5 * 0.5 * 0.5,
    "wash cup": 0.25 * 0.5 * 0.5,
    "take apple": 0.5 * 0.125 / 3,
    "take cup from rack": 0.5 * 0.5 * 0.25 * 0.5 * 0.5,
}
"""command -> p(its words, then #, behind >)"""


def observation(*commands: str) -> Observation:
    return sample_observation(admissible=tuple(Action(text, text) for text in sorted(commands)))


@pytest.mark.parametrize("shared", [True, False], ids=["shared prefix", "each alone"])
def test_the_likelihood_of_a_command_by_hand(shared: bool, models: SimpleNamespace, tmp_path: Path) -> None:
    """Of four commands under a model whose every probability is written down; # ends a command."""
    folder = models.bigram(tmp_path / "bigram", BIGRAM, FOLLOWING)
    seen = observation(*BY_HAND)
    whole = LlmConfig(model=str(folder), ending=" #", normalise="nothing", share_prefix=shared)
    scores = LlmAgent(whole, Build()).scores(Prompt(seen))
    expected = [math.log(BY_HAND[action.text]) for action in seen.admissible]
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)

    scores = LlmAgent(whole.model_copy(update={"normalise": "tokens"}), Build()).scores(Prompt(seen))
    lengths = [len(action.text.split()) + 1 for action in seen.admissible]
    per_token = [value / length for value, length in zip(expected, lengths, strict=True)]
    assert scores.tolist() == pytest.approx(per_token, abs=1e-5)

    scores = LlmAgent(whole.model_copy(update={"normalise": "characters"}), Build()).scores(Prompt(seen))
    per_letter = [value / len(action.text) for value, action in zip(expected, seen.admissible, strict=True)]
    assert scores.tolist() == pytest.approx(per_letter, abs=1e-5)


def test_what_is_likely_behind_nothing_is_subtracted(models: SimpleNamespace, tmp_path: Path) -> None:
    """Behind "wash" as behind ">", but for the first word: log p(take | >) - log p(take | wash), and so on."""
    folder = models.bigram(
        tmp_path / "bigram", BIGRAM, {**FOLLOWING, "wash": {"take": 0.125, "wash": 0.125, "cup": 0.5}}
    )
    config = LlmConfig(model=str(folder), ending=" #", normalise="nothing", prior="wash")
    scores = LlmAgent(config, Build()).scores(Prompt(observation("take cup", "take apple", "wash cup")))
    assert scores.tolist() == pytest.approx([math.log(0.5 / 0.125)] * 2 + [math.log(0.25 / 0.125)], abs=1e-5)


def test_the_policy_is_the_softmax_of_scores_over_temperature(models: SimpleNamespace, tmp_path: Path) -> None:
    """p(a) is proportional to p(command)^2 at temperature 1/2, without normalisation."""
    folder = models.bigram(tmp_path / "bigram", BIGRAM, FOLLOWING)
    config = LlmConfig(model=str(folder), ending=" #", normalise="nothing", temperature=0.5)
    seen = observation("take cup", "wash cup")
    (output,) = LlmAgent(config, Build()).policy([AgentInput(seen)])
    assert output.logits.softmax(dim=0).tolist() == pytest.approx([4 / 5, 1 / 5], abs=1e-5)
    assert output.value.item() == 0


@pytest.mark.parametrize("make", ["llama", "gpt2"])
@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_a_shared_prefix_equals_each_command_alone(
    make: str, batch_size: int, models: SimpleNamespace, tmp_path: Path
) -> None:
    """Commands of one to seven tokens, behind short and long prompts."""
    folder = str(getattr(models, make)(tmp_path / "model"))
    fast = LlmAgent(LlmConfig(model=folder, batch_size=batch_size), Build())
    slow = LlmAgent(LlmConfig(model=folder, share_prefix=False), Build())
    commands = ("look", "take cup", "put cup on rack", "take apple", "put apple on rack on rack on")
    for cases in ((), ('In a similar situation "take apple" was rewarded.\n',) * 8):
        for seen in (observation(*commands), observation("look"), observation("look", "wash", "take")):
            prompt = Prompt(seen, cases, ((None, "You see a cup."), ("look", "A kitchen.")))
            torch.testing.assert_close(fast.scores(prompt), slow.scores(prompt), atol=1e-4, rtol=1e-4)
    assert fast.scores(Prompt(observation(*commands))).std() > 0.1  # or nothing was compared


def test_a_model_without_keys_and_values_is_asked_for_each_command_alone(
    models: SimpleNamespace, tmp_path: Path
) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    settings = MambaConfig(
        vocab_size=len(models.WORDS), hidden_size=16, num_hidden_layers=2, state_size=4, initializer_range=0.5
    )
    MambaForCausalLM(settings).save_pretrained(tmp_path / "mamba")
    models.save_tokenizer(tmp_path / "mamba")
    fast, slow = (
        LlmAgent(LlmConfig(model=str(tmp_path / "mamba"), share_prefix=shared), Build())
        for shared in (True, False)
    )
    prompt = Prompt(observation("look", "take cup", "put cup on rack"))
    torch.testing.assert_close(fast.scores(prompt), slow.scores(prompt), atol=1e-4, rtol=1e-4)


# What the model reads


def candidate(
    template: str, thing: str, relevance: float, *, text: str = "wash cup", number: int = 0
) -> Candidate:
    case = Case(number, "wash {}", ("cup",), text, Provenance("game", 0, 0, 0, 1.0))
    action = Action.from_template(template, [thing])
    return Candidate(action, Match(case, relevance), (thing,), "inadmissible")


def test_the_most_relevant_cases_are_told_once_and_refuted_ones_are_not() -> None:
    config = LlmConfig(model="-", cases=2, case_template="{case} / {command} / {relevance}\n")
    offered = [
        candidate("wash {}", "apple", 0.75),
        candidate("wash {}", "rack", 0.9, text="wash dish", number=1),
        candidate("wash {}", "apple", 0.75),
        replace(candidate("wash {}", "table", 0.99), verdict="failed"),
        replace(candidate("wash {}", "door", 0.98), verdict="solved"),
        candidate("wash {}", "floor", 0.71),
    ]
    assert case_lines(offered, config) == ("wash dish / wash rack / 0.90\n", "wash cup / wash apple / 0.75\n")
    assert case_lines(offered, LlmConfig(model="-", cases=0)) == ()


def test_the_prompt_tells_cases_steps_and_what_is_seen(llama: Path) -> None:
    agent = LlmAgent(LlmConfig(model=str(llama), history=2), Build())
    seen = sample_observation()
    asked: list[str] = []
    agent._prompt_tokens = lambda text: asked.append(text) or [1]  # type: ignore[method-assign, func-returns-value]
    state = agent.initial_state()
    for number, command in enumerate([None, "look", "take cup", "wash cup"]):
        looked = replace(seen, feedback=f"Answer {number}.\nMore.", last_action=command)
        (output,) = agent.policy([AgentInput(looked, state, (candidate("wash {}", "apple", 0.8),))])
        state = output.state
    assert state == (("take cup", "Answer 2."), ("wash cup", "Answer 3."))
    assert asked[0] == (
        'In a similar situation "wash cup" was rewarded.\nAnswer 0.\nMore.\nA kitchen. A cup is on the table.\n'
        "You carry nothing.\n>"
    )
    assert asked[-1] == (
        'In a similar situation "wash cup" was rewarded.\n> look\nAnswer 1.\n> take cup\nAnswer 2.\n> wash cup\n'
        "Answer 3.\nMore.\nA kitchen. A cup is on the table.\nYou carry nothing.\n>"
    )


def test_a_case_changes_what_the_agent_does(llama: Path) -> None:
    agent = LlmAgent(LlmConfig(model=str(llama)), Build())
    seen = sample_observation()
    without, told = agent.policy([AgentInput(seen), AgentInput(seen, (), (candidate("wash {}", "cup", 0.8),))])
    assert not torch.allclose(without.logits, told.logits, atol=1e-3)


def test_braces_in_a_game_are_only_text() -> None:
    seen = sample_observation(feedback="{cases} {0} {")
    assert "{cases} {0} {" in Prompt(seen).text("{observation}")


def test_a_prompt_that_is_too_long_loses_steps_then_cases_then_its_beginning() -> None:
    prompt = Prompt(observation("look"), ("c1 ", "c2 "), ((None, "s1"), ("look", "s2")))
    words = "{cases}{history}now"

    def told(longest: int) -> str:
        return "".join(map(chr, fitting(prompt, words, lambda text: list(map(ord, text)), longest)))

    whole = "c1 c2 s1\n> look\ns2\nnow"
    assert told(len(whole)) == whole
    assert told(len(whole) - 1) == "c1 c2 > look\ns2\nnow"
    assert told(10) == "c1 c2 now"
    assert told(7) == "c1 now"
    assert told(4) == "now"
    assert told(2) == "ow"


def test_a_small_window_is_never_left(models: SimpleNamespace, tmp_path: Path) -> None:
    """Positions beyond the window would be an error of the model's, or nonsense."""
    folder = models.llama(tmp_path / "small", window=24)
    agent = LlmAgent(LlmConfig(model=str(folder)), Build())
    lengths: list[int] = []
    agent._loaded.model.register_forward_pre_hook(
        lambda _, __, inputs: lengths.append(inputs["input_ids"].shape[1]), with_kwargs=True
    )
    longest = observation("look", "put apple on rack")
    long_ago = tuple(("take cup", "You see a cup. " * 5) for _ in range(3))
    agent.policy([AgentInput(longest, long_ago)])
    assert max(lengths) <= 24 - 4


def test_scores_are_computed_once_an_episode(llama: Path) -> None:
    agent = LlmAgent(LlmConfig(model=str(llama)), Build())
    asked: list[int] = []
    agent._loaded.model.register_forward_hook(lambda *_: asked.append(1))
    item = AgentInput(sample_observation(), agent.initial_state())
    once, again = agent.policy([item]), agent.policy([item])
    assert len(asked) == 2  # the prompt, and the commands
    assert torch.equal(once[0].logits, again[0].logits)
    agent.initial_state()
    agent.policy([item])
    assert len(asked) == 4


# Settings and folders that are wrong


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"template": "{case}"}, "'case' does not fit; in braces may stand: cases, history"),
        ({"template": "{observation"}, "in braces may stand"),
        ({"template": "{}"}, "in braces may stand"),
        ({"template": "{observation.score}"}, "in braces may stand"),
        ({"template": "say something"}, "it tells nothing"),
        ({"case_template": "{observation}"}, "in braces may stand: case, command, relevance"),
        ({"temperature": 0.0}, "greater than 0"),
        ({"model": ""}, "at least 1"),
    ],
)
def test_bad_settings_are_refused(changes: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        LlmConfig(**{"model": "m", **changes})


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("tiny-model", r"'tiny-model' is no folder \(.*tiny-model\), and not in the cache"),
        ("no--name.git", "not in the cache"),
        ("somebody/model", "not in the cache of the Hugging Face Hub"),
        ("./tiny-model", "there is no folder .*tiny-model"),
        ("a/b/c", "there is no folder"),
        ("$NOWHERE/model", "NOWHERE, which is not set"),
    ],
)
def test_a_model_that_is_not_here_says_what_to_type(
    model: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CbrError, match=says) as caught:
        LlmAgent(LlmConfig(model=model), Build(recipe_dir=tmp_path))
    assert "$" in model or "cbr tiny-llm RECIPE --out" in str(caught.value)


def test_what_may_be_downloaded_is_asked_for_by_its_name(tmp_path: Path) -> None:
    config = LlmConfig(model="somebody/model", local_files_only=False)
    assert find_model(config, tmp_path) == "somebody/model"


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_named(missing: str, llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    folder.mkdir()
    for file in llama.iterdir():
        if file.name != missing:
            (folder / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match=r"agent.model: .*part"):
        LlmAgent(LlmConfig(model="part"), Build(recipe_dir=tmp_path))


@pytest.mark.parametrize("fault", ["cut off", "weights of another model"])
def test_a_damaged_model_is_refused(fault: str, models: SimpleNamespace, tmp_path: Path) -> None:
    folder = models.llama(tmp_path / "bad")
    weights = (folder / "model.safetensors").read_bytes()
    if fault == "cut off":
        (folder / "model.safetensors").write_bytes(weights[:-100])
    else:
        other = models.gpt2(tmp_path / "other")
        (folder / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match=r"agent.model: .*(cannot be loaded|lacks weights)"):
        LlmAgent(LlmConfig(model=str(folder)), Build())


def test_what_it_was_trained_on_is_told(models: SimpleNamespace, tmp_path: Path) -> None:
    folder = models.llama(tmp_path / "noted")
    (folder / NOTE).write_text(json.dumps({"trained_on": "nothing at all"}))
    agent = LlmAgent(LlmConfig(model="noted"), Build(recipe_dir=tmp_path))
    assert agent.handicaps["language_model"].endswith("frozen; trained on nothing at all")
