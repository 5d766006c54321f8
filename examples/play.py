"""Watch two agents play a contest, or play one yourself.

python examples/play.py                                     # the embedded model against itself
python examples/play.py --players human embedded            # you draft, the model answers
python examples/play.py --players oracle random --env DeepMathDuel-v0 --seed 7
"""

import sys

import tyro

import agents
import agon_env
from agon_env.errors import Error


def main(env: str = "ArithmeticDuel-v0", players: tuple[str, ...] = ("embedded", "embedded"), seed: int = 0) -> None:
    """Play one contest.

    Args:
        env: id of the contest (see `agon envs`).
        players: an agent for each player, in their order (see `agon agents`); who plays alone is the first.
        seed: the same seed is the same contest.
    """
    contest = agon_env.make(env)
    seats = contest.players
    if len(seats) == 1:
        players = players[:1]
    if len(players) != len(seats):
        given = " ".join(["--players", *players])
        sys.exit(f"{env} needs {len(seats)} players ({', '.join(seats)}), not {len(players)}: {given}")
    needs_contest = {"oracle", "random", "copycat"}
    seated = {
        player: agents.make(name, **({"env": contest} if name in needs_contest else {}))
        for player, name in zip(seats, players, strict=True)
    }
    observation, info = contest.reset(seed=seed)
    if "oracle" in players:
        try:
            contest.solution(observation.role)
        except NotImplementedError as no_solution:
            sys.exit(f"{no_solution}, so that no oracle can play {env}")
    print(f"{env}, seed {seed}, {info.get('source', '')}")
    while observation is not None:
        player = observation.player
        if not isinstance(seated[player], agents.Human):  # who is shown the prompt when asked
            print(f"\n--- {player} ({observation.role}) reads ---\n{observation.text}")
        action = seated[player](observation)
        print(f"\n--- {player} ({observation.role}) says ---\n{action.text}")
        observation, *_ = contest.step(action)
    assert contest.outcome is not None
    print("\n--- outcome ---")
    for player, reward in contest.outcome.rewards.items():
        print(f"{player}: score {contest.outcome.scores[player]}, reward {reward} = {dict(contest.outcome.components[player])}")


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except Error as error:
        sys.exit(str(error))
