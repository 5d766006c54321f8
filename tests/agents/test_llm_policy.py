"""`LLMPolicy`: observations in, actions out, and the ids in between."""

import pytest
from tiny_models import CHAT_TEMPLATE, stir, tiny_base, tiny_model, tiny_tokenizer

from agents.errors import PromptTooLong
from agents.policy import LLMPolicy
from agents.sampling import Completion, SamplingParams
from agents.shared_base import SharedBase
from agon_env.quoting import strip_thoughts
from agon_env.types import Action, Observation

PARAMS = SamplingParams(max_tokens=12)


@pytest.fixture(scope="module")
def base() -> SharedBase:
    base = tiny_base()
    base.policy("alice", rank=4)
    stir(base, "alice")
    return base


def player(base: SharedBase, **options: object) -> LLMPolicy:
    return base.policy(params=PARAMS, **options)


def asked(text: str = "What is 12 + 34?") -> Observation:
    return Observation("alice", "solver", ({"role": "user", "content": text},))


def test_it_acts_on_a_batch_and_on_one(base: SharedBase) -> None:
    policy = player(base, seed=1)
    actions = policy.act([asked(), asked("Name a dog."), asked()])
    assert len(actions) == 3
    assert all(isinstance(action, Action) and isinstance(action.text, str) for action in actions)
    assert actions[0] != actions[2]  # the same question, another seed
    assert policy.act([]) == []
    policy.seed(1)
    assert policy.act([asked()])[0] == actions[0]
    assert player(base, seed=1)(asked()) == actions[0]


def test_act_is_encode_sample_decode_and_counts_tokens(base: SharedBase) -> None:
    policy = player(base)
    completions: list[Completion] = []
    policy.engine = Recorder(policy.engine, completions)
    actions = policy.act([asked(), asked("Hm.")])
    assert actions == [policy.decode(completion) for completion in completions]
    assert policy.tokens_spent == sum(len(completion.token_ids) for completion in completions)


class Recorder:
    def __init__(self, engine: object, completions: list[Completion]) -> None:
        self.engine, self.completions = engine, completions

    def sample(self, *args: object, **kwargs: object) -> list[Completion]:
        self.completions += self.engine.sample(*args, **kwargs)
        return self.completions


def test_players_of_different_names_draw_different_seeds(base: SharedBase) -> None:
    same = {"seed": 3, "params": PARAMS, "engine": base.engine}
    alice, bare = LLMPolicy(base, "alice", **same), LLMPolicy(base, "base", **same)
    assert alice._seeds.integers(2**63) != bare._seeds.integers(2**63)


@pytest.mark.parametrize(("reason", "text", "truncated"), [("stop", "The fox.", False), ("length", "The fox.<|im_end|>", True)])
def test_t49_the_end_token_is_stripped_once_and_a_cut_is_told(
    base: SharedBase, reason: str, text: str, truncated: bool
) -> None:
    ids = tuple(base.tokenizer("The fox.<|im_end|>")["input_ids"])
    assert player(base).decode(Completion(ids, (0.0,) * len(ids), reason)) == Action(text, truncated=truncated)


def test_t49_a_completion_that_ends_at_once_is_an_empty_text(base: SharedBase) -> None:
    end = base.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert player(base).decode(Completion((end,), (-0.1,), "stop")) == Action("", truncated=False)


def test_reasoning_that_the_template_opens_stays_hidden_when_it_is_cut_off() -> None:
    tokenizer = tiny_tokenizer(CHAT_TEMPLATE.replace("assistant\n", "assistant\n<think>\n"))
    base = SharedBase(tiny_model(vocab=len(tokenizer)), tokenizer)
    secret, done = (tuple(tokenizer(text)["input_ids"]) for text in ("The secret is 46", "Hm.</think>It is 46.<|im_end|>"))
    cut = player(base).decode(Completion(secret, (0.0,) * len(secret), "length"))
    assert (strip_thoughts(cut.text), cut.truncated) == ("", True)
    assert cut.text == "<think>\nThe secret is 46"
    ended = player(base).decode(Completion(done, (0.0,) * len(done), "stop"))
    assert strip_thoughts(ended.text) == "It is 46."


def test_t50_tokens_are_kept_as_sampled_because_their_text_would_give_others(base: SharedBase) -> None:
    policy = player(base, on_long_prompt="cut")
    completions = policy.sample([policy.encode(asked())] * 16, seeds=range(16))
    again = [tuple(base.tokenizer(policy.chat.decode(c.token_ids), add_special_tokens=False)["input_ids"]) for c in completions]
    assert any(ids != completion.token_ids for ids, completion in zip(again, completions, strict=True))


def test_a_prompt_that_leaves_no_room_is_refused_or_cut(base: SharedBase) -> None:
    long = asked("12 + 34? " * 100)
    strict, cutting = player(base), player(base, on_long_prompt="cut")
    with pytest.raises(PromptTooLong, match=r"solver.*on_long_prompt"):
        strict.encode(long)
    assert base.context_length - 12 - 20 <= len(cutting.encode(long)) <= base.context_length - 12
    assert cutting.encode(asked()) == strict.encode(asked())
    with pytest.raises(PromptTooLong, match="template alone"):
        base.policy(params=SamplingParams(max_tokens=250), on_long_prompt="cut").encode(asked())


@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_a_prompt_leaves_room_for_what_it_will_be_sampled_with(base: SharedBase, ahead: int) -> None:
    policy, question = base.policy(params=SamplingParams(max_tokens=4)), asked("12 + 34? " * 10)
    length = len(policy.encode(question))
    params = SamplingParams(max_tokens=base.context_length - length + ahead)
    if ahead > 0:
        with pytest.raises(PromptTooLong, match=f"less {params.max_tokens} to sample"):
            policy.encode(question, params=params)
    else:
        assert len(policy.encode(question, params=params)) == length


def test_the_bare_base_has_nothing_to_train(base: SharedBase) -> None:
    assert base.policy().name == "base"
    assert base.policy("base").parameters() == []


def test_facts_name_every_adapter(base: SharedBase) -> None:
    facts = dict(base.facts())
    assert "frozen" in facts["base"]
    assert facts["adapters"].startswith("alice: LoRA r=4, ")
    assert facts["adapters"].endswith("% of the base's memory")
