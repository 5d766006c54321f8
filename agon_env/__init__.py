"""Contests between language models.

Example:
    ```python
    import agon_env

    env = agon_env.make("ArithmeticDuel-v0")
    obs, info = env.reset(seed=0)
    while not env.done:
        obs, rewards, terminated, truncated, info = env.step(players[env.current_player](obs))
    env.outcome.rewards
    ```
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agon_env.contest import Contest
from agon_env.registration import (
    ContestSpec,
    broken_plugins,
    list_envs,
    make,
    make_vec,
    register,
    register_lazily,
    registry,
    spec,
)
from agon_env.transcript import Transcript
from agon_env.types import Action, NoMove, Observation, Outcome

if TYPE_CHECKING:
    from agon_env.adapters.dataset import to_dataset
    from agon_env.adapters.gymnasium import to_gymnasium
    from agon_env.adapters.pettingzoo import to_pettingzoo
    from agon_env.adapters.textarena_view import to_textarena
    from agon_env.adapters.trl import to_trl
    from agon_env.checker import check_env

__all__ = [
    "Action",
    "Contest",
    "ContestSpec",
    "NoMove",
    "Observation",
    "Outcome",
    "Transcript",
    "broken_plugins",
    "check_env",
    "list_envs",
    "make",
    "make_vec",
    "register",
    "register_lazily",
    "registry",
    "spec",
    "to_dataset",
    "to_gymnasium",
    "to_pettingzoo",
    "to_textarena",
    "to_trl",
]

_LAZY = {
    "check_env": "agon_env.checker",
    "to_dataset": "agon_env.adapters.dataset",
    "to_gymnasium": "agon_env.adapters.gymnasium",
    "to_pettingzoo": "agon_env.adapters.pettingzoo",
    "to_textarena": "agon_env.adapters.textarena_view",
    "to_trl": "agon_env.adapters.trl",
}
"""Names that are imported when first used, so that their dependencies cost nobody else."""

register("ArithmeticSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "arithmetic"})
register("ArithmeticDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "arithmetic"})
register("SubsetSumSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "subset_sum"})
register("SubsetSumDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "subset_sum"})
register("ChainSearchSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "chain_search"})
register("ChainSearchDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "chain_search"})
register("DeepMathSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "deepmath"})
register("DeepMathDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "deepmath"})
register("CodeSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "code"})
register("CodeDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "code"})
register("GSM8KSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "gsm8k"})
register("GSM8KDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "gsm8k"})
register("MATHSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "math"})
register("MATHDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "math"})
register("AIMESolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "aime"})
register("AIMEDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "aime"})
register("ReasoningGymSolo-v0", "agon_env.games.draft_challenge:Solo", kwargs={"task": "reasoning_gym"})
register("ReasoningGymDuel-v0", "agon_env.games.draft_challenge:DraftChallenge", kwargs={"task": "reasoning_gym"})
register("Debate-v0", "agon_env.games.debate:Debate", kwargs={"task": "arithmetic"})
register("ProverVerifier-v0", "agon_env.games.prover_verifier:ProverVerifier", kwargs={"task": "arithmetic"})
register("ProposerSolver-v0", "agon_env.games.proposer_solver:ProposerSolver")
register("AdversarialTaboo-v0", "agon_env.games.taboo:AdversarialTaboo")
register("Negotiation-v0", "agon_env.games.negotiation:Negotiation")
register("KuhnPoker-v0", "agon_env.games.kuhn_poker:KuhnPoker")
register_lazily("ReasoningGym", "agon_env.tasks.reasoning_gym:register_all")
register_lazily("TextArena", "agon_env.adapters.textarena:register_all")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
