"""How a contest is shown on a terminal: who reads and says what, and how the scores came about.

Whatever a player says is shown as text: `printable` writes characters that would act on a terminal as their escapes,
and rich's `Text` knows no markup.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agon_env.contest import Contest
from agon_env.printable import printable, quotation
from agon_env.rewards import RewardRule
from agon_env.types import Action, Observation, Reward

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
"""One for each role, in their order."""
LONGEST = 20_000
"""Characters of a text that are shown."""


class ContestView:
    """Shows one contest while it is played."""

    def __init__(self, console: Console, contest: Contest) -> None:
        """Show `contest` on `console`."""
        self.console = console
        self.contest = contest

    def opening(self, facts: Mapping[str, Any]) -> None:
        """Say what is played, by the facts that `reset` returned."""
        spec = self.contest.spec
        about = [f"seed {self.contest.seed}", *(str(facts[key]) for key in ("source", "problem") if facts.get(key))]
        line = Text(printable(spec.id if spec is not None else type(self.contest).__name__), style="bold")
        self.console.print(line.append(printable("  " + ", ".join(about)), style="not bold dim"))

    def reads(self, observation: Observation) -> None:
        """Show what a player is asked."""
        parts = []
        for message in observation.messages:
            if message["role"] != "user":
                parts.append(Text(f"[{printable(message['role'])}]", style="dim italic"))
            parts.append(Text(_cut(message["content"]), style="dim"))
        self._panel(observation.player, observation.role, "reads", Group(*parts), quiet=True)

    def says(self, observation: Observation, action: Action) -> None:
        """Show what a player answers."""
        cut = Text("\n(cut off)", style="yellow") if action.truncated else Text("")
        self._panel(observation.player, observation.role, "says", Text(_cut(action.text)) + cut)

    def refused(self, why: str) -> None:
        """Say why the last move did not count."""
        self.console.print(Text(f"  not a legal move: {printable(why)}", style="red"))

    def ending(self) -> None:
        """Show who was paid what, and why."""
        contest, outcome = self.contest, self.contest.outcome
        assert outcome is not None
        rows = [self._result(player) for player in outcome.roles]
        columns = [name for name in rows[0] if any(row[name] for row in rows)]
        table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
        for name in columns:
            table.add_column(name, justify="right" if name in ("score", "reward") else "left", overflow="fold")
        for row, role in zip(rows, outcome.roles.values(), strict=True):
            table.add_row(*(Text(printable(row[name], limit=200)) for name in columns), style=self._colour(role))
        self.console.print(table)
        shared = {name: value for name, value in outcome.details.items() if name not in contest.roles}
        facts = [f"{name}: {value}" for name, value in shared.items() if value not in (None, {}, ())]
        facts.append(f"paid by {_explained(contest.reward_rule)}")
        winner = f"{outcome.winner} wins" if outcome.winner is not None else "a draw" if len(outcome.roles) > 1 else ""
        for line in [", ".join(filter(None, [outcome.reason, winner])), *facts]:
            self.console.print(Padding(Text(printable(line, limit=1000)), (0, 0, 0, 2), expand=False))

    def _result(self, player: str) -> dict[str, str]:
        """Return what the table says of a player: column → cell."""
        outcome = self.contest.outcome
        assert outcome is not None
        answer, why = read_answer(self.contest, player)
        return {
            "player": player,
            "role": outcome.roles[player],
            "answer": answer,
            "score": _number(outcome.scores[player]),
            "why": why,
            "reward": _number(outcome.rewards[player]),
            "made of": _parts(outcome.components[player]),
        }

    def _panel(self, player: str, role: str, does: str, body: Any, *, quiet: bool = False) -> None:
        colour = self._colour(role)
        title = Text(printable(f"{player}, the {role}, {does}"), style=colour if quiet else f"bold {colour}")
        border = "dim" if quiet else colour
        self.console.print(Panel(body, title=title, title_align="left", border_style=border, box=box.ROUNDED))

    def _colour(self, role: str) -> str:
        return COLOURS[self.contest.roles.index(role) % len(COLOURS)]


def contest_text(contest: Contest) -> str:
    """Return a contest as plain text: what its first speaker read, what was said, and how the rewards came about.

    What was read and said is quoted, so that it can't pose as another speaker or as the outcome.
    """
    outcome, events = contest.outcome, contest.transcript.events
    parts = []
    if events:
        first = events[0]
        parts.append(f"[{first.player}, the {first.role}, reads]\n{quotation(contest.observe(first.player).text)}")
    parts += [f"[{event.player}, the {event.role}, says]\n{quotation(event.text)}" for event in events]
    if outcome is not None:
        reason = " ".join(printable(outcome.reason).split())
        parts.append("\n".join([f"[{reason}]", *(_line(contest, player) for player in outcome.roles)]))
    return "\n\n".join(parts)


def _line(contest: Contest, player: str) -> str:
    """Return what a player was paid, and why, as a sentence."""
    outcome = contest.outcome
    assert outcome is not None
    answer, why = read_answer(contest, player)
    facts = [f"answer {answer!r}" if answer else "", " ".join(why.split())]
    facts.append(f"reward {_number(outcome.rewards[player])} = {_parts(outcome.components[player])}")
    return f"{player}, the {outcome.roles[player]}: {', '.join(filter(None, facts))}"


def read_answer(contest: Contest, player: str) -> tuple[str, str]:
    """Return what was read in a player's last text, and the verifier's word on it; empty where the game tells neither."""
    assert contest.outcome is not None
    verdict = contest.outcome.details.get(contest.outcome.roles[player])
    if isinstance(verdict, Mapping) and "extracted" in verdict:
        return str(verdict["extracted"] if verdict["extracted"] is not None else ""), str(verdict.get("reason") or "")
    own = [event for event in contest.transcript.events if event.player == player]
    return (own[-1].extracted or "", own[-1].invalid or "") if own else ("", "did not move")


def _explained(rule: RewardRule) -> str:
    """Return a reward rule with the first line of its documentation."""
    name = getattr(rule, "__name__", None) or repr(rule)
    return ": ".join(filter(None, [name, (inspect.getdoc(rule) or "").partition("\n")[0]]))


def _cut(text: str) -> str:
    left = len(text) - LONGEST
    return printable(text, limit=LONGEST) + (f" ({left:,} more characters)" if left > 0 else "")


def _number(value: Reward) -> str:
    return "unknown" if value is None else f"{value:g}"


def _parts(components: Mapping[str, Reward]) -> str:
    return " + ".join(f"{name} {_number(value)}" for name, value in components.items()).replace("+ -", "− ")
