"""The supervised losses of KG-A2C's decoders: by hand, in an update, after a resume, and what they are for."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_folders import rows, same
from test_cbr_kga2c_decoder import LOOK, TAKE, decoded, decoder
from toy import ToyEnvironment

from cbr_a2c.a2c import a2c_loss
from cbr_a2c.learner import A2cLearner
from cbr_kga2c.config import SupervisedConfig
from cbr_kga2c.supervised import ADMISSIBLE, TEMPLATES, Supervised, object_loss, template_loss
from cbr_random.agent import RandomAgent
from cbrcore import Action, CbrError, NoSettings, Observation
from cbrcore.config import TrainingConfig
from cbrcore.cycle.evaluation import FrozenActor
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.interfaces import Build, Learner, Stopwatch
from cbrcore.rng import Streams
from cbrcore.testing import LearnerSuite, WordHashEncoder, sample_observation, sample_player
from cbrcore.types import Decision, Ending, StepResult, Transition

torch.set_num_threads(1)

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"
BUILD = Build(text_encoder=WordHashEncoder())
CONFIG = TrainingConfig(agent_learning_rate=0.01, entropy_weight=0.1, clip=1000)
SEEN = sample_observation()
TAKE_CUP = Action.from_template(TAKE, ["cup"])


def learner(**settings: Any) -> Supervised:
    return Supervised(SupervisedConfig(**settings), BUILD)


def player() -> CaseBasedReasoner:
    return CaseBasedReasoner(decoder(BUILD), sample_player().retriever)


class TestSupervised(LearnerSuite):
    def make(self, build: Build) -> Supervised:
        return learner()

    def player(self, build: Build) -> CaseBasedReasoner:
        return player()


# -- by hand -----------------------------------------------------------------------------------------------------


def test_the_template_loss_by_hand():
    """pi = (1/2, 1/4, 1/4), the first and the last admissible; and pi = (1/3, 1/3, 1/3), the second admissible."""
    scores = torch.tensor([[math.log(2), 0.0, 0.0], [0.0, 0.0, 0.0]])
    valid = torch.tensor([[True, False, True], [False, True, False]])
    one = -(math.log(1 / 2) + math.log(3 / 4) + math.log(1 / 4))
    other = -(math.log(2 / 3) + math.log(1 / 3) + math.log(2 / 3))
    assert float(template_loss(scores[:1], valid[:1])) == pytest.approx(one)
    assert float(template_loss(scores, valid)) == pytest.approx(one + other)


def test_the_object_loss_by_hand():
    """Two situations of the first slot, (1/2, 1/2) and (3/4, 1/4), one of the second; the first object is one."""
    slots = [torch.tensor([[0.5, 0.5], [0.75, 0.25]]).log(), torch.tensor([[0.25, 0.75]]).log()]
    first = (2 * math.log(1 / 2) + 2 * math.log(3 / 4)) / 2
    second = math.log(1 / 4) + math.log(1 / 4)
    assert float(object_loss(slots, [0])) == pytest.approx(-first - second)
    assert float(object_loss([slots[0], torch.zeros(0, 2)], [0])) == pytest.approx(-first)
    assert float(object_loss([], [])) == 0


@pytest.mark.parametrize("far", [200.0, -200.0])
def test_losses_of_what_is_certain_are_finite_with_their_gradients(far: float):
    scores = torch.tensor([[far, 0.0]], requires_grad=True)
    slots = scores.log_softmax(1)
    (template_loss(scores, torch.tensor([[True, False]])) + object_loss([slots], [0])).backward()
    assert torch.isfinite(scores.grad).all()


# -- in an update ------------------------------------------------------------------------------------------------


def own_step(made: CaseBasedReasoner, seen: Observation = SEEN, ending: Ending | None = None) -> Transition:
    """The agent looks."""
    _, trace = made.decide(seen, np.random.default_rng(0))
    return Transition(seen, Decision(seen.admissible[0], "agent"), StepResult(seen, 1.0, ending), trace)


def learn(made: CaseBasedReasoner, used: Learner, *steps: Transition) -> Learner:
    """An update on these steps of one episode; the last one ends it."""
    used.begin([made], CONFIG, Streams(3), Stopwatch())
    for step in steps:
        used.took_step(0, step)
    used.round_of_steps_done()
    return used


OTHER = sample_observation(admissible=(Action(LOOK, LOOK), TAKE_CUP))


def test_an_update_follows_the_gradient_of_all_losses_at_once():
    """The second state lacks the template "put {} on {}", which is known from the first."""
    made, twin = player(), player()
    used = learn(made, learner(template_weight=2.0, object_weight=5.0), own_step(made),
                 own_step(made, OTHER, Ending.LOST))  # fmt: skip

    steps = [own_step(twin), own_step(twin, OTHER)]
    agent = twin.agent.train()
    outputs = agent.policy([step.trace.agent_input for step in steps])
    queries = torch.stack([output.query for output in outputs])
    scores = agent.template_scores(queries, [LOOK, "put {} on {}", TAKE])
    supervised = [
        2.0 * template_loss(scores, torch.tensor([[True, True, True], [True, False, True]])),
        5.0 * sum(object_loss(output.slots, output.valid) for output in outputs),
    ]
    weights = {"value_weight": CONFIG.value_weight, "entropy_weight": CONFIG.entropy_weight}
    loss = a2c_loss(outputs, [0, 0], [1.0 + 0.9 * 1.0, 1.0], **weights)
    (loss.total + sum(supervised)).backward()
    for (name, one), other in zip(made.agent.named_parameters(), agent.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4, msg=name)
    losses = used.pop_losses()
    assert losses["loss_template"] == pytest.approx(supervised[0].item() / 2)
    assert losses["loss_object"] == pytest.approx(supervised[1].item() / 2)
    assert losses["loss_policy"] == pytest.approx(loss.policy.item() / 2)


def parameters_with_gradient(loss: torch.Tensor, made: CaseBasedReasoner) -> set[str]:
    loss.backward()
    found = made.agent.decoders.named_parameters()
    return {
        name.partition(".")[0] for name, value in found if value.grad is not None and value.grad.abs().sum() > 0
    }


def test_each_loss_reaches_its_own_decoder():
    made = player()
    (output,) = decoded(made.agent, SEEN)
    scores = made.agent.template_scores(output.query[None], [LOOK, TAKE])
    template = template_loss(scores, torch.tensor([[True, False]]))
    assert parameters_with_gradient(template, made) == {"template_step", "template_query"}
    made = player()
    (output,) = decoded(made.agent, SEEN)
    reached = {"template_step", "start", "hear", "object_step", "object_query"}
    assert parameters_with_gradient(object_loss(output.slots, output.valid), made) == reached


def test_without_weight_it_is_a2c_to_the_bit():
    made, twin = player(), player()
    learn(made, learner(template_weight=0, object_weight=0), own_step(made, ending=Ending.LOST))
    learn(twin, A2cLearner(), own_step(twin, ending=Ending.LOST))
    assert all(map(torch.equal, made.agent.state_dict().values(), twin.agent.state_dict().values()))


def test_reused_steps_are_judged_as_a2c_is_told():
    assert learner(outcome_steps=3).inner.config.outcome_steps == 3


def test_steps_that_are_not_the_agents_own_are_not_supervised():
    made = player()
    own = own_step(made, ending=Ending.LOST)
    other = Transition(SEEN, Decision(SEEN.admissible[0], "person"), own.result, own.trace)
    losses = learn(made, learner(), other).pop_losses()
    assert (losses["loss_template"], losses["loss_object"]) == (None, None)


def test_templates_are_known_in_the_order_in_which_they_came_also_after_a_resume():
    made, used = player(), learner()
    first = sample_observation(admissible=(TAKE_CUP,))
    learn(made, used, own_step(made, first), own_step(made), own_step(made, first, Ending.LOST))
    assert list(used.beside.templates) == [TAKE, LOOK, "put {} on {}"]
    kept, other = used.tensors(), learner()
    assert (kept[TEMPLATES].dtype, kept[ADMISSIBLE].dtype) == (torch.uint8, torch.double)
    other.begin([player()], CONFIG, Streams(3), Stopwatch())
    other.load_tensors(kept)
    assert other.beside.templates == used.beside.templates == {TAKE: 0, LOOK: 1, "put {} on {}": 2}
    assert other.metrics() == used.metrics() != learner().metrics()


def test_how_probable_it_is_that_what_is_generated_is_admissible():
    """Of two known templates, each with its objects: the sum over the admissible commands."""
    made, used = player(), learner()
    (output,) = decoded(made.agent, OTHER)
    scores = made.agent.template_scores(output.query[None], [LOOK, TAKE])[0].softmax(0)
    cup = output.slots[0][0].exp()[OTHER.graph.index["cup"]]
    learn(made, used, own_step(made, OTHER, Ending.LOST))
    assert used.metrics()["generated_admissible"] == pytest.approx(
        float((scores[0] + scores[1] * cup).detach()), rel=1e-4
    )


def test_an_agent_without_decoders_is_told_which_to_take():
    with pytest.raises(CbrError, match="decoders") as caught:
        learner().begin([sample_player()], CONFIG, Streams(0), Stopwatch())
    assert "cbr_kga2c/decoder" in str(caught.value.hint)


# -- in a run ----------------------------------------------------------------------------------------------------


def test_a_resumed_run_ends_with_the_same_bytes(here, tmp_path):
    sets = ["agent={use: cbr_kga2c/decoder, hidden: 8}", "run.checkpoint_every=1", "recorders=[]"]
    words = [word for each in sets for word in ("--set", each)]
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    assert here("run", SMOKE, *words, "--set", "run.episodes=2", "--out", straight).returncode == 0
    assert here("run", SMOKE, *words, "--set", "run.episodes=1", "--out", stopped).returncode == 0
    done = here("run", "--resume", stopped, "--set", "run.episodes=2")
    assert done.returncode == 0, done.stderr
    same(straight, stopped)
    last = rows(straight)[-1]
    assert last["loss_template"] > 0
    assert last["loss_object"] > 0
    assert 0 < last["generated_admissible"] < 1


# -- what it learns ----------------------------------------------------------------------------------------------


@cache
def trained(seed: int, **settings: float) -> tuple[CaseBasedReasoner, Supervised]:
    """After 160 plays of the toy: a thing is put where it belongs, in at least two of at most ten steps."""
    torch.manual_seed(seed)
    made, used, streams = CaseBasedReasoner(decoder(BUILD)), learner(**settings), Streams(seed)
    used.begin([made], CONFIG.model_copy(update={"entropy_weight": 0.01}), streams, Stopwatch())
    play(made, streams, 160, used)
    return made, used


def play(made: CaseBasedReasoner, streams: Streams, count: int, used: Learner | None = None) -> float:
    """Steps per play."""
    seat = Seat(ToyEnvironment(), FrozenActor(made, streams.numpy("play"), greedy=False))
    plays = [(("books", "plates")[number % 2], number) for number in range(count)]
    more = {} if used is None else {"observer": used}
    return sum(play_together([seat], [each], **more)[0].steps for each in plays) / count


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_to_put_things_in_their_places(seed: int):
    random = play(CaseBasedReasoner(RandomAgent(NoSettings(), BUILD)), Streams(seed), 60)
    made, _ = trained(seed)
    assert play(made, Streams(seed + 10), 60) < 0.7 * random


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_supervised_decoders_generate_what_is_admissible(seed: int):
    """Without the losses nothing tells the decoders so: pi is over admissible commands whatever they generate."""
    _, supervised = trained(seed)
    _, without = trained(seed, template_weight=0, object_weight=0)
    found, baseline = (each.metrics()["generated_admissible"] for each in (supervised, without))
    assert found > baseline + 0.2
