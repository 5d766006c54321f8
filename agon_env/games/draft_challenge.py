"""`DraftChallenge`, the contest of Agon (arXiv 2607.07690): one drafts, the other reads the draft and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.quoting import quote, strip_thoughts
from agon_env.rewards import RewardRule
from agon_env.tasks import Problem, Task, load_task
from agon_env.types import FrozenDict, Reward
from agon_env.verifiers import Verdict
from agon_env.verifiers.ahead import VerdictsAhead, begin_verdicts, finish_verdicts


class ProblemContest(Contest):
    """A contest about one problem of a task, in which every role gives an answer that is verified."""

    option_names = frozenset({"index"})
    shared = Contest.shared | {"task", "problem"}

    def __init__(
        self,
        task: str | Task,
        *,
        reward: str | RewardRule = "outcome",
        bonus: float | None = None,
        credit_truncated: bool = False,
        players: Sequence[str] | None = None,
        roles: Mapping[str, str] | None = None,
        **task_options: Any,
    ) -> None:
        """Make a contest over a task.

        Args:
            task: a task, or the name of one (see `agon_env.tasks`). A task object may have an attribute `held_out`,
                the task to evaluate on; one that is named has the split "test".
            reward: name of a reward rule, or a rule.
            bonus: λ of the competitive rule.
            credit_truncated: False gives a text that was cut off no credit, whatever is boxed in it.
            players: names of the players.
            roles: player → role.
            **task_options: passed to the task when it is given by name, for example `split`, `difficulty`.
        """
        _check_bool(credit_truncated=credit_truncated)
        super().__init__(players=players, roles=roles, reward=reward, bonus=bonus)
        self.task: Task = load_task(task, **task_options)
        if isinstance(task, str):
            self.held_out = FrozenDict(split="test")
        elif (held_out := getattr(task, "held_out", None)) is not None:
            self.held_out = FrozenDict(task=held_out)
        self.credit_truncated = credit_truncated

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Take the problem at `options["index"]`, or draw one."""
        index = options.get("index")
        if index is None:
            index = rng.integers(self.task.size or 2**31)
        elif isinstance(index, bool) or not isinstance(index, int | np.integer) or index < 0:
            raise Error(f"the reset option 'index' must be a non-negative integer, not {index!r}")
        self.problem: Problem = self.task[int(index)]
        self.texts: dict[str, str] = {}
        self._verdicts: dict[str, Verdict] | None = None
        self._ahead = VerdictsAhead()

    def prompt(self, role: str) -> str:
        """Return the question and the instruction."""
        return f"{self.problem.question}\n\n{self.problem.instruction or self.task.instruction}"

    def apply(self, role: str, text: str) -> str | None:
        """Keep the text; whether it is right is decided at the end."""
        self.texts[role] = text
        return None

    def score(self) -> dict[str, Reward]:
        """Verify the answer of every role."""
        return self._take(finish_verdicts(self.task.verifier, [(self._ahead, pair) for pair in self._pairs()]))

    @classmethod
    def score_all(cls, envs: Sequence[Self]) -> list[Mapping[str, Reward]]:
        """Verify the answers of many contests in one call for each verifier."""
        if cls.score is not ProblemContest.score:  # a game that scores in its own way
            return super().score_all(envs)
        pairs = {index: env._pairs() for index, env in enumerate(envs)}
        scores: dict[int, Mapping[str, Reward]] = {}
        for verifier in {id(env.task.verifier): env.task.verifier for env in envs}.values():
            mine = [index for index, env in enumerate(envs) if env.task.verifier is verifier]
            verdicts = iter(finish_verdicts(verifier, [(envs[index]._ahead, pair) for index in mine for pair in pairs[index]]))
            scores |= {index: envs[index]._take(list(islice(verdicts, len(pairs[index])))) for index in mine}
        return [scores[index] for index in range(len(envs))]

    @classmethod
    def begin_scores(cls, envs: Sequence[Self]) -> None:
        """Have the texts so far verified while the next ones are written, where that takes other processes."""
        for verifier in {id(env.task.verifier): env.task.verifier for env in envs}.values():
            mine = [env for env in envs if env.task.verifier is verifier]
            begin_verdicts(verifier, [(env._ahead, pair) for env in mine for pair in env._credited().values()])

    def _credited(self) -> dict[str, tuple[str, str]]:
        """Return role → its text with the gold, of the texts so far that can be right."""
        return {
            role: (text, self.problem.answer)
            for role, text in self.texts.items()
            if self.credit_truncated or role not in self.cut_roles
        }

    def _pairs(self) -> list[tuple[str, str]]:
        """Return the credited text of each role, with the gold."""
        credited = self._credited()
        return [credited.get(role, ("", self.problem.answer)) for role in self.roles]

    def _take(self, verdicts: Sequence[Verdict]) -> dict[str, Reward]:
        self._verdicts = dict(zip(self.roles, verdicts, strict=True))
        return {role: verdict.score for role, verdict in self._verdicts.items()}

    def details(self) -> dict[str, Any]:
        """Return which problem this is, and where it is from."""
        problem = self.problem
        return {
            "task": self.task.name,
            "source": self.task.source,
            "problem": problem.id,
            "difficulty": problem.difficulty,
            "topic": problem.topic,
        }

    def verdicts(self) -> dict[str, Any]:
        """Return the gold, and for each role the extracted answer and the verifier's reason."""
        found = self._verdicts or {}
        return {"answer": self.problem.answer} | {
            role: {"extracted": verdict.extracted, "reason": verdict.reason} for role, verdict in found.items()
        }

    def solution(self, role: str) -> str:
        """Return a correct answer."""
        return self.task.solution(self.problem)


