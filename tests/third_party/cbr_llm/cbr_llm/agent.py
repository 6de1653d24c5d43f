"""A language model as the agent: how likely is each admissible command, given what was seen and retrieved?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from cbrcore import Action, AgentInput, Build, Candidate, ModelError, PolicyOutput
from torch import Tensor, nn

from cbr_llm.config import LlmConfig
from cbr_llm.model import load_model
from cbr_llm.prompt import UNUSABLE, Prompt, Step, case_lines, fitting, step_of
from cbr_llm.scoring import each_alone, shared_prefix

Asked = tuple[tuple[int, ...], tuple[str, ...]]
"""The tokens of a prompt, and the commands."""


class LlmAgent(nn.Module):
    """pi(a|s) = softmax over A_t of (log p(a | prompt) - log p(a | prior)) / |a| / temperature; V(s) = 0.

    It learns nothing, and the model is no submodule: it has no part in checkpoints, which hold what a run has
    learned. The recurrent state is the last steps of the episode.

    Attributes:
        handicaps: what the model knew before the first play.

    Raises:
        ModelError: the model is not here, or something is wrong with it.
    """

    def __init__(self, config: LlmConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.device = torch.device(build.device)
        self._loaded = load_model(config, build.recipe_dir, build.device)
        self.handicaps: Mapping[str, Any] = {"language_model": self._loaded.note}
        self._known: dict[Asked, Tensor] = {}
        self._priors: dict[tuple[int, ...], Tensor] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.model!r})"

    def initial_state(self) -> tuple[Step, ...]:
        """No steps; what was computed in the last episode is forgotten."""
        self._known.clear()
        return ()

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], a value of zero, and the steps so far, for each input."""
        return [self._one(item) for item in inputs]

    def scores(self, prompt: Prompt) -> Tensor:
        """[A]: the log-likelihood of each admissible command, normalised; computed once an episode."""
        commands = tuple(action.text for action in prompt.observation.admissible)
        written = [self._tokens(f" {command}{self.config.ending}") for command in commands]
        room = self._room(max(map(len, written)))
        tokens = fitting(prompt, self.config.template, self._prompt_tokens, room)
        asked = (tuple(tokens), commands)
        if asked not in self._known:
            told = self._likelihoods(tokens, written) - self._prior(written)
            self._known[asked] = told / self._sizes(commands, written)
        return self._known[asked]

    def _one(self, item: AgentInput) -> PolicyOutput:
        steps: tuple[Step, ...] = item.state or ()
        seen = item.observation
        prompt = Prompt(seen, case_lines(item.candidates, self.config), steps)
        logits = self.scores(prompt) / self.config.temperature
        kept = (*steps, step_of(seen))[-self.config.history :] if self.config.history else ()
        return PolicyOutput(logits, torch.zeros((), device=self.device), kept)

    def _likelihoods(self, prompt: list[int], commands: list[list[int]]) -> Tensor:
        if self.config.share_prefix:
            return shared_prefix(self._loaded.model, prompt, commands, self.config.batch_size)
        return each_alone(self._loaded.model, prompt, commands)

    def _prior(self, commands: list[list[int]]) -> Tensor:
        """[A]: what each command's log-likelihood is behind a text that tells nothing; computed once a run."""
        if self.config.prior is None:
            return torch.zeros(len(commands), device=self.device)
        nothing = self._prompt_tokens(self.config.prior)
        for command in commands:
            if tuple(command) not in self._priors:
                self._priors[tuple(command)] = each_alone(self._loaded.model, nothing, [command])[0]
        return torch.stack([self._priors[tuple(command)] for command in commands])

    def _sizes(self, commands: Sequence[str], written: Sequence[Sequence[int]]) -> Tensor:
        """[A]: what the log-likelihoods are divided by."""
        sizes = {
            "tokens": [len(tokens) for tokens in written],
            "characters": [len(command) for command in commands],
            "nothing": [1] * len(commands),
        }[self.config.normalise]
        return torch.tensor(sizes, device=self.device, dtype=torch.float32).clamp(min=1)

    def _tokens(self, text: str) -> list[int]:
        found: list[int] = self._loaded.tokenizer.encode(text, add_special_tokens=False)
        if not found:
            raise ModelError(
                f"the tokenizer of {self.config.model!r} makes nothing of {text!r}", hint="another model"
            )
        return found

    def _prompt_tokens(self, text: str) -> list[int]:
        """With what the model wants at the beginning of a text."""
        return list(self._loaded.tokenizer.encode(text)) or self._tokens(">")

    def _room(self, longest_command: int) -> int | None:
        """Tokens that a prompt may have so that the longest command fits behind it."""
        limits = [self.config.max_prompt]
        if self._loaded.longest is not None:
            limits.append(max(1, self._loaded.longest - longest_command))
        given = [limit for limit in limits if limit is not None]
        return min(given) if given else None


class LlmReviser(LlmAgent):
    """The model does the revise step itself (a `RevisingAgent`): its action is executed at every step, and its
    prompt tells all that the case memory offers in this state, also what could be done at once."""

    def revise(self, candidates: Sequence[Candidate], drawn: Action) -> Candidate | None:
        """Of the usable candidates that offered the action which the model has chosen, the most relevant one."""
        offered = [each for each in candidates if each.action == drawn and each.verdict not in UNUSABLE]
        return max(offered, key=lambda each: each.match.relevance, default=None)
