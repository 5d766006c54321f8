"""`/v1/completions` for the official client: texts that go on, prompts of token ids, log-probabilities, what is refused."""

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from small_run import Running, make_run, serving  # noqa: E402

from agents import SamplingParams  # noqa: E402
from agents.policy import LLMPolicy  # noqa: E402
from algos.serving.app import Limits  # noqa: E402
from algos.training.trained import load_trained  # noqa: E402

PROMPT = "Start with 3 a+9=2 b+7="


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(make_run(tmp_path_factory.mktemp("runs")), limits=Limits(concurrency=20)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="unused", max_retries=0) as found:
        yield found


@pytest.fixture(scope="module")
def alice(tmp_path_factory: pytest.TempPathFactory) -> LLMPolicy:
    return load_trained(make_run(tmp_path_factory.mktemp("runs"))).policies["alice"]


def ids(policy: LLMPolicy, text: str) -> list[int]:
    return policy.base.tokenizer(text)["input_ids"]


def test_a_text_goes_on_as_the_policy_goes_on_from_its_tokens(client: openai.OpenAI, alice: LLMPolicy) -> None:
    (said,) = alice.sample([ids(alice, PROMPT)], params=SamplingParams(20, 0.0), seeds=[0])
    reply = client.completions.create(model="alice", prompt=PROMPT, max_tokens=20, temperature=0)
    assert reply.choices[0].text == alice.decode(said).text
    assert reply.choices[0].finish_reason == said.finish_reason
    assert reply.object == "text_completion"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (len(ids(alice, PROMPT)), len(said.token_ids))


def test_token_ids_give_what_their_text_gives(client: openai.OpenAI, alice: LLMPolicy) -> None:
    asked = {"model": "alice", "max_tokens": 12, "temperature": 0}
    text = client.completions.create(prompt=PROMPT, **asked).choices[0].text
    assert client.completions.create(prompt=ids(alice, PROMPT), **asked).choices[0].text == text
    both = client.completions.create(prompt=[ids(alice, PROMPT), ids(alice, PROMPT)], **asked)
    assert [choice.text for choice in both.choices] == [text, text]


def test_several_prompts_with_several_choices_come_in_order_and_a_seed_repeats_them(client: openai.OpenAI) -> None:
    asked = {"model": "bob", "prompt": ["1 a+1", PROMPT], "n": 2, "temperature": 2.0, "seed": 5, "max_tokens": 8, "echo": True}
    first, second = client.completions.create(**asked), client.completions.create(**asked)
    texts = [choice.text for choice in first.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2, 3]
    assert all(text.startswith("1 a+1") for text in texts[:2])
    assert all(text.startswith(PROMPT) for text in texts[2:])
    assert len(set(texts)) == 4
    assert texts == [choice.text for choice in second.choices]
    alone = [client.completions.create(**{**asked, "prompt": prompt}).usage.prompt_tokens for prompt in asked["prompt"]]
    assert first.usage.prompt_tokens == sum(alone)  # a prompt counts once, however many choices it has


def test_without_a_limit_there_are_sixteen_tokens(client: openai.OpenAI) -> None:
    reply = client.completions.create(model="base", prompt="Start with 3 a+9 b+7 c*9 d+7 e-5 f*9 g*3 h*9 i-2 j*3 k+1", seed=1)
    assert reply.usage.completion_tokens <= 16


