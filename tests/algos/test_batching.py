"""Batching. Traps T29, T43, T46, T47 and T49 of the reported faults."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learner_fixtures import tiny_rows

from algos.learning.batching import SHARED_SPREAD, even_batches, micro_batches, pad_rows, shared_batches, tokens_of
from algos.types import Batch, Row


def test_by_hand():
    rows = [Row((5, 6), (7, 8, 9), (-1.0, -2.0, -3.0), 0.5), Row((4,), (3,), (-4.0,), -1.5)]
    batch = pad_rows(rows)
    assert batch.input_ids_BS.tolist() == [[5, 6, 7, 8, 9], [4, 3, 0, 0, 0]]
    assert batch.attention_mask_BS.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert batch.position_ids_BS.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert batch.predicts_BS.int().tolist() == [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0]]
    assert batch.target_ids_N.tolist() == [7, 8, 9, 3]
    assert batch.mask_BT.int().tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.old_logp_BT.tolist() == [[-1, -2, -3], [-4, 0, 0]]
    assert batch.advantages_B.tolist() == [0.5, -1.5]
    assert batch.ref_logp_BT is None


@pytest.mark.parametrize("token", [0, 1, 36])
def test_masks_come_from_lengths_never_from_ids(token):
    """A completion of nothing but the id that padding has, or that ends a sequence, is masked like any other."""
    rows = tiny_rows(4)
    uniform = [
        replace(r, prompt_ids=(token,) * len(r.prompt_ids), completion_ids=(token,) * len(r.completion_ids)) for r in rows
    ]
    ours, expected = pad_rows(uniform), pad_rows(rows)
    for name in ("mask_BT", "predicts_BS", "attention_mask_BS"):
        assert torch.equal(getattr(ours, name), getattr(expected, name))
    assert int(ours.mask_BT.sum()) == sum(len(row.completion_ids) for row in rows)


def test_empty_completion():
    batch = pad_rows([Row((1, 2), (), (), 1.0), Row((3,), (4, 5), (-1.0, -2.0), 1.0)])
    assert batch.mask_BT.int().tolist() == [[0, 0], [1, 1]]
    assert batch.target_ids_N.tolist() == [4, 5]
    nothing = pad_rows([Row((1,), (), (), 1.0)])
    assert nothing.mask_BT.shape == (1, 0)
    assert nothing.target_ids_N.tolist() == []


def test_turns_of_one_contest_have_their_own_masks():
    """The second turn's prompt holds the first turn's text; only its own tokens are trained."""
    first = Row((1, 2), (3, 4), (-1.0, -1.0), 1.0)
    second = Row((1, 2, 3, 4, 5), (6,), (-2.0,), -1.0)
    batch = pad_rows([first, second])
    assert batch.target_ids_N.tolist() == [3, 4, 6]
    assert batch.predicts_BS[1].int().tolist() == [0, 0, 0, 0, 1, 0]


def test_reference_logprobs():
    rows = tiny_rows(3, ref=True)
    batch = pad_rows(rows)
    for index, row in enumerate(rows):
        torch.testing.assert_close(batch.ref_logp_BT[index, : len(row.completion_ids)], torch.tensor(row.ref_logprobs))


ROW = Row((1,), (2, 3), (-1.0, -2.0), 1.0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        ([replace(ROW, prompt_ids=())], "row 0 has no prompt"),
        ([ROW, replace(ROW, old_logprobs=(-1.0,))], "row 1 has 2 completion tokens but 1 old_logprobs"),
        ([replace(ROW, old_logprobs=(-1.0, float("-inf")))], "old_logprobs of row 0 are not finite"),
        ([replace(ROW, ref_logprobs=(-1.0, float("nan")))], "ref_logprobs of row 0 are not finite"),
        ([ROW, replace(ROW, ref_logprobs=(-1.0, -2.0))], "only some rows have ref_logprobs"),
    ],
)
def test_bad_rows_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        pad_rows(rows)


@given(lengths=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), max_size=30), budget=st.integers(1, 100))
def test_micro_batches_cover_every_row_once_within_the_budget(lengths, budget):
    rows = [Row((1,) * p, (2,) * c, (-1.0,) * c, 1.0) for p, c in lengths]
    pieces = micro_batches(rows, budget)
    assert sorted(index for piece in pieces for index in piece) == list(range(len(rows)))
    longest = [max(sum(lengths[index]) for index in piece) for piece in pieces]
    assert longest == sorted(longest, reverse=True)
    for piece, width in zip(pieces, longest, strict=True):
        assert len(piece) * width <= budget or len(piece) == 1


@given(
    rows=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 9)), max_size=30), budget=st.integers(1, 60)
)
def test_shared_batches_cover_every_row_once_and_count_a_prompt_once(rows, budget):
    rows = [Row((name,) * p, (2,) * c, (-1.0,) * c, 1.0) for name, p, c in rows]
    pieces = shared_batches(rows, budget)
    assert sorted(index for piece in pieces for index in piece) == list(range(len(rows)))
    for piece in pieces:
        prompts = {rows[index].prompt_ids for index in piece}
        tokens = sum(map(len, prompts)) + sum(len(rows[index].completion_ids) for index in piece)
        spread = sum(len(rows[index].prompt_ids + rows[index].completion_ids) for index in piece)
        assert (tokens <= budget and spread <= SHARED_SPREAD * budget) or len(piece) == 1


def test_rows_of_one_prompt_stay_together_and_the_longest_come_first():
    prompts = [(1,) * 3, (2,) * 20, (3,) * 3]
    rows = [Row(prompts[index % 3], (4,) * (1 + index), (-1.0,) * (1 + index), 1.0) for index in range(9)]
    pieces = shared_batches(rows, 42)
    assert pieces[0][0] == 7
    assert [{rows[index].prompt_ids for index in piece} for piece in pieces] == [{prompts[1]}, {prompts[2], prompts[0]}]


def test_rows_of_one_prompt_are_divided_only_where_they_must_be():
    prompts = [(1,) * 3, (2,) * 3, (3,) * 3]
    rows = [Row(prompts[index % 3], (4,) * 5, (-1.0,) * 5, 1.0) for index in range(9)]
    for budget, sizes in {18: [3, 3, 3], 35: [3, 3, 3], 36: [6, 3], 17: [2, 1, 2, 1, 2, 1]}.items():
        assert [len(piece) for piece in shared_batches(rows, budget)] == sizes


@given(
    rows=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 9)), max_size=30), budget=st.integers(1, 200)
)
@pytest.mark.parametrize("divide", [micro_batches, shared_batches])
def test_even_batches_are_as_many_as_before_and_none_is_larger(divide, rows, budget):
    rows = [Row((name,) * p, (2,) * c, (-1.0,) * c, 1.0) for name, p, c in rows]
    before, pieces = divide(rows, budget), even_batches(divide, rows, budget)
    assert len(pieces) == len(before)
    assert sorted(index for piece in pieces for index in piece) == list(range(len(rows)))
    assert all(tokens_of([rows[index] for index in piece]) <= budget or len(piece) == 1 for piece in pieces)


def test_the_last_micro_batch_is_as_large_as_the_others():
    rows = [Row((index,), (4,) * 9, (-1.0,) * 9, 1.0) for index in range(22)]
    assert [len(piece) for piece in shared_batches(rows, 100)] == [10, 10, 2]
    assert [len(piece) for piece in even_batches(shared_batches, rows, 100)] == [8, 8, 6]
    assert even_batches(shared_batches, rows[:3], 100) == shared_batches(rows[:3], 100)


@pytest.mark.parametrize("divide", [micro_batches, shared_batches])
def test_budget_is_checked(divide):
    with pytest.raises(ValueError, match="token_budget"):
        divide([ROW], 0)


@pytest.mark.parametrize("bad", [{"temperature": 0.0}, {"normalizer": 0.0}])
def test_batch_is_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Batch((ROW,), **bad)
