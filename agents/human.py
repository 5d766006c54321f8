"""`Human`: a person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from agents.agent import Agent
from agon_env.printable import printable
from agon_env.types import Action, Observation

END = "."
"""A line that holds this alone ends the answer."""


class Human(Agent):
    """Shows what the player sees and reads an answer of any number of lines."""

    def __init__(self, *, show_prompt: bool = True, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        """Make a player.

        Args:
            show_prompt: whether it is shown what it is asked; False where somebody else shows it.
            stdin: where answers come from; default: the terminal.
            stdout: where prompts go; default: the terminal.
        """
        self.show_prompt = show_prompt
        self.stdin = stdin
        self.stdout = stdout

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Ask for each observation in turn."""
        return [Action(self._ask(observation)) for observation in observations]

    def _ask(self, observation: Observation) -> str:
        stdin, stdout = self.stdin or sys.stdin, self.stdout or sys.stdout
        if self.show_prompt:
            conversation = "\n\n".join(_shown(message["role"], message["content"]) for message in observation.messages)
            print(f"\n── {observation.player}, the {observation.role} ──\n{printable(conversation)}", file=stdout)
        print(f'── your answer; end it with a line that holds only "{END}" ──', file=stdout, flush=True)
        lines: list[str] = []
        while line := stdin.readline():  # an empty string is the end of the input
            if line.rstrip("\r\n") == END:
                break
            lines.append(line)
        return "".join(lines).removesuffix("\n")


def _shown(role: str, content: str) -> str:
    return content if role == "user" else f"[{role}] {content}"
