"""Folders of runs, written in a moment in the format of docs/runs.md: what a page is made of, without training anything."""

import json
import random
from pathlib import Path
from typing import Any

ROLES = ("drafter", "challenger")
KINDS = {(False, True): "fix", (True, False): "break", (True, True): "both right", (False, False): "both wrong"}
WORDS = (
    "so",
    "the sum",
    "of both",
    "is",
    "first",
    "we add",
    "then",
    "carry",
    "one",
    "check",
    "wait",
    "maybe",
    "seven",
    "times",
)


def duel(
    step: int,
    number: int,
    *,
    prompt: str = "What is 2 + 2?\n\nGive the answer in \\boxed{}.",
    draft: str = "I say \\boxed{5}",
    answer: str = "No, \\boxed{4}",
    scores: tuple[float | None, float | None] = (0.0, 1.0),
    drafter: str = "alice",
    problem: str = "sum-2-2",
    gold: str = "4",
) -> dict[str, Any]:
    """Return a line of contests.jsonl."""
    players = (drafter, "bob" if drafter == "alice" else "alice")
    texts = dict(zip(players, (draft, answer), strict=True))
    known = None not in scores
    bonus = [max(0.0, own - other) if known else None for own, other in (scores, scores[::-1])]
    rewards = [own + 0.25 * more if known else None for own, more in zip(scores, bonus, strict=True)]
    return {
        "step": step,
        "contest": number,
        "policies": {player: player for player in players},
        "duel": KINDS[scores[0] == 1, scores[1] == 1] if known else None,
        "prompt": prompt,
        "env": "ArithmeticDuel-v0",
        "kwargs": {},
        "seed": step * 10_000 + number,
        "options": {},
        "players": ["alice", "bob"],
        "roles": dict(zip(players, ROLES, strict=True)),
        "details": {"task": "arithmetic", "source": "generated", "problem": problem, "difficulty": 3.0, "topic": "sums"},
        "versions": {"agon-env": "0"},
        "events": [
            {
                "turn": turn,
                "player": player,
                "role": role,
                "text": texts[player],
                "truncated": False,
                "chars": len(texts[player]),
                "extracted": None,
                "invalid": None,
                "visible_to": list(players),
                "tokens": len(texts[player].split()),
            }
            for turn, (player, role) in enumerate(zip(players, ROLES, strict=True))
        ],
        "outcome": {
            "rewards": dict(zip(players, rewards, strict=True)),
            "scores": dict(zip(players, scores, strict=True)),
            "components": {
                player: {"outcome": own, "bonus": 0.25 * more if known else None}
                for player, own, more in zip(players, scores, bonus, strict=True)
            },
            "roles": dict(zip(players, ROLES, strict=True)),
            "reason": "completed",
            "details": {"answer": gold} | {role: {"extracted": "4", "reason": "equal"} for role in ROLES},
        },
    }


def duels(n: int, *, steps: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return n duels over the steps of a run that learns: 8 on each problem, the seats swapping every step."""
    rng = random.Random(seed)
    made = []
    for number in range(n):
        step = number * steps // n
        right = 0.25 + 0.5 * step / steps
        scores = (float(rng.random() < right), float(rng.random() < right + 0.05))
        a, b = rng.randrange(100), rng.randrange(100)
        draft = " ".join(rng.choices(WORDS, k=rng.randrange(20, 120)))
        kept = [word if rng.random() < 0.8 else word.upper() for word in draft.split()]
        made.append(
            duel(
                step,
                number,
                prompt=f"What is {a} + {b}? (problem {number // 8})",
                draft=f"{draft} \\boxed{{{a + b + 1 - int(scores[0])}}}",
                answer=f"{' '.join(kept)} \\boxed{{{a + b + 1 - int(scores[1])}}}",
                scores=(None, None) if number % 97 == 96 else scores,
                drafter=("alice", "bob")[step % 2],
                problem=f"sum-{number // 8}",
                gold=str(a + b),
            )
        )
    return made


def evaluation(share: float, n: int = 256) -> dict[str, Any]:
    """Return the figures of an evaluation."""
    names = ("answer_pass1", "draft_pass1", "fix_rate", "break_rate")
    shares = {name: share if name != "break_rate" else 1 - share for name in names}
    intervals = {name: [max(0.0, value - 0.06), min(1.0, value + 0.06)] for name, value in shares.items()}
    return {
        "n": n,
        **shares,
        "mean_tokens": 20 + 10 * share,
        "truncated": 0.01,
        "unscored": 0,
        "forfeits": 0.0,
        "ci95": intervals,
    }


def metrics(step: int, *, steps: int) -> dict[str, Any]:
    """Return the metrics of a step."""
    rise = step / steps
    own = {"reward": 0.3 + 0.4 * rise, "reward_outcome": 0.25 + 0.4 * rise, "reward_bonus": 0.05, "length": 25 + 10 * rise}
    own |= {"kl_base": 0.01 * step, "entropy": 0.3 - 0.2 * rise, "loss": 0.0}
    return (
        {"step": step}
        | {f"{policy}/{name}": value for policy in ("alice", "bob") for name, value in own.items()}
        | {"pair/draft_pass1": 0.3 + 0.4 * rise, "pair/answer_pass1": 0.33 + 0.4 * rise, "pair/kl_alice_bob": 0.02 * step}
        | {"pair/wins_drafter": 0.2, "pair/wins_challenger": 0.3, "pair/fix_rate": 0.2 + 0.2 * rise, "pair/break_rate": 0.3}
        | {"time/step": 1.3, "time/sample": 0.5, "time/verify": 0.01, "time/logprob": 0.1, "time/update": 0.6}
        | {"progress/tokens": 3000.0}
        | ({"eval/answer_pass1": 0.3 + 0.4 * rise, "eval/draft_pass1": 0.3, "eval/n": 256} if step == steps // 2 else {})
    )


def make_run(
    folder: Path,
    contests: list[dict[str, Any]] | None = None,
    *,
    steps: int = 4,
    config: dict[str, Any] | None = None,
    after: float = 0.65,
) -> Path:
    """Write the folder of a run and return it."""
    folder.mkdir(parents=True)
    settings = {"env": "ArithmeticDuel-v0", "env_options": [], "algorithm": "competitive_grpo", "model": "embedded", "seed": 0}
    settings |= {
        "steps": steps,
        "problems": 8,
        "group_size": 8,
        "answers": 1,
        "eval_problems": 256,
        "optim": {"learning_rate": 0.001},
    }
    write_json(folder / "config.json", settings | (config or {}))
    write_json(folder / "summary.json", {"before": evaluation(0.3), "after": evaluation(after)})
    write_lines(folder / "metrics.jsonl", [metrics(step, steps=steps) for step in range(steps)])
    write_lines(folder / "contests.jsonl", contests if contests is not None else duels(32, steps=steps))
    return folder


def write_json(file: Path, record: Any) -> None:
    """Write one JSON file."""
    file.write_text(json.dumps(record), encoding="utf-8")


def write_lines(file: Path, records: list[Any]) -> None:
    """Write a JSONL file."""
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="ascii")
