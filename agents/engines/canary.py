"""Does a server answer with the adapter that it was sent? Its log-probabilities of a few probes tell.

An adapter that never reached the sampler, the rival's adapter, or keys and values that an older one left in the prefix
cache: each looks like nothing at all, but for a run that does not learn (verl#7495, ms-swift#9855, vllm#30931). So after
every push the server is asked for the next token after some fixed prompts, and its numbers are compared with those of the
model here: they must be near to the adapter that was sent, and nearer to it than to any other that they could be from.

Dimension suffixes: `P` probes, `V` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from agents.errors import AdapterNotServed

if TYPE_CHECKING:
    from agents.shared_base import SharedBase

PROBES = 4
TOP = 20
"""Tokens of each probe whose log-probabilities the server reports; the most that vLLM gives unless it is told otherwise."""
TOLERANCE = 0.02
"""Least root-mean-square difference, in nats, that is an error; more where the server's bare base differs by more."""
MOST_NOISE = 0.5
"""Root-mean-square difference, in nats, above which the server's base is another model."""
EVIDENCE = 8.0
"""How many times the noise the difference of two adapters must be, over all numbers, before they can be told apart."""

Reading: TypeAlias = Sequence[Mapping[int, float]]
"""For each probe: token → log-probability of it as the next one, as the server reports them."""


def make_probes(base: SharedBase, *, length: int) -> list[tuple[int, ...]]:
    """Return prompts of random tokens, always the same ones.

    Args:
        base: whose vocabulary.
        length: tokens of a prompt. Longer than a block of the prefix cache, or the cache is not put to the test.
    """
    rng = np.random.default_rng(0)
    words = [token for token in range(base.model.config.get_text_config().vocab_size) if token not in base.eos_ids]
    return [tuple(rng.choice(words, length).tolist()) for _ in range(PROBES)]


def own_logprobs(base: SharedBase, adapter: str | None, probes: Sequence[Sequence[int]]) -> Tensor:
    """Return what the model here says of every next token under an adapter, shape (P, V), in nats, on the CPU."""
    ids = torch.tensor(probes, device=base.model.device)
    with torch.no_grad(), base.use(adapter):
        logits_PV = base.model(input_ids=ids, use_cache=False).logits[:, -1]
    return logits_PV.float().log_softmax(-1).cpu()


def check_reading(
    name: str,
    reading: Reading,
    expected_PV: Tensor,
    *,
    others: Mapping[str, Tensor],
    noise: float,
    tolerance: float = TOLERANCE,
) -> float:
    """Check that a server's numbers are those of the adapter that was sent.

    Args:
        name: of the adapter, for messages.
        reading: what the server says.
        expected_PV: what the model here says under the adapter.
        others: what it says under the adapters that could be served instead, by names for messages.
        noise: root-mean-square difference between the server and the model here under the bare base.
        tolerance: see `TOLERANCE`.

    Returns:
        The root-mean-square difference, in nats.

    Raises:
        AdapterNotServed: the numbers are those of another adapter, or of none that is known.
    """
    seen = _values(reading)
    wanted = _values(reading, expected_PV)
    gap = _rms(seen, wanted)
    gaps = {other: _rms(seen, _values(reading, other_PV)) for other, other_PV in others.items()}
    for other in sorted(others, key=gaps.__getitem__):
        other_PV = others[other]
        apart = _rms(wanted, _values(reading, other_PV)) * math.sqrt(len(seen))
        if gaps[other] < gap and apart > EVIDENCE * max(noise, 1e-6):
            raise AdapterNotServed(
                f"the engine was sent {name!r} but samples from {other}: its log-probabilities differ from those of {name!r} "
                f"by {gap:.3g} nats and from those of {other} by {gaps[other]:.3g}. Nothing that it sampled since the last "
                "push may be learned from. Look whether the adapter's folder can be read where the engine runs, whether the "
                "engine has LoRA switched on, and whether its prefix cache was reset"
            )
    if not gap <= max(tolerance, 10 * noise):
        raise AdapterNotServed(
            f"the log-probabilities of the engine differ from those of {name!r} by {gap:.3g} nats, and by {noise:.3g} under "
            "the bare base; they are those of no adapter that is known here. Look at the engine's numeric type, its "
            "max_lora_rank and the version of its model"
        )
    return gap


def base_noise(reading: Reading, own_PV: Tensor) -> float:
    """Return how far a server's numbers are from those of the model here under the bare base: root mean square, in nats.

    Raises:
        AdapterNotServed: so far that it is another model.
    """
    noise = _rms(_values(reading), _values(reading, own_PV))
    if not noise <= MOST_NOISE:
        raise AdapterNotServed(
            f"without any adapter the log-probabilities of the engine differ by {noise:.3g} nats from those of the model here: "
            "it serves another model, another revision of it, or in another numeric type"
        )
    return noise


def _values(reading: Reading, own_PV: Tensor | None = None) -> list[float]:
    if own_PV is None:
        return [value for probe in reading for value in probe.values()]
    return [own_PV[place, token].item() for place, probe in enumerate(reading) for token in probe]


def _rms(one: Iterable[float], other: Iterable[float]) -> float:
    return float(np.sqrt(np.mean(np.square(np.subtract(list(one), list(other))))))
