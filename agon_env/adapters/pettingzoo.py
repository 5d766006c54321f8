"""A contest as a PettingZoo AEC environment (needs the package `pettingzoo`)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import nan
from typing import Any

from gymnasium import spaces

from agon_env.adapters.gymnasium import OBSERVATION_CHARS
from agon_env.adapters.seats import check_contest
from agon_env.contest import Contest
from agon_env.errors import DependencyNotInstalled
from agon_env.spaces import TextSpace
from agon_env.types import Action

try:
    from pettingzoo import AECEnv
except ImportError as error:
    raise DependencyNotInstalled("the PettingZoo view needs pettingzoo: pip install pettingzoo") from error


class PettingZooContest(AECEnv[str, dict[str, str], str]):
    """The contest with its players as PettingZoo's agents.

    An observation is `{"role": …, "text": …}` (PettingZoo's own tests take a key "observation" for an array).
    A reward that could not be computed is NaN, and `infos[agent]["unscored"]` is True.
    """

    def __init__(self, contest: Contest, *, render_mode: str | None = None) -> None:
        """See `to_pettingzoo`."""
        super().__init__()
        self.contest = check_contest(contest)
        self.render_mode = render_mode
        name = contest.spec.id if contest.spec is not None else type(contest).__name__
        self.metadata = {"name": name, "render_modes": ["ansi"], "is_parallelizable": False, "render_fps": 1}
        self.possible_agents = list(contest.players)
        self.agents: list[str] = []
        self.observation_spaces = {
            agent: spaces.Dict({"role": TextSpace(OBSERVATION_CHARS), "text": TextSpace(OBSERVATION_CHARS)})
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: TextSpace(contest.max_chars) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of observations, the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[str]:
        """Return the space of actions, the same object each time."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a contest; arguments as in `Contest.reset`, but unknown options are passed over with a warning."""
        known = self.contest.option_names | {"roles"}
        options = dict(options or {})
        for name in sorted(options.keys() - known):  # PettingZoo's api_test wants every option to be taken
            warnings.warn(f"{self.metadata['name']} does not know the reset option {name!r}", UserWarning, stacklevel=2)
            del options[name]
        observation, info = self.contest.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        self.agent_selection = observation.player
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._take(dict.fromkeys(self.agents, 0.0), False, False, info)

    def observe(self, agent: str) -> dict[str, str]:
        """Return what `agent` sees; the text is empty for one that was never asked."""
        seen = self.contest.observe(agent)
        return {"role": seen.role, "text": seen.text}

    def step(self, action: str | Action | None) -> None:
        """Play for `agent_selection`; after the end every agent takes the action None once, as AEC has it."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        observation, rewards, terminated, truncated, info = self.contest.step(action)  # type: ignore[arg-type]
        self._cumulative_rewards[agent] = 0.0
        self._take(rewards, terminated, truncated, info)
        if observation is not None:
            self.agent_selection = observation.player
        self._accumulate_rewards()
        if observation is None:
            self._deads_step_first()

    def render(self) -> str | None:
        """Return the contest so far as text, in the render mode "ansi"."""
        return self.contest.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close the contest."""
        self.contest.close()

    def _take(self, rewards: Mapping[str, Any], terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self.rewards = {agent: nan if rewards[agent] is None else rewards[agent] for agent in self.agents}
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self.infos = {agent: info | {"unscored": rewards[agent] is None} for agent in self.agents}


def to_pettingzoo(env: Contest, *, render_mode: str | None = None) -> PettingZooContest:
    """Return the AEC view of `env`, which drives it from now on.

    Args:
        env: a contest.
        render_mode: "ansi" or None.

    Raises:
        TypeError: `env` is no contest.
    """
    return PettingZooContest(env, render_mode=render_mode)
