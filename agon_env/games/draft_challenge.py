"""`DraftChallenge`, the contest of Agon (arXiv 2607.07690): one drafts, the other reads the draft and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.quoting import quote, strip_thoughts
from agon_env.rewards import RewardRule
from agon_env.tasks import Problem, Task, load_task
from agon_env.types import FrozenDict, Reward
from agon_env.verifiers import Verdict
from agon_env.verifiers.ahead import VerdictsAhead, begin_verdicts, finish_verdicts
from agon_env.verifiers.extraction import extract_answer

Reveal = Literal["draft", "thinking", "answer", "nothing"]
"""How much of a draft a challenger reads: the "draft" without its hidden reasoning; "thinking", with it; its final "answer"
alone; or "nothing", so that the challenger reads what the drafter has read."""


class ProblemContest(Contest):
    """A contest about one problem of a task, in which every role gives an answer that is verified."""

    option_names = frozenset({"index"})
    scores_are_verdicts = True
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
        reveal: Reveal = "draft",
        **options: Any,
    ) -> None:
        """Make a duel.

        Args:
            task: a task, or the name of one.
            reward: name of a reward rule, or a rule.
            bonus: λ of the competitive rule.
            reveal: how much of the draft the challenger reads; see `Reveal`.
            **options: see `ProblemContest`.

        Raises:
            TypeError: answers are to be revealed, and the task's verifier can't extract them.
            ValueError: there is no such `reveal`.
        """
        check_reveal(reveal)
        super().__init__(task, reward=reward, bonus=bonus, **options)
        if reveal == "answer" and not hasattr(self.task.verifier, "extract"):
            raise TypeError(
                f"the verifier of {self.task.name} does not say what the answer in a draft is: give it the method "
                'extract(completion, gold) of agon_env.verifiers.Verifier, or take another `reveal` than "answer"'
            )
        self.reveal = reveal

    def prompt(self, role: str) -> str:
        """Return the question; for the challenger also what it may read of the draft, quoted so that it can't pose as more."""
        question = super().prompt(role)
        if role == "drafter":
            return question
        return challenge_prompt(question, self.texts["drafter"], reveal=self.reveal, extract=self._answer)

    def _answer(self, draft: str) -> str | None:
        """Return the answer that the draft is judged by, None where it is judged without one."""
        credited = self._credited().get("drafter")
        return None if credited is None else self.task.verifier.extract(*credited)

    def visible_to(self, role: str) -> tuple[str, ...]:
        """Return both players where a whole text is read by the other, else the speaker alone."""
        return self.players if self.reveal in ("draft", "thinking") else (self.player_of[role],)


DRAFT_INTRODUCTION = "A rival has answered. The answer is quoted below; it may be wrong."
CHALLENGE = "Check it, then give your own solution."
NO_ANSWER = "A rival has tried, and has given no answer. Give your own solution."


def check_reveal(reveal: str) -> None:
    """Refuse what is no `Reveal`.

    Raises:
        ValueError: the message names those that there are.
    """
    if reveal not in get_args(Reveal):
        raise ValueError(f"reveal must be one of {', '.join(map(repr, get_args(Reveal)))}, not {reveal!r}")


def challenge_prompt(
    question: str, draft: str, *, reveal: Reveal = "draft", extract: Callable[[str], str | None] = extract_answer
) -> str:
    """Return what a challenger reads.

    Args:
        question: the question with its instruction.
        draft: the rival's whole text.
        reveal: how much of it is quoted.
        extract: a draft → its final answer, None if it has none.
    """
    if reveal == "nothing":
        return question
    if (shown := revealed(draft, reveal, extract=extract)) is None:
        return f"{question}\n\n{NO_ANSWER}"
    return f"{question}\n\n{DRAFT_INTRODUCTION}\n\n{quote(shown)}\n\n{CHALLENGE}"


def revealed(
    draft: str, reveal: Literal["draft", "thinking", "answer"], *, extract: Callable[[str], str | None] = extract_answer
) -> str | None:
    """Return what may be read of a draft; None where that is its answer, and it has none."""
    match reveal:
        case "thinking":
            return draft
        case "draft":
            return strip_thoughts(draft)
        case "answer":
            return extract(draft)


def _check_bool(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, not {flag!r}")
