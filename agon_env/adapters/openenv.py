"""One seat of a contest as an OpenEnv environment, served over OpenEnv's protocol (needs the package `openenv`).

Example:
    ```python
    from agon_env.adapters.openenv import to_openenv

    app = to_openenv("ArithmeticDuel-v0", "challenger", rivals=drafter)  # uvicorn my_server:app
    ```
    ```python
    from openenv import GenericEnvClient

    with GenericEnvClient(base_url="http://localhost:8000").sync() as env:
        text = env.reset(seed=0).observation["text"]
        result = env.step({"text": "My answer is 7."})
    ```
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from agon_env.adapters.gymnasium import GymnasiumContest, to_gymnasium
from agon_env.adapters.seats import Rival
from agon_env.adapters.wire import storable, storable_messages
from agon_env.errors import DependencyNotInstalled
from agon_env.registration import make
from agon_env.types import Action, Message

try:
    from openenv.core.env_server import create_app
    from openenv.core.env_server import interfaces as openenv
    from openenv.core.env_server import types as wire
except ImportError as error:
    raise DependencyNotInstalled("this needs the package openenv; run: pip install 'agon-env[openenv]'") from error


class ContestAction(wire.Action):
    """What the player says."""

    text: str
    truncated: bool = False
    """Whether the text was cut off before its end."""


class ContestObservation(wire.Observation):
    """What the player sees, whether the contest is over, and what the player was paid since its last action.

    A reward that could not be computed is None, and so is the reward of a reset.
    """

    text: str
    """All messages as one text."""
    messages: list[Message]
    """The same as chat messages."""
    truncated: bool
    """Whether the contest was cut off instead of ending by its rules."""
    invalid: str | None
    """Why the last move was refused; None if it was not."""


class ContestState(wire.State):
    """Where the contest is."""

    player: str | None
    role: str | None


class ContestEnvironment(openenv.Environment[ContestAction, ContestObservation, ContestState]):
    """The view of `to_gymnasium`, in OpenEnv's terms."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, view: GymnasiumContest) -> None:
        """Take a view, which this drives from now on."""
        super().__init__()
        self.view = view
        self._episode: str | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> ContestObservation:
        """Start the contest of `seed`; `options` are those of `Contest.reset`."""
        text, info = self.view.reset(seed=seed, options=options or None)
        self._episode = episode_id
        return self._observation(text, None, done=False, truncated=False, info=info)

    def step(self, action: ContestAction, timeout_s: float | None = None, **_: Any) -> ContestObservation:
        """Play for the seat. There is no deadline here: `timeout_s` is for environments that run something."""
        said = Action(action.text, truncated=action.truncated)
        text, reward, terminated, truncated, info = self.view.step(said)
        paid = None if math.isnan(reward) else reward
        return self._observation(text, paid, done=terminated or truncated, truncated=truncated, info=info)

    @property
    def state(self) -> ContestState:
        """Return the episode and how many moves have been played in it, by all players."""
        contest, player = self.view.contest, getattr(self.view, "player", None)
        role = contest.role_of[player] if player else None
        count = len(contest.transcript.events) if player else 0
        return ContestState(episode_id=self._episode, step_count=count, player=player, role=role)

    def get_metadata(self) -> wire.EnvironmentMetadata:
        """Return the name of the contest and what it is about."""
        contest = self.view.contest
        name = contest.spec.id if contest.spec is not None else type(contest).__name__
        about = (type(contest).__doc__ or name).strip().splitlines()[0]
        return wire.EnvironmentMetadata(name=name, description=f"{about} Your seat: {self.view.seat}.")

    def close(self) -> None:
        """Close the contest."""
        self.view.close()

    def _observation(
        self, text: str, reward: float | None, *, done: bool, truncated: bool, info: Mapping[str, Any]
    ) -> ContestObservation:
        refusal = info.get("invalid")
        rest = {key: value for key, value in info.items() if key not in ("messages", "truncated", "invalid")}
        return ContestObservation(
            text=storable(text),
            messages=storable_messages(info["messages"]),
            done=done,
            truncated=truncated,
            invalid=refusal and storable(refusal),
            reward=reward,
            metadata=rest,
        )


def to_openenv(
    id: str,
    seat: str | None = None,
    rivals: Rival | Mapping[str, Rival] | None = None,
    *,
    max_concurrent_envs: int = 64,
    **kwargs: Any,
) -> Any:
    """Return a FastAPI application that serves the contest `id` to OpenEnv's clients; every session has its own.

    Args:
        id: of a registered contest.
        seat: the player or role that the clients play. Default: the first player.
        rivals: who plays the other seats: functions from an observation to a text, one for all, or one per player or role.
            Sessions share them, and ask them from several threads.
        max_concurrent_envs: sessions at a time; OpenEnv's own default of one starves a trainer's groups.
        kwargs: arguments of `agon_env.make`.

    Raises:
        Error: there is no such seat, or nobody to play the others.
    """
    template = make(id, **kwargs)  # its copies share what is large, like a data set

    def one() -> ContestEnvironment:
        return ContestEnvironment(to_gymnasium(template.fork(), seat, rivals))

    one()  # what is wrong with the arguments shows here, not in a session
    return create_app(
        one,
        ContestAction,
        ContestObservation,
        env_name=id,
        max_concurrent_envs=max_concurrent_envs,
        state_cls=ContestState,
    )