@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_brings_the_same_text_in_pieces(client: openai.OpenAI, echo: bool) -> None:
    asked = {"model": "alice", "prompt": PROMPT, "temperature": 1.5, "seed": 11, "max_tokens": 24, "echo": echo}
    whole = client.completions.create(**asked)
    events = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    texts = [choice.text for event in events for choice in event.choices]
    assert "".join(texts) == whole.choices[0].text
    assert len(list(filter(None, texts))) > 4
    reasons = [choice.finish_reason for event in events for choice in event.choices if choice.finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert events[-1].usage == whole.usage


def test_a_stop_sequence_ends_the_text_and_not_the_echo(client: openai.OpenAI) -> None:
    asked = {"model": "alice", "prompt": PROMPT, "temperature": 2.0, "seed": 9, "max_tokens": 24}
    whole = client.completions.create(**asked).choices[0].text
    stop = whole[3:5]
    cut = client.completions.create(**asked, stop=stop).choices[0]
    assert (cut.text, cut.finish_reason) == (whole[: whole.index(stop)], "stop")
    assert client.completions.create(**asked, stop="Start", echo=True).choices[0].text.startswith(PROMPT)
    scored = client.completions.create(**asked, stop=stop, logprobs=0).choices[0]
    assert "".join(scored.logprobs.tokens) == scored.text == cut.text


def expected(policy: LLMPolicy, tokens: list[int]) -> torch.Tensor:
    """The model's own log-probabilities, by transformers alone."""
    with torch.no_grad(), policy.base.use(policy.name):
        return policy.base.model(input_ids=torch.tensor([tokens])).logits[0].float().log_softmax(-1)


def test_the_log_probabilities_are_those_of_the_model(client: openai.OpenAI, alice: LLMPolicy) -> None:
    prompt = ids(alice, PROMPT)
    (said,) = alice.sample([prompt], params=SamplingParams(6, 0.0), seeds=[0])
    reply = client.completions.create(model="alice", prompt=PROMPT, max_tokens=6, temperature=0, echo=True, logprobs=3)
    found, tokens = reply.choices[0].logprobs, [*prompt, *said.token_ids]
    logp_SV = expected(alice, tokens)
    assert found.token_logprobs[0] is None
    own = [logp_SV[place, token].item() for place, token in enumerate(tokens[1:])]
    assert found.token_logprobs[1:] == pytest.approx(own, abs=1e-4)
    for place, likely in enumerate(found.top_logprobs[1:]):
        assert max(likely.values()) == pytest.approx(logp_SV[place].max().item(), abs=1e-4)
    assert "".join(found.tokens) == alice.chat.decode(tokens)
    assert [reply.choices[0].text[offset] for offset in found.text_offset[:5]] == [token[0] for token in found.tokens[:5]]
    without = client.completions.create(model="alice", prompt=PROMPT, max_tokens=6, temperature=0, logprobs=3)
    assert without.choices[0].logprobs.token_logprobs == pytest.approx(found.token_logprobs[len(prompt) :], abs=1e-5)


def test_each_policy_scores_with_its_own_adapter_whatever_waits_beside_it(client: openai.OpenAI, alice: LLMPolicy) -> None:
    asked = {"prompt": PROMPT, "max_tokens": 0, "echo": True, "logprobs": 1}
    scored = {model: client.completions.create(model=model, **asked).choices[0] for model in ("alice", "bob", "base")}
    sums = {model: sum(choice.logprobs.token_logprobs[1:]) for model, choice in scored.items()}
    assert len({round(value, 3) for value in sums.values()}) == 3
    assert {choice.text for choice in scored.values()} == {PROMPT}
    assert scored["alice"].finish_reason == "length"
    prompt = ids(alice, PROMPT)
    logp_SV = expected(alice, prompt)
    assert sums["alice"] == pytest.approx(sum(logp_SV[i, token].item() for i, token in enumerate(prompt[1:])), abs=1e-3)


def test_the_token_that_ends_a_text_is_scored_too(client: openai.OpenAI, alice: LLMPolicy) -> None:
    """lm-eval takes the last score for that of a sampled token, whatever it was."""
    ended = PROMPT + "9 \\boxed{9}"
    reply = client.completions.create(model="alice", prompt=ended, max_tokens=1, temperature=0, echo=True, logprobs=1)
    assert len(reply.choices[0].logprobs.token_logprobs) == len(ids(alice, ended)) + 1


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"model": "pair"}, openai.BadRequestError, "chat/completions"),
        ({"model": "nobody"}, openai.NotFoundError, "there are pair, alice"),
        ({"prompt": ""}, openai.BadRequestError, "the prompt is empty"),
        ({"prompt": []}, openai.BadRequestError, "the prompt is empty"),
        ({"prompt": [[]]}, openai.BadRequestError, "the prompt is empty"),
        ({"prompt": {"a": 1}}, openai.BadRequestError, "prompt must be a text"),
        ({"prompt": [1, "a"]}, openai.BadRequestError, "prompt must be a text"),
        ({"prompt": [True]}, openai.BadRequestError, "prompt must be a text"),
        ({"prompt": [10**9]}, openai.BadRequestError, "token ids of this model are from 0 to"),
        ({"prompt": [-1]}, openai.BadRequestError, "token ids of this model are from 0 to"),
        ({"prompt": [10**30]}, openai.BadRequestError, "token ids of this model are from 0 to"),
        ({"prompt": "1+" * 5000}, openai.BadRequestError, "shorten"),
        ({"prompt": [5] * 5000}, openai.BadRequestError, "shorten"),
        ({"prompt": ["a"] * 21}, openai.BadRequestError, "20 completions"),
        ({"max_tokens": 0}, openai.BadRequestError, "only with echo"),
        ({"max_tokens": 10**6}, openai.BadRequestError, "max_tokens may be at most"),
        ({"logprobs": 6}, openai.BadRequestError, "logprobs"),
        ({"logprobs": 1, "stream": True}, openai.BadRequestError, "not supported in a stream"),
        ({"best_of": 2}, openai.BadRequestError, "best_of is not supported"),
        ({"suffix": "end"}, openai.BadRequestError, "suffix is not supported"),
        ({"extra_body": {"messages": []}}, openai.BadRequestError, "unrecognized request argument: messages"),
    ],
)
def test_what_is_refused_says_why(client: openai.OpenAI, asked: dict, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as refused:
        client.completions.create(**{"model": "alice", "prompt": PROMPT, **asked})
    assert refused.value.type == "invalid_request_error"


def test_neutral_values_of_unsupported_parameters_are_taken(client: openai.OpenAI) -> None:
    neutral = {"top_p": 1, "best_of": 1, "suffix": "", "presence_penalty": 0, "user": "me"}
    assert client.completions.create(model="base", prompt="1", max_tokens=1, **neutral).usage.completion_tokens == 1
