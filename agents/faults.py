"""Agents that fail: one that raises, hangs or says something else than texts costs its own contests, and nobody else's."""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from agents.agent import actions_of
from agents.ensemble import Ensemble, Player
from agents.errors import MalformedActions
from agon_env.contest import Contest
from agon_env.printable import printable
from agon_env.types import NO_MOVE, Action, NoMove, Observation
from agon_env.vector import VectorContest

T = TypeVar("T")

Kind: TypeAlias = Literal["raised", "timeout", "malformed"]
"""It raised an exception; it did not answer in time; what it returned is not one text for each observation."""

LONGEST_REASON = 300
"""Characters of an exception's message that are kept."""


class _Fault(Exception):
    def __init__(self, kind: Kind, what: str) -> None:
        super().__init__(what)
        self.kind, self.what = kind, what


class Guarded(Ensemble):
    """An agent whose faults become `NoMove`, so that nothing that it does reaches the caller.

    When a batch fails, the observations are asked again one by one, so that only the contests suffer that the agent
    fails in; one that did not answer in time is not asked again. One that fails in `watch` or `seed` has no move until that
    has been done without a fault. A thread can't be killed: one that hangs in a
    Python loop is interrupted, one that waits for the system is left to itself, and until it has come back the agent
    counts as hanging. So there is never more than one such thread for each agent.
    """

    def __init__(
        self, agent: Player, *, on_fault: Literal["forfeit", "abort"] = "forfeit", timeout: float | None = None
    ) -> None:
        """Guard `agent`.

        Args:
            agent: whoever plays; see `as_agent`.
            on_fault: "forfeit": the failing player loses. "abort": the contest has no result, nobody is paid.
            timeout: seconds for one call, of `act` for however many observations it is asked; None waits for ever.
        """
        super().__init__(agent)
        if on_fault not in ("forfeit", "abort"):
            raise ValueError(f'on_fault must be "forfeit" or "abort", not {on_fault!r}; retrying is for `agents.play`')
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, or None to wait for ever, not {timeout}")
        self.agent = self.members[0]
        self.on_fault, self.timeout = on_fault, timeout
        self.faults: Counter[Kind] = Counter()
        """How often the agent failed, by kind; each contest counts."""
        self._hanging: threading.Thread | None = None
        self._unready: dict[str, _Fault] = {}
        """What the agent was told before it is asked, and failed at: "watch", "seed"."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Return one action for each observation: a text, or `NoMove` where the agent failed."""
        return list(map(self._played, observations, self._answers(observations)))

    def watch(self, env: Contest | VectorContest) -> None:
        """Show the contests to an agent that looks at them."""
        self._tell("watch", env)

    def seed(self, seed: int) -> None:
        """Begin the random numbers of an agent that has such."""
        self._tell("seed", seed)

    def _tell(self, what: Literal["watch", "seed"], value: object) -> None:
        """Call a method that an agent may have; its fault is kept until it is asked to move, or told again."""

        def tell() -> None:
            if callable(method := getattr(self.agent, what, None)):
                method(value)

        self._unready.pop(what, None)
        try:
            self._call(tell)
        except _Fault as fault:
            self._unready[what] = _Fault(fault.kind, f"{fault.what}, in its {what}()")

    def _answers(self, observations: Sequence[Observation]) -> list[Action | _Fault]:
        for fault in self._unready.values():
            return [fault] * len(observations)
        try:
            return list(map(_checked, self._call(lambda: actions_of(self.agent, observations))))
        except _Fault as fault:
            if fault.kind == "timeout" or len(observations) < 2:
                return [fault] * len(observations)
        return [answer for observation in observations for answer in self._answers([observation])]

    def _call(self, work: Callable[[], T]) -> T:
        """Run the agent's code, for as long as it has; whatever goes wrong is a `_Fault`."""
        if self.timeout is None:
            return _blamed(work)
        if self._hanging is not None and self._hanging.is_alive():
            raise _Fault("timeout", "still hangs in an earlier contest")
        results: list[T | _Fault] = []
        context = contextvars.copy_context()

        def in_thread() -> None:
            try:
                results.append(context.run(_blamed, work))
            except _Fault as fault:
                results.append(fault)

        thread = threading.Thread(target=in_thread, name=type(self.agent).__name__, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if not results:
            self._hanging = thread
            _interrupt(thread)
            raise _Fault("timeout", f"did not answer within {self.timeout:g} s")
        if isinstance(results[0], _Fault):
            raise results[0]
        return results[0]

    def _played(self, observation: Observation, answer: Action | _Fault) -> Action:
        if isinstance(answer, Action):
            return answer
        self.faults[answer.kind] += 1
        return NoMove(reason=f"{observation.player} {answer.what}", forfeits=self.on_fault == "forfeit")


def guarded(agent: Player, *, on_fault: Literal["forfeit", "abort"] = "forfeit", timeout: float | None = None) -> Guarded:
    """Return `agent` as one that never fails: where it does, its player has no move; see `Guarded`.

    Args:
        agent: whoever plays; one that is guarded already is guarded anew.
        on_fault: "forfeit": the failing player loses. "abort": the contest has no result, nobody is paid.
        timeout: seconds for one call of `act`, however many observations it is asked; None waits for ever.
    """
    return Guarded(agent.agent if isinstance(agent, Guarded) else agent, on_fault=on_fault, timeout=timeout)


def fault_of(contest: Contest) -> str | None:
    """Return why a contest ended without a move of the player whose turn it was; None if it ended otherwise, or goes on."""
    last = contest.transcript.events[-1:] if contest.done else ()
    complaint = last[0].invalid if last else None
    return complaint.removeprefix(NO_MOVE) if complaint is not None and complaint.startswith(NO_MOVE) else None


def _blamed(work: Callable[[], T]) -> T:
    """Run an agent's code; whatever it raises, an exit included, is its fault. Only Ctrl-C is not."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except MalformedActions as error:
        raise _Fault("malformed", _message(error)) from None
    except BaseException as error:
        raise _Fault("raised", f"raised {type(error).__name__}: {_message(error)}") from None


def _checked(action: Action) -> Action | _Fault:
    if isinstance(action, NoMove):
        return action
    try:
        if not isinstance(action.text, str):
            return _Fault("malformed", f"said a {type(action.text).__name__} instead of a text")
        return Action(action.text, truncated=bool(action.truncated))
    except Exception as error:
        return _Fault("malformed", f"said no text: {_message(error)}")


def _message(error: BaseException) -> str:
    try:
        return printable(str(error), limit=LONGEST_REASON).replace("\n", " ")
    except Exception:
        return "(its message can't be read)"


def _interrupt(thread: threading.Thread) -> None:
    """Raise `SystemExit` in a thread, as soon as it runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
