"""The games."""

from agon_env.games.debate import Debate
from agon_env.games.draft_challenge import DraftChallenge, Solo
from agon_env.games.kuhn_poker import KuhnPoker
from agon_env.games.negotiation import Negotiation
from agon_env.games.proposer_solver import ProposerSolver
from agon_env.games.prover_verifier import ProverVerifier
from agon_env.games.taboo import AdversarialTaboo

__all__ = [
    "AdversarialTaboo",
    "Debate",
    "DraftChallenge",
    "KuhnPoker",
    "Negotiation",
    "ProposerSolver",
    "ProverVerifier",
    "Solo",
]
