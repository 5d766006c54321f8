"""The lessons of the embedded model: turns of duels, as the writers of its two tasks would take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from agents.embedded.searcher import Searcher, SearchHabits
from agents.embedded.writer import Fact, Habits, Writer
from agon_env.games.draft_challenge import DraftChallenge
from agon_env.tasks.arithmetic import Arithmetic
from agon_env.tasks.chain_search import ChainSearch
from agon_env.tasks.task import Problem, Task

POOL = 512
"""Turns of each lesson that are drawn together and sorted by length, to save padding."""
CUT_SHARE = 0.15
"""Share of the drafts that are cut off somewhere, as a limit of tokens does it."""


STUDIOUS = SearchHabits(search=1, careful=1, give_up=0.1, copy=0.05, check=0.55)
"""Habits that show the reasoning."""


class Author(Protocol):
    """Who answers the problems of one task."""

    def answer(self, problem: Problem, draft: str | None, rng: np.random.Generator) -> str:
        """Answer; `draft` is what the rival wrote, None without a rival."""
        ...


class Lesson(NamedTuple):
    """A task, who drafts, and whose turns are learned."""

    task: Task
    drafter: Author
    author: Author


class Turn(NamedTuple):
    """Token ids of what a player reads and of what it answers."""

    prompt: list[int]
    answer: list[int]


class Batch(NamedTuple):
    """Turns, padded on the right; `is_target_BT` marks the tokens of the answers."""

    ids_BT: Tensor
    is_target_BT: Tensor
    typical_targets: float
    """Mean number of targets of the batches of its pool: dividing by it gives each token of a pool the same weight."""


@dataclass(frozen=True)
class Syllabus:
    """What is taught, and in which order."""

    false_beliefs: Mapping[Fact, tuple[float, int]]
    seed: int
    """Of the tasks."""
    chain_habits: Habits = field(default_factory=Habits)
    search_habits: SearchHabits = field(default_factory=SearchHabits)
    longest: int = 14
    """Greatest number of steps of a chain."""
    longest_search: int = 5
    """Greatest number of steps of a chain that is to end with 0."""
    chain_growth: int = 75
    """Batches after which the chains, two steps at first, grow by a step: short ones teach to look up."""
    search_growth: int = 150
    """Batches after which the searches, one try of one step at first, grow by a try and a step."""

    def study(self, batch: int) -> list[Lesson]:
        """Return the lessons of pure reasoning after so many batches.

        The drafts are habitual ones. Drafts that always work out every step are copied from before the single
        steps are learned, and training then often stays there.
        """
        chains = Arithmetic(difficulty=(1, min(self.longest, 2 + batch // self.chain_growth)), seed=self.seed)
        reasoner = Writer(self.false_beliefs, Habits(reason=1, solve=1, copy=0))
        grown = 1 + batch // self.search_growth
        searches = ChainSearch(difficulty=(1, min(self.longest_search, grown)), seed=self.seed)
        most = min(self.search_habits.most, grown)
        searcher = Searcher(self.false_beliefs, replace(STUDIOUS, most=most))
        return [
            Lesson(chains, Writer(self.false_beliefs, self.chain_habits), reasoner),
            Lesson(searches, Searcher(self.false_beliefs, replace(self.search_habits, most=most)), searcher),
        ]

    def practice(self) -> list[Lesson]:
        """Return the lessons of all behaviours."""
        chains = Arithmetic(difficulty=(1, self.longest), seed=self.seed)
        writer = Writer(self.false_beliefs, self.chain_habits)
        searches = ChainSearch(difficulty=(2, self.longest_search), seed=self.seed)
        searcher = Searcher(self.false_beliefs, self.search_habits)
        return [Lesson(chains, writer, writer), Lesson(searches, searcher, searcher)]


def batches(
    lessons: Callable[[int], Sequence[Lesson]], tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator, *, tokens: int
) -> Iterator[Batch]:
    """Yield batches without end.

    Args:
        lessons: number of batches that have been made → what to teach next.
        tokenizer: the model's.
        rng: makes all choices.
        tokens: most tokens of a batch, padding included.
    """
    made = 0
    while True:
        drawn = [draw_turn(lesson, tokenizer, rng) for lesson in lessons(made) for _ in range(POOL)]
        pool = list(cut_into_batches(sorted(drawn, key=lambda turn: len(turn.prompt) + len(turn.answer)), tokens=tokens))
        targets = sum(len(turn.answer) for turn in drawn) / len(pool)
        for i in rng.permutation(len(pool)):
            yield Batch(*collate(pool[i], tokenizer.pad_token_id), targets)
        made += len(pool)


def draw_turn(lesson: Lesson, tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> Turn:
    """Return a turn of either role."""
    contest = DraftChallenge(lesson.task)
    contest.reset(options={"index": int(rng.integers(2**62))})
    draft = None
    if rng.random() < 0.5:
        draft = lesson.drafter.answer(contest.problem, None, rng)
        if rng.random() < CUT_SHARE:
            draft = draft[: rng.integers(len(draft))]
        contest.step(draft)
    answer = lesson.author.answer(contest.problem, draft, rng)
    ids = tokenizer([render(contest, tokenizer), answer + tokenizer.eos_token])["input_ids"]
    return Turn(*ids)


def render(contest: DraftChallenge, tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the prompt of the player to move in chat format."""
    messages = list(contest.observe().messages)
    return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def cut_into_batches(turns: Sequence[Turn], *, tokens: int) -> Iterator[list[Turn]]:
    """Cut turns, sorted by length, into batches of at most `tokens`, padding included."""
    batch: list[Turn] = []
    for turn in turns:
        if batch and (len(batch) + 1) * (len(turn.prompt) + len(turn.answer)) > tokens:
            yield batch
            batch = []
        batch.append(turn)
    yield batch


def collate(turns: Sequence[Turn], pad: int) -> tuple[Tensor, Tensor]:
    """Return `(ids_BT, is_target_BT)`, padded on the right."""
    length = max(len(turn.prompt) + len(turn.answer) for turn in turns)
    ids_BT = torch.full((len(turns), length), pad)
    is_target_BT = torch.zeros(len(turns), length, dtype=torch.bool)
    for i, turn in enumerate(turns):
        end = len(turn.prompt) + len(turn.answer)
        ids_BT[i, :end] = torch.tensor(turn.prompt + turn.answer)
        is_target_BT[i, len(turn.prompt) : end] = True
    return ids_BT, is_target_BT
