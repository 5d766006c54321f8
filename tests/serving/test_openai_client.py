"""The official client against the server: whole and streamed answers, the pair and each policy, errors as it knows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from small_run import Running, make_run, serving  # noqa: E402

from agents import Cascade, SamplingParams  # noqa: E402
from agon_env.types import Observation  # noqa: E402
from algos.training.trained import load_trained  # noqa: E402

QUESTION = [{"role": "user", "content": "What is (3 + 4) * 2?"}]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[Running]:
    with serving(run) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="unused", max_retries=0) as found:
        yield found


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["pair", "alice", "bob", "base"]
    assert client.models.retrieve("alice").id == "alice"


def test_the_pair_drafts_and_answers_as_the_cascade_does(client: openai.OpenAI, run: Path) -> None:
    reply = client.chat.completions.create(model="pair", messages=QUESTION, temperature=0, max_tokens=20)
    players = load_trained(run).policies
    for policy in players.values():
        policy.params = SamplingParams(20, 0.0)
    observation = Observation("user", "solver", QUESTION)
    draft = players["alice"](observation)
    answer = Cascade(players["alice"], players["bob"])(observation)
    message = reply.choices[0].message
    assert (message.reasoning_content, message.content) == (draft.text, answer.text)
    assert reply.choices[0].finish_reason == ("length" if answer.truncated else "stop")


def test_the_usage_counts_both_texts_and_both_prompts(client: openai.OpenAI, run: Path) -> None:
    reply = client.chat.completions.create(model="pair", messages=QUESTION, temperature=0, max_tokens=20)
    policies = load_trained(run).policies
    prompt = len(policies["alice"].chat.encode(QUESTION))
    used = reply.usage
    assert used.completion_tokens_details.reasoning_tokens > 0
    assert used.completion_tokens > used.completion_tokens_details.reasoning_tokens
    assert used.prompt_tokens > 2 * prompt  # the second prompt quotes the draft
    assert used.total_tokens == used.prompt_tokens + used.completion_tokens
    alone = client.chat.completions.create(model="alice", messages=QUESTION, temperature=0, max_tokens=20).usage
    assert alone.prompt_tokens == prompt
    assert alone.completion_tokens == used.completion_tokens_details.reasoning_tokens
    assert alone.completion_tokens_details.reasoning_tokens == 0


def test_a_stream_brings_the_same_text_in_pieces(client: openai.OpenAI) -> None:
    asked = {"model": "pair", "messages": QUESTION, "temperature": 1.5, "seed": 11, "max_tokens": 24}
    whole = client.chat.completions.create(**asked)
    drafted, answered, reasons, used = [], [], [], None
    for event in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        used = event.usage or used
        for choice in event.choices:
            drafted.append(getattr(choice.delta, "reasoning_content", None) or "")
            answered.append(choice.delta.content or "")
            reasons += [choice.finish_reason] if choice.finish_reason else []
    message = whole.choices[0].message
    assert ("".join(drafted), "".join(answered)) == (message.reasoning_content, message.content)
    assert reasons == [whole.choices[0].finish_reason]
    assert used == whole.usage
    assert len(list(filter(None, drafted + answered))) > 4  # token by token


def test_each_policy_answers_under_its_own_name(client: openai.OpenAI, run: Path) -> None:
    for name in ("alice", "bob"):
        policy = load_trained(run).policies[name]
        policy.params = SamplingParams(16, 0.0)
        reply = client.chat.completions.create(model=name, messages=QUESTION, temperature=0, max_tokens=16)
        assert reply.choices[0].message.content == policy(Observation("user", "solver", QUESTION)).text
        assert not hasattr(reply.choices[0].message, "reasoning_content")


def test_several_choices_differ_and_a_seed_repeats_them(client: openai.OpenAI) -> None:
    asked = {"model": "bob", "messages": QUESTION, "temperature": 2.0, "n": 3, "seed": 5, "max_tokens": 16}
    first, second = client.chat.completions.create(**asked), client.chat.completions.create(**asked)
    texts = [choice.message.content for choice in first.choices]
    assert len(set(texts)) > 1
    assert texts == [choice.message.content for choice in second.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2]


def test_a_stop_sequence_ends_the_answer_before_it(client: openai.OpenAI) -> None:
    asked = {"model": "alice", "messages": QUESTION, "temperature": 2.0, "seed": 3, "max_tokens": 24}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    stop = whole[3:5]
    cut = client.chat.completions.create(**asked, stop=[stop, "never said"])
    assert cut.choices[0].message.content == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    streamed = client.chat.completions.create(**asked, stop=stop, stream=True)
    assert "".join(event.choices[0].delta.content or "" for event in streamed) == whole[: whole.index(stop)]


def test_a_total_budget_is_kept_by_the_pair(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="pair", messages=QUESTION, temperature=2.0, seed=1, max_completion_tokens=10)
    assert reply.usage.completion_tokens <= 10
    assert reply.usage.completion_tokens_details.reasoning_tokens <= 5


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"model": "nobody"}, openai.NotFoundError, "there are pair, alice, bob, base"),
        ({"max_tokens": 10**6}, openai.BadRequestError, "max_tokens may be at most"),
        ({"n": 99}, openai.BadRequestError, "n may be at most"),
        ({"top_p": 0.5}, openai.BadRequestError, "top_p is not supported"),
        ({"temperature": 3.0}, openai.BadRequestError, "temperature"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"messages": [{"role": "user", "content": "1+" * 5000}]}, openai.BadRequestError, "shorten"),
        ({"messages": [{"role": "user", "content": "a" * 200_000}]}, openai.BadRequestError, "shorten"),
        ({"messages": [*QUESTION, {"role": "assistant", "content": "14"}]}, openai.BadRequestError, "the user's"),
        ({"extra_body": {"best_of": 3}}, openai.BadRequestError, "unrecognized request argument: best_of"),
        ({"max_completion_tokens": 1}, openai.BadRequestError, "speaks 2 times"),
        ({"stop": ["x"] * 99}, openai.BadRequestError, "stop sequences"),
        ({"stop": "x" * 1000}, openai.BadRequestError, "stop sequences"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_refused_says_why(client: openai.OpenAI, asked: dict, error: type[Exception], says: str, stream: bool) -> None:
    with pytest.raises(error, match=says) as refused:
        client.chat.completions.create(**{"model": "pair", "messages": QUESTION, "stream": stream, **asked})
    assert refused.value.body["message"]
    assert refused.value.type == "invalid_request_error"


def test_a_conversation_in_parts_and_with_a_system_message(client: openai.OpenAI) -> None:
    parts = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "(3 + 4) * 2?"}]},
    ]
    plain = [{"role": "system", "content": "Be brief."}, *QUESTION]
    asked = {"model": "alice", "temperature": 0, "max_tokens": 8}
    texts = [client.chat.completions.create(messages=said, **asked).choices[0].message.content for said in (parts, plain)]
    assert texts[0] == texts[1]


def test_neutral_values_of_unsupported_parameters_are_taken(client: openai.OpenAI) -> None:
    client.chat.completions.create(
        model="base", messages=QUESTION, max_tokens=2, top_p=1, presence_penalty=0, user="me", response_format={"type": "text"}
    )
