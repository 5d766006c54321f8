"""The learner beside what it could be: the plain path, PEFT's switch, repeated prompts, the bare matrix products.

    python benchmarks/learner.py [--only head update switch nested padding] [--repeats 5] [--output learner.json]

`head`     log-probabilities and loss of 4,096 tokens over 151,936 words, against logits → log_softmax → gather → backward
`update`   tokens per second of `forward_backward` on SmolLM2-135M (every prompt its own), against the matrix products
           that a frozen base needs: forward, and backward to activations; by torch's product and by oneDNN's
`switch`   `with base.use(name)`, there and back, against one call of PEFT's `set_adapter`
`nested`   8 answers to one problem with its draft, the prompt computed once, against repeating it
`padding`  rows of uneven length on the embedded model, packed against padded

The sides of a comparison take turns. Needs `pip install 'agon-env[smollm2]'`. Set OMP_NUM_THREADS to choose the cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from measure import machine, publish, spread
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from agents.policy import LLMPolicy
from agents.products import product
from agents.shared_base import SharedBase
from algos.learner import LocalLearner
from algos.learning.batching import Completions, completion_tensors
from algos.learning.logprobs import token_logprobs
from algos.learning.memory import PeakMemory
from algos.losses import policy_loss
from algos.types import Batch, Row

TOKENS, VOCABULARY = 4096, 151_936
RANK = 8


def take_turns(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each side, after one call of each that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: Mapping[str, list[float]], over: str, under: str) -> dict[str, Any]:
    """Return how many times as long `over` took as `under`, turn by turn."""
    return spread([a / b for a, b in zip(seconds[over], seconds[under], strict=True)])


# --- log-probabilities and loss ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Given(Completions):
    """Rows whose hidden states are there already, so that nothing but the head and the loss is measured."""

    hidden_ND: Tensor

    def predictors(self, decoder: nn.Module) -> Tensor:
        """Return them."""
        return self.hidden_ND


def measure_head(repeats: int, width: int) -> dict[str, Any]:
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=8, num_hidden_layers=1)
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    ids = torch.randint(VOCABULARY, (8, TOKENS // 8)).tolist()
    rows = [Row((0,), tuple(row), (-11.0,) * len(row), (-1.0) ** index) for index, row in enumerate(ids)]
    hidden_ND = torch.randn(TOKENS, width, requires_grad=True)
    given = Given(hidden_ND=hidden_ND, **completion_tensors(rows, device="cpu"))
    found: dict[str, tuple[Tensor, ...]] = {}

    def finish(logp_BT: Tensor, name: str) -> None:
        loss, _ = policy_loss(logp_BT, given.old_logp_BT, given.advantages_B, given.mask_BT)
        (gradient,) = torch.autograd.grad(loss, hidden_ND)
        found[name] = loss.detach(), gradient

    def plain() -> None:
        logp_NV = model.lm_head(hidden_ND).float().log_softmax(-1)
        finish(logp_NV.gather(-1, given.target_ids_N[:, None]).view(given.mask_BT.shape), "plain")

    def agon() -> None:
        finish(token_logprobs(model, given)[0], "agon")

    memory, peaks = PeakMemory(torch.device("cpu")), {"plain": [], "agon": []}

    def watched(name: str, run: Callable[[], None]) -> None:
        before = memory.now()
        memory.reset()
        run()
        peaks[name].append(memory.peak() - before)

    seconds = take_turns({"plain": lambda: watched("plain", plain), "agon": lambda: watched("agon", agon)}, repeats)
    for ours, expected in zip(found["agon"], found["plain"], strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-6)
    peak = {name: spread(values) for name, values in peaks.items()}
    return {
        "tokens": TOKENS,
        "vocabulary": VOCABULARY,
        "width": width,
        "peak_gib": peak,
        "memory_share": round(peak["agon"]["median"] / peak["plain"]["median"], 3),
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "time_ratio": ratio(seconds, "agon", "plain"),
    }


# --- the update against the matrix products ---------------------------------------------------------


def make_rows(vocabulary: int, lengths: list[tuple[int, int]], *, prompts: int | None = None, seed: int = 0) -> list[Row]:
    """Return rows of these lengths of prompt and completion; `prompts`: how many different ones, default all."""
    rng = Random(seed)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(vocabulary) for _ in range(count))

    starts = [ids(length) for length, _ in lengths[:prompts]]
    return [
        Row(starts[index % len(starts)], ids(length), (-5.0,) * length, 1.0 if index % 2 else -1.0)
        for index, (_, length) in enumerate(lengths)
    ]


def learner_of(model: str, rank: int) -> tuple[LocalLearner, LLMPolicy]:
    base = SharedBase.load(model)
    policy = base.policy("alice", rank=rank)
    return LocalLearner(base), policy


def update(learner: LocalLearner, policy: LLMPolicy, rows: list[Row], *, packed: bool = True) -> None:
    learner._packs = packed
    learner.forward_backward(policy, Batch(tuple(rows)))
    learner._optimizer(policy).drop_gradient()


def linear_products(learner: LocalLearner, *, tokens: int, scored: int, multiply: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Do the products of one update: of `tokens` through the layers, of `scored` through the head, there and back."""
    model = learner.base.model
    head = model.get_output_embeddings()
    linears = [module for module in model.get_decoder().modules() if type(module) is nn.Linear]
    layers = [linear for linear in linears if min(linear.weight.shape) > RANK]  # without the adapter's factors
    for layer, count in [*((layer, tokens) for layer in layers), (head, scored)]:
        x_NI = torch.empty(count, layer.in_features).fill_(0.5)
        multiply(multiply(x_NI, layer.weight), layer.weight.T)


