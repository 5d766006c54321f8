"""Tokens can be seen as they are drawn, rows ended early, and a row gone on with as if it had not stopped."""

from collections.abc import Collection, Sequence

import pytest

from agents import Request, SamplingParams, SharedBase
from agents.policy import LLMPolicy
from agents.sampling import Row


@pytest.fixture(scope="module")
def policy() -> LLMPolicy:
    return SharedBase.load("embedded", device="cpu").policy()


def prompt(policy: LLMPolicy, text: str) -> list[int]:
    return policy.chat.encode([{"role": "user", "content": text}])


PARAMS = SamplingParams(max_tokens=24, temperature=5.0)


def test_the_watcher_sees_every_token_of_every_row_once(policy: LLMPolicy) -> None:
    prompts = [prompt(policy, text) for text in ("1 + 1", "(7 - 2) * 3", "1 + 1", "9")]
    seen: dict[Row, list[int]] = {}

    def watch(rows: Sequence[Row], tokens: Sequence[int]) -> Collection[Row]:
        for row, token in zip(rows, tokens, strict=True):
            seen.setdefault(row, []).append(token)
        return ()

    requests = [Request(policy, prompts[:3], PARAMS, [1, 2, 3]), Request(policy, prompts[3:], PARAMS, [4])]
    found = policy.engine.sample_many(requests, watch=watch)
    assert [tuple(seen[0, place]) for place in range(3)] == [one.token_ids for one in found[0]]
    assert tuple(seen[1, 0]) == found[1][0].token_ids
    assert found == policy.engine.sample_many(requests)


def test_a_row_that_is_stopped_is_cut_off_there_and_the_others_go_on(policy: LLMPolicy) -> None:
    prompts = [prompt(policy, "12 * 12 - 5")] * 3
    whole = policy.sample(prompts, params=PARAMS, seeds=[1, 2, 3])
    steps = 0

    def watch(rows: Sequence[Row], tokens: Sequence[int]) -> Collection[Row]:
        nonlocal steps
        steps += 1
        return [(0, 1)] if steps == 4 else ()

    (found,) = policy.engine.sample_many([Request(policy, prompts, PARAMS, [1, 2, 3])], watch=watch)
    assert found[1].token_ids == whole[1].token_ids[:4]
    assert found[1].finish_reason == "length"
    assert [found[0].token_ids, found[2].token_ids] == [whole[0].token_ids, whole[2].token_ids]


def test_what_was_begun_goes_on_with_the_same_random_numbers(policy: LLMPolicy) -> None:
    ids = prompt(policy, "3 + 4 * 5")
    (whole,) = policy.sample([ids], params=PARAMS, seeds=[7])
    assert len(whole.token_ids) > 6
    first = whole.token_ids[:5]
    (found,) = policy.engine.sample_many([Request(policy, [[*ids, *first]], SamplingParams(19, 5.0), [7], begun=[5])])
    assert first + found[0].token_ids == whole.token_ids