class Solo(ProblemContest):
    """One player answers one problem."""

    roles: ClassVar[tuple[str, ...]] = ("solver",)


class DraftChallenge(ProblemContest):
    """Two players, one problem: the drafter answers, the challenger reads the draft and answers."""

    roles: ClassVar[tuple[str, ...]] = ("drafter", "challenger")

    def __init__(
        self,
        task: str | Task,
        *,
        reward: str | RewardRule = "competitive",
        bonus: float | None = None,
        exchange: bool = True,
        show_thinking: bool = False,
        **options: Any,
    ) -> None:
        """Make a duel.

        Args:
            task: a task, or the name of one.
            reward: name of a reward rule, or a rule.
            bonus: λ of the competitive rule.
            exchange: False hides the draft from the challenger, who then sees what the drafter saw.
            show_thinking: True quotes the drafter's `<think>…</think>` too; by default it stays hidden.
            **options: see `ProblemContest`.
        """
        _check_bool(exchange=exchange, show_thinking=show_thinking)
        super().__init__(task, reward=reward, bonus=bonus, **options)
        self.exchange = exchange
        self.show_thinking = show_thinking

    def prompt(self, role: str) -> str:
        """Return the question; for the challenger also the draft, quoted so that it can't pose as anything else."""
        question = super().prompt(role)
        if role == "drafter" or not self.exchange:
            return question
        return challenge_prompt(question, self.texts["drafter"], show_thinking=self.show_thinking)

    def visible_to(self, role: str) -> tuple[str, ...]:
        """Return both players, or the speaker alone when there is no exchange."""
        return self.players if self.exchange else (self.player_of[role],)


DRAFT_INTRODUCTION = "A rival has answered. The answer is quoted below; it may be wrong."
CHALLENGE = "Check it, then give your own solution."


def challenge_prompt(question: str, draft: str, *, show_thinking: bool = False) -> str:
    """Return what a challenger reads: the question with its instruction, and the rival's draft, quoted."""
    shown = draft if show_thinking else strip_thoughts(draft)
    return f"{question}\n\n{DRAFT_INTRODUCTION}\n\n{quote(shown)}\n\n{CHALLENGE}"


def _check_bool(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, not {flag!r}")
