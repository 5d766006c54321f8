"""Who waits for whom in the one thread that samples; text out of tokens; stop sequences."""

import queue
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')

from scripted_engine import BlindEngine, ScriptedEngine

from agents import SharedBase
from agents.policy import LLMPolicy
from algos.serving.errors import APIError
from algos.serving.models import ServedModel
from algos.serving.prompts import Conversation
from algos.serving.text import StopSequences, TokenText
from algos.serving.worker import Worker
from algos.serving.writing import Asked, Begun, End, Event, Piece, Writing


@pytest.fixture(scope="module")
def base() -> SharedBase:
    return SharedBase.load("embedded", device="cpu")


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def make(**options: int) -> Worker:
        started.append(Worker(**options))
        started[-1].start()
        return started[-1]

    yield make
    for worker in started:
        worker.close()


def policy(base: SharedBase, engine: ScriptedEngine) -> LLMPolicy:
    (engine.token,) = base.tokenizer("7", add_special_tokens=False)["input_ids"]
    return base.policy(engine=engine)  # type: ignore[arg-type]


def asked(speakers: tuple[LLMPolicy, ...], tokens: int, *, temperature: float = 1.0, stop: tuple[str, ...] = ()) -> Asked:
    question = Conversation(({"role": "user", "content": "2 + 3"},))
    return Asked(ServedModel("m", speakers), question, tokens, None, temperature, 0, stop)


def submit(worker: Worker, what: Asked, said: list[str], name: str = "") -> "queue.SimpleQueue[Event]":
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def emit(event: Event) -> None:
        if isinstance(event, End | Exception):
            said.append(name)
        events.put(event)

    worker.submit(Writing(what, emit))
    return events


def text(events: "queue.SimpleQueue[Event]") -> tuple[str, End]:
    pieces = []
    while not isinstance(event := events.get(timeout=20), End):
        assert not isinstance(event, Exception), event
        pieces += [event.text] if isinstance(event, Piece) else []
    return "".join(pieces), event


def begun(events: "queue.SimpleQueue[Event]") -> None:
    while not isinstance(events.get(timeout=20), Begun):
        pass


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_short_question_does_not_wait_for_a_long_answer(
    base: SharedBase, start: Callable[..., Worker], temperature: float
) -> None:
    engine, said = ScriptedEngine(token=0, seconds=0.001), []
    who, worker = (policy(base, engine),), start(slice_tokens=4)
    long = submit(worker, asked(who, 400), said, "long")
    begun(long)
    short = submit(worker, asked(who, 5, temperature=temperature), said, "short")
    assert text(short)[0] == "7" * 5
    assert text(long)[0] == "7" * 400
    assert said == ["short", "long"]


def test_an_answer_does_not_wait_for_the_draft_of_another(base: SharedBase, start: Callable[..., Worker]) -> None:
    engine, said = ScriptedEngine(token=0, seconds=0.001), []
    speaker = policy(base, engine)
    worker = start(slice_tokens=4)
    long = submit(worker, asked((speaker,), 400), said, "long")
    begun(long)
    short = submit(worker, asked((speaker, speaker), 5), said, "short")
    assert text(short)[1].tokens == (5, 5)
    assert text(long)[0] == "7" * 400
    assert said == ["short", "long"]


def test_who_is_alone_is_never_interrupted(base: SharedBase, start: Callable[..., Worker]) -> None:
    engine, said = ScriptedEngine(token=0), []
    assert text(submit(start(slice_tokens=4), asked((policy(base, engine),), 300), said))[0] == "7" * 300
    assert engine.batches == [1]


def test_rows_beyond_the_limit_wait_for_a_place(base: SharedBase, start: Callable[..., Worker]) -> None:
    engine, said = ScriptedEngine(token=0, seconds=0.001), []
    who, worker = (policy(base, engine),), start(slice_tokens=4, max_rows=3)
    found = [submit(worker, asked(who, 10 + 10 * number), said, str(number)) for number in range(8)]
    assert [len(text(events)[0]) for events in found] == [10 + 10 * number for number in range(8)]
    assert max(engine.batches) == 3


