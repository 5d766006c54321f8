"""Twenty and more of TextArena's games, with the number of their players, and who plays them in the tests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

import agon_env
from agon_env.checker import GARBAGE

QUICK = {
    "2048-v0-ultra-easy": 1,
    "Blackjack-v0": 1,
    "FrozenLake-v0": 1,
    "GuessTheNumber-v0": 1,
    "Secretary-v0": 1,
    "KuhnPoker-v0": 2,
    "TicTacToe-v0": 2,
    "IteratedPrisonersDilemma-v0": 2,
    "Snake-v0": 3,
    "ThreePlayerGOPS-v0": 3,
}
SLOWER = {
    "Bandit-v0": 1,
    "Countdown-v0": 1,
    "Cryptarithm-v0": 1,
    "Mastermind-v0": 1,
    "ThreeCardMonte-v0": 1,
    "TowerOfHanoi-v0": 1,
    "ConnectFour-v0": 2,
    "GameOfPureStrategy-v0": 2,
    "HighSociety-v0": 2,
    "IteratedRockPaperScissors-v0": 2,
    "Nim-v0": 2,
    "Othello-v0-tiny": 2,
    "PigDice-v0": 2,
    "SimpleNegotiation-v0-short": 2,
    "TruthAndDeception-v0": 2,
    "LiarsDice-v0-small": 3,
    "Poker-v0-small": 3,
    "ThreePlayerIPD-v0": 3,
    "Taboo-v0": 4,
    "SecretMafia-v0": 6,
}
ALL = QUICK | SLOWER

Player = Callable[[agon_env.Contest, np.random.Generator], str]


def random_player(env: agon_env.Contest, rng: np.random.Generator) -> str:
    legal = env.legal_texts(str(env.current_role))
    return legal[int(rng.integers(len(legal)))] if legal else f"I say {int(rng.integers(10))}"


def garbage_player(env: agon_env.Contest, rng: np.random.Generator) -> str:
    return GARBAGE[int(rng.integers(len(GARBAGE)))]


def play(id: str, player: Player, *, seed: int, **options: object) -> agon_env.Contest:
    """Play a whole game and return it."""
    env = agon_env.make(f"TextArena/{id}", num_players=ALL.get(id), turn_limit=120, **options)
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    while not env.done:
        env.step(player(env, rng))
    return env


def digest(env: agon_env.Contest) -> str:
    """Return a hash of all that was shown, said and paid."""
    seen = [env.observe(player).text for player in env.players]
    return hashlib.sha256("\n".join([*seen, *env.transcript.to_lines()]).encode("utf-8", "surrogatepass")).hexdigest()
