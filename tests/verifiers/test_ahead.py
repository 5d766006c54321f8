"""Verdicts that are made while the rival's tokens are sampled."""

import copy
import os
import pickle
import threading
import time
from typing import ClassVar

import pytest

from agon_env.errors import Error
from agon_env.games.draft_challenge import DraftChallenge
from agon_env.tasks import load_task
from agon_env.types import Action
from agon_env.vector import VectorContest
from agon_env.verifiers.verdict import Verdict

SECONDS = 0.5


class SlowVerifier:
    """Waits, as for other processes, and says whether the text holds the gold."""

    out_of_process: ClassVar[bool] = True

    def __init__(self):
        self.calls = []
        self.threads = []

    def score(self, completion, gold):
        return self.score_many([(completion, gold)])[0]

    def score_many(self, pairs):
        self.calls.append(list(pairs))
        self.threads.append(threading.current_thread())
        time.sleep(SECONDS)
        return [Verdict(float(gold in text), text, "slow") for text, gold in pairs]


class InProcessVerifier(SlowVerifier):
    out_of_process = False


def contests(verifier, n=3):
    task = copy.copy(load_task("arithmetic"))
    task.verifier = verifier
    vector = VectorContest([DraftChallenge(task) for _ in range(n)])
    vector.reset(seed=0)
    return vector


def draft(vector, *, right=(0,)):
    vector.step({i: vector.envs[i].problem.answer if i in right else "none" for i in vector.pending()})


def answer(vector):
    vector.step({i: vector.envs[i].problem.answer + " again" for i in vector.pending()})


def scores(vector):
    return [[outcome.scores[player] for player in outcome.scores] for outcome in vector.outcomes]


def test_drafts_are_verified_while_answers_are_written():
    """Drafts, sampling and answers would take three times as long one after another."""
    verifier = SlowVerifier()
    vector = contests(verifier)
    start = time.perf_counter()
    draft(vector)
    assert time.perf_counter() - start < SECONDS / 2
    time.sleep(SECONDS)  # sampling
    answer(vector)
    assert time.perf_counter() - start < 2.8 * SECONDS
    assert [len(call) for call in verifier.calls] == [3, 3]
    assert verifier.threads[0] is not threading.current_thread()
    assert verifier.threads[1] is threading.current_thread()
    assert scores(vector) == [[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]


def test_a_verifier_in_this_process_stays_out_of_the_way():
    verifier = InProcessVerifier()
    vector = contests(verifier)
    draft(vector)
    assert not verifier.calls
    answer(vector)
    assert verifier.threads == [threading.current_thread()]
    assert scores(vector) == [[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]


def test_forks_share_the_verdict_and_a_pickle_makes_it_again():
    verifier = SlowVerifier()
    vector = contests(verifier, n=1)
    draft(vector)
    forks = VectorContest([vector.envs[0], vector.envs[0].fork()])
    answer(forks)
    assert sorted(len(call) for call in verifier.calls) == [1, 2]
    assert scores(forks) == [[1.0, 1.0]] * 2
    again = contests(SlowVerifier(), n=1)
    draft(again)
    ahead = pickle.loads(pickle.dumps(again.envs[0]._ahead))
    assert ahead._begun == {}


def test_a_text_that_was_cut_off_is_not_verified_ahead():
    verifier = SlowVerifier()
    vector = contests(verifier, n=1)
    vector.step({0: Action(vector.envs[0].problem.answer, truncated=True)})
    assert not verifier.calls
    answer(vector)
    assert scores(vector) == [[0.0, 1.0]]


def test_an_error_of_the_verifier_comes_out_at_the_end():
    class Broken(SlowVerifier):
        def score_many(self, pairs):
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("the verifier broke")
            return super().score_many(pairs)

    vector = contests(Broken(), n=1)
    draft(vector)
    with pytest.raises(RuntimeError, match="the verifier broke"):
        answer(vector)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork")
def test_a_forked_process_makes_its_own():
    verifier = SlowVerifier()
    vector = contests(verifier, n=1)
    draft(vector)
    child = os.fork()
    if child == 0:
        answer(vector)
        os._exit(0 if scores(vector) == [[1.0, 1.0]] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Miscounting(SlowVerifier):
    """Gives one verdict more or less than it was asked for."""

    def __init__(self, extra):
        super().__init__()
        self.extra = extra

    def score_many(self, pairs):
        verdicts = [Verdict(1.0, text, "right") for text, _ in pairs]
        return (verdicts + verdicts[:1])[: len(pairs) + self.extra]


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("extra", [1, -1])
def test_verdicts_of_which_it_is_not_known_whose_they_are_pay_nobody(extra, ahead, monkeypatch):
    monkeypatch.setattr(Miscounting, "out_of_process", ahead)
    vector = contests(Miscounting(extra))
    draft(vector)
    with pytest.raises(Error, match=r"Miscounting.score_many gave \d verdicts on \d texts"):
        answer(vector)
    assert [env.outcome for env in vector.envs] == [None] * 3
