"""A contest as an environment of verifiers v1, with one agent for each role (needs the package `verifiers`).

verifiers finds environments by the name of a module. Two lines make one, in a file `my_duel.py` on the path:

    ```python
    from agon_env.adapters.verifiers import to_verifiers

    Contests, ContestEnv = to_verifiers("ArithmeticDuel-v0", reward="competitive")
    __all__ = ["ContestEnv", "Contests"]
    ```
Then `eval my-duel` plays it, and `--env.drafter.model` gives a role a model of its own. Every role that spoke has a trace
of its own in the episode, with the components of its reward as the trace's rewards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pydantic import create_model

from agon_env.adapters.wire import storable, storable_messages
from agon_env.contest import Contest
from agon_env.errors import DependencyNotInstalled, Error
from agon_env.registration import make
from agon_env.types import Action, Message, NoMove, Outcome

try:
    import verifiers.v1 as vf
except ImportError as error:
    raise DependencyNotInstalled("this needs the package verifiers; run: pip install 'agon-env[verifiers]'") from error


class ContestData(vf.TaskData):
    """What a task of verifiers holds: the contest's seed. Who is to move opens each conversation, so there is no prompt."""

    seed: int


class ContestTask(vf.Task[ContestData, vf.State, vf.TaskConfig]):
    """One contest; it is scored by the environment."""


class ContestTasksetConfig(vf.TasksetConfig):
    """Which contests are played."""

    first_seed: int = 0
    """Seed of the first contest; the others follow it without end."""


def to_verifiers(id: str, *, frozen: Sequence[str] = (), **kwargs: Any) -> tuple[type[vf.Taskset[Any, Any]], type[vf.Env[Any]]]:
    """Return a taskset and an environment that play the contest `id`; export both from a module.

    Args:
        id: of a registered contest. Its roles become the agents, in the subprocess runtime and with the harness "null",
            which talks and does nothing else.
        frozen: roles that are not trained.
        kwargs: arguments of `agon_env.make`.

    Raises:
        Error: `frozen` names no role of the contest.
    """
    template = make(id, **kwargs)  # its copies share what is large, like a data set
    roles = template.roles
    if unknown := [role for role in frozen if role not in roles]:
        raise Error(f"{id} has no role {unknown[0]!r}; its roles are {', '.join(roles)}")
    talker = vf.AgentConfig.model_validate({"harness": {"id": "null"}, "runtime": {"type": "subprocess"}})
    fields: Any = dict.fromkeys(roles, (vf.AgentConfig, talker))
    config: Any = create_model("ContestConfig", __base__=vf.EnvConfig, **fields)

    class Contests(vf.Taskset[ContestTask, ContestTasksetConfig]):
        """The contests of all seeds."""

        INFINITE = True

        def load(self) -> Iterator[ContestTask]:
            seed = self.config.first_seed
            while True:
                yield ContestTask(ContestData(name=f"{id}#{seed}", seed=seed), self.config.task)
                seed += 1

    class ContestEnv(vf.Env[config]):
        """Plays one contest between the agents of its roles."""

        async def setup(self, agents: Any) -> None:
            for role in frozen:
                getattr(agents, role).trainable = False

        async def run(self, task: Any, agents: Any) -> None:
            await play(template.fork(), task, agents)

    return Contests, ContestEnv


async def play(contest: Contest, task: ContestTask, agents: Any) -> None:
    """Play the contest of the task's seed between agents of verifiers, and record what each role is paid on its trace."""
    contest.reset(seed=task.data.seed)
    talks: dict[str, Any] = {}
    async with AsyncExitStack() as open_talks:
        while not contest.done:
            observation = contest.observe()
            role = observation.role
            messages: str | list[Message] = storable(observation.text)
            if role not in talks:
                talks[role] = await open_talks.enter_async_context(getattr(agents, role).interaction(task))
                messages = storable_messages(observation.messages)
            # what was said before stands in the conversation already
            segment = await talks[role].turn(messages)
            await asyncio.to_thread(contest.step, _action(segment, talks[role].trace))
    assert contest.outcome is not None
    for role, talk in talks.items():
        _record(talk.trace, contest.outcome, contest.player_of[role])


def _action(segment: Any, trace: Any) -> Action:
    if segment.terminated:  # by a limit, which is the player's own affair, or by an error, which is not
        return NoMove(reason=f"the run ended: {trace.stop_condition}", forfeits=not trace.errors)
    said = [message.content or "" for message in segment.messages if message.role == "assistant"]
    return Action(str(said[-1]), truncated=trace.is_truncated)


def _record(trace: Any, outcome: Outcome, player: str) -> None:
    for name, value in outcome.components[player].items():
        if value is None:
            trace.rewards[name] = None
        else:
            trace.record_reward(name, value)
    if (score := outcome.scores[player]) is not None:
        trace.record_metric("score", score)
    trace.info["contest"] = {"reason": outcome.reason, "player": player, "role": outcome.roles[player]}
