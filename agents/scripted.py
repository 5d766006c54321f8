"""Players without a model: `Random` for garbage and legal noise, `Oracle` for correct play, `Copycat` for imitation."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np

from agents.agent import Agent
from agon_env.contest import Contest
from agon_env.errors import Error, ResetNeeded
from agon_env.types import Action, Observation
from agon_env.vector import VectorContest

_ALPHABET = [
    *"0123456789 abcdefghijklmnopqrstuvwxyz+-*/=()[]{}<>\\\"'\n\t",
    "\\boxed{",
    "<think>",
    "</think>",
    "é",
    "漢",
    "\u2028",
    "🙂",
]


class Spectator(Agent):
    """A player that looks at the contests themselves, not only at observations. Who plays rollouts shows them to it."""

    def __init__(self, *, env: Contest | VectorContest | None = None) -> None:
        """Make a player that watches the contests of `env`."""
        self.env = env

    def watch(self, env: Contest | VectorContest) -> None:
        """Look at the contests of `env` from now on."""
        self.env = env


class Random(Spectator):
    """Draws one of the legal texts where the game names them, and garbage elsewhere."""

    def __init__(self, *, env: Contest | VectorContest | None = None, seed: int = 0, max_length: int = 80) -> None:
        """Make a player.

        Args:
            env: where it plays; None knows no legal texts and always says garbage.
            seed: begins its random numbers.
            max_length: most characters (or marks) of garbage.
        """
        super().__init__(env=env)
        self.max_length = max_length
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin the random numbers anew."""
        self._rng = np.random.default_rng(seed)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Return a random text for each observation."""
        return [
            Action(self._text(contest, obs))
            for contest, obs in zip(_contests(self.env, observations), observations, strict=True)
        ]

    def _text(self, contest: Contest | None, observation: Observation) -> str:
        legal = contest.legal_texts(observation.role) if contest is not None else None
        if legal:
            return legal[int(self._rng.integers(len(legal)))]
        return "".join(self._rng.choice(_ALPHABET, size=int(self._rng.integers(self.max_length + 1))))


class Oracle(Spectator):
    """Plays the game's own solution."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Return the solution for each observation.

        Raises:
            Error: an observation is not what one of the contests waits with.
        """
        return [
            Action(self._solution(contest, obs))
            for contest, obs in zip(_contests(self.env, observations), observations, strict=True)
        ]

    def _solution(self, contest: Contest | None, observation: Observation) -> str:
        if contest is None:
            raise Error(
                f"no contest of this oracle waits for {observation.player} with that observation; "
                'make the oracle with the env that it plays in, agents.make("oracle", env=env), and reset that env first',
            )
        return contest.solution(observation.role)


class Copycat(Spectator):
    """Repeats what was said last in the contest; says nothing where nobody has spoken.

    As the challenger of a duel it hands the draft on, so that it fixes nothing and breaks nothing.
    """

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Return the last text of each contest."""
        return [Action(self._last_text(contest)) for contest in _contests(self.env, observations)]

    def _last_text(self, contest: Contest | None) -> str:
        return contest.transcript.events[-1].text if contest is not None and contest.transcript.events else ""


def _contests(env: Contest | VectorContest | None, observations: Sequence[Observation]) -> list[Contest | None]:
    """Return for each observation the contest that waits with it; equal ones get one contest each, in order."""
    waiting: defaultdict[tuple[str, str, str], deque[Contest]] = defaultdict(deque)
    for contest in _all(env):
        if _waits(contest):
            waiting[_key(contest.observe())].append(contest)
    found: list[Contest | None] = []
    for observation in observations:
        queue = waiting[_key(observation)]
        found.append(queue[0] if queue else None)
        queue.rotate(-1)
    return found


def _waits(contest: Contest) -> bool:
    try:
        return not contest.done
    except ResetNeeded:
        return False


def _key(observation: Observation) -> tuple[str, str, str]:
    return observation.player, observation.role, observation.text


def _all(env: Contest | VectorContest | None) -> Sequence[Contest]:
    if env is None:
        return ()
    return env.envs if isinstance(env, VectorContest) else (env,)
