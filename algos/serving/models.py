"""What is served: the pair as one model, each policy under its own name, and the frozen base."""

from __future__ import annotations

from dataclasses import dataclass

from agents.adapters import BASE
from agents.policy import LLMPolicy
from agon_env.games.draft_challenge import Reveal
from algos.errors import ConfigError
from algos.playing.policies import make_policy
from algos.training.trained import Trained

PAIR = "pair"
"""The name of the model that drafts with one policy and answers with the other."""


@dataclass(frozen=True)
class ServedModel:
    """Policies that speak one after the other; the last one's text is the answer."""

    name: str
    speakers: tuple[LLMPolicy, ...]
    reveal: Reveal = "draft"
    """How much of a draft is shown to who answers."""
    max_tokens: int = 256
    """Of each text, where the request does not say."""
    temperature: float = 1.0
    """Where the request does not say."""


def served_models(trained: Trained, *, drafter: str | None = None, challenger: str | None = None) -> dict[str, ServedModel]:
    """Return the models of a run by name, the pair first.

    Args:
        trained: the run.
        drafter: the policy that drafts; default: the first one.
        challenger: the policy that answers; default: the second one. A run with one policy has a pair only if this is named.

    Raises:
        ConfigError: there is no such policy, or its name is taken.
    """
    policies, config = trained.policies, trained.config
    names = [*policies]
    if challenger is None and len(names) > 1:
        challenger = names[1]
    first = trained.policy(names[0] if drafter is None else drafter)
    second = None if challenger is None else trained.policy(challenger)
    if PAIR in policies:
        raise ConfigError(f"the policy {PAIR!r} of {trained.run} has the name of the pair; rename it")
    speakers: dict[str, tuple[LLMPolicy, ...]] = {} if second is None else {PAIR: (first, second)}
    speakers |= {name: (policy,) for name, policy in policies.items()}
    for base in trained.bases:
        name = BASE if len(trained.bases) == 1 else f"{BASE}:{base.name}"
        speakers[name] = (make_policy(base, None, config),)
    reveal = config.contest_options().get("reveal", "draft")
    return {
        name: ServedModel(name, who, reveal=reveal, max_tokens=config.max_tokens, temperature=config.temperature)
        for name, who in speakers.items()
    }