def test_an_engine_that_shows_no_tokens_answers_in_chunks(base: SharedBase, start: Callable[..., Worker]) -> None:
    engine, said = BlindEngine(token=0), []
    speaker = policy(base, engine)
    events = submit(start(slice_tokens=16), asked((speaker, speaker), 40, stop=("7777777",)), said)
    found, end = text(events)
    assert found == "7" * 40  # the draft; the stop sequence stands at the very beginning of the answer
    assert (end.tokens, end.reason) == ((40, 7), "stop")
    assert len(engine.batches) == 3 + 1


def test_work_that_is_cancelled_ends_and_says_nothing_more(base: SharedBase, start: Callable[..., Worker]) -> None:
    engine, events = ScriptedEngine(token=0, seconds=0.001), []
    worker = start()
    writing = Writing(asked((policy(base, engine),), 1900), events.append)
    worker.submit(writing)
    while len(events) < 5:
        pass
    writing.cancel()
    assert text(submit(worker, asked((policy_of(writing),), 3), []))[0] == "777"
    assert not any(isinstance(event, End | Exception) for event in events)
    assert engine.steps < 1000


def policy_of(writing: Writing) -> LLMPolicy:
    return writing.asked.model.speakers[0]


def test_closing_fails_what_is_not_finished(base: SharedBase) -> None:
    engine, said = ScriptedEngine(token=0, seconds=0.001), []
    worker = Worker()
    worker.start()
    events = submit(worker, asked((policy(base, engine),), 1900), said)
    begun(events)
    worker.close()
    while not isinstance(event := events.get(timeout=5), APIError):
        pass
    assert event.status == 503


def test_closing_answers_what_was_not_even_looked_at(base: SharedBase) -> None:
    engine, said = BlindEngine(token=0, seconds=0.01), []
    worker, who = Worker(), (policy(base, engine),)
    worker.start()
    first = submit(worker, asked(who, 40), said)
    begun(first)
    while not engine.steps:  # the thread is in the engine, and sees nothing of what comes
        time.sleep(0.001)
    second = submit(worker, asked(who, 40), said)
    worker.close()
    late = submit(worker, asked(who, 40), said)
    for events in (second, late):
        assert isinstance(error := events.get(timeout=5), APIError)
        assert error.code == "shutting_down"


def test_a_stop_sequence_is_found_across_pieces_and_what_only_began_like_one_passes() -> None:
    stop = StopSequences(["END", "\n\n"])
    assert [stop.feed(piece) for piece in ("a E", "N", "x\n", "b", "E", "ND c")] == ["a ", "", "ENx", "\nb", "", ""]
    assert (stop.hit, stop.flush(), stop.feed("more")) == (True, "", "")
    open_end = StopSequences(["END"])
    assert (open_end.feed("EN"), open_end.flush(), open_end.hit) == ("", "EN", False)
    assert StopSequences([""]).feed("all") == "all"


def test_the_first_of_several_stop_sequences_counts() -> None:
    stop = StopSequences(["cd", "b"])
    assert (stop.feed("abcd"), stop.hit) == ("a", True)


@pytest.mark.parametrize(
    "said", ["(3 + 4) * 2 = 14. \\boxed{14}", "é漢🙂 U+2028: \u2028 <|im_end|>", "  spaces   \n\n\tand lines "]
)
def test_single_tokens_give_the_text_that_all_together_give(base: SharedBase, said: str) -> None:
    tokens = base.tokenizer(said, add_special_tokens=False)["input_ids"]
    stream = TokenText(base.tokenizer)
    pieces = [stream.add(token) for token in tokens]
    assert "".join(pieces) == base.policy().chat.decode(tokens)
    assert len(tokens) > 3
    assert "\ufffd" not in "".join(pieces)


def test_a_tokenizer_that_can_not_be_streamed_gives_its_text_at_the_end() -> None:
    assert TokenText(object()).add(5) == ""