def measure_update(repeats: int, rank: int) -> dict[str, Any]:
    learner, policy = learner_of("smollm2-135m", rank)
    rows = make_rows(learner.base.model.config.vocab_size, [(128, 128)] * 8)
    tokens = sum(len(row.prompt_ids) + len(row.completion_ids) - 1 for row in rows)
    scored = sum(len(row.completion_ids) for row in rows)
    sides: dict[str, Callable[[], object]] = {"agon": lambda: update(learner, policy, rows)}
    for name, multiply in {"torch": F.linear, "onednn": product}.items():
        sides[f"products_{name}"] = lambda multiply=multiply: _no_grad(
            lambda: linear_products(learner, tokens=tokens, scored=scored, multiply=multiply)
        )
    seconds = take_turns(sides, repeats)
    return {
        "model": "smollm2-135m",
        "rank": rank,
        "tokens": tokens,
        "tokens_per_second": {name: spread([tokens / value for value in values], 1) for name, values in seconds.items()},
        "share_of_limit": {name: ratio(seconds, name, "agon") for name in sides if name != "agon"},
    }


def _no_grad(run: Callable[[], None]) -> None:
    with torch.no_grad():
        run()


# --- switches, shared prompts, padding --------------------------------------------------------------


def measure_switch(repeats: int) -> dict[str, Any]:
    base = SharedBase.load("smollm2-135m")
    for name in ("alice", "bob"):
        base.policy(name, rank=RANK)
    peft: Any = base.adapters.peft
    names = ["alice", "bob"] * 10

    def ours() -> None:
        for name in names:
            with base.use(name):
                pass

    def theirs() -> None:
        for name in names:
            peft.set_adapter(name)

    seconds = take_turns({"agon": ours, "peft": theirs}, repeats)
    return {
        "model": "smollm2-135m",
        "milliseconds": {name: spread([1e3 * value / len(names) for value in values]) for name, values in seconds.items()},
        "times_as_fast": ratio(seconds, "peft", "agon"),
    }


def measure_nested(repeats: int) -> dict[str, Any]:
    learner, policy = learner_of("smollm2-135m", RANK)
    rows = make_rows(learner.base.model.config.vocab_size, [(256, 32)] * 8, prompts=1)
    seconds = take_turns(
        {"shared": lambda: update(learner, policy, rows), "repeated": lambda: update(learner, policy, rows, packed=False)},
        repeats,
    )
    return {
        "model": "smollm2-135m",
        "answers": 8,
        "prompt_tokens": 256,
        "answer_tokens": 32,
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "times_as_fast": ratio(seconds, "repeated", "shared"),
    }


def measure_padding(repeats: int) -> dict[str, Any]:
    learner, policy = learner_of("embedded", RANK)
    rng = Random(0)
    lengths = [(rng.randint(30, 60), rng.randint(4, 96)) for _ in range(64)]
    rows = make_rows(learner.base.model.config.vocab_size, lengths)
    seconds = take_turns(
        {"packed": lambda: update(learner, policy, rows), "padded": lambda: update(learner, policy, rows, packed=False)},
        repeats,
    )
    return {
        "model": "embedded",
        "rows": len(rows),
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "times_as_fast": ratio(seconds, "padded", "packed"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("head", "update", "switch", "nested", "padding"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--width", type=int, default=512, help="width of the hidden states of `head`")
    parser.add_argument("--output", help="where to write the JSON as well")
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "switch": lambda: measure_switch(arguments.repeats),
        "padding": lambda: measure_padding(arguments.repeats),
        "nested": lambda: measure_nested(arguments.repeats),
        "update": lambda: measure_update(arguments.repeats, RANK),
        "head": lambda: measure_head(arguments.repeats, arguments.width),
    }
    report: dict[str, Any] = {"machine": machine("torch", "transformers", "peft") | {"threads": torch.get_num_threads()}}
    for name, part in parts.items():
        if not arguments.only or name in arguments.only:
            report[name] = part()
    publish(report, arguments.output)


if __name__ == "__main__":
    main()
