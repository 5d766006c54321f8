"""What a run shows while it trains: at 80 and at 200 columns, and as a log."""

import io

import pytest
from rich.console import Console

from algos.training.console import RunConsole
from algos.training.live import Clock, LiveSteps, pair_figures, policy_figures

DUEL = ("drafter", "challenger")
STATS = {
    "alice/reward": 0.84,
    "alice/reward_outcome": 0.66,
    "alice/reward_bonus": 0.18,
    "alice/length": 48.2,
    "alice/truncated": 0.05,
    "alice/kl_base": 0.0123,
    "alice/entropy": 0.51,
    "alice/wins": 0.5,
    "alice/grad_norm": 0.127,
    "alice/learning_rate": 1e-3,
    "bob/reward": 0.7,
    "bob/reward_outcome": 0.7,
    "bob/length": 51.8,
    "pair/draft_pass1": 0.66,
    "pair/answer_pass1": 0.711,
    "pair/fix_rate": 0.41,
    "pair/break_rate": 0.08,
    "eval/answer_pass1": 0.635,
    "time/sample": 0.21,
    "time/update": 0.17,
    "time/step": 0.46,
    "time/tokens_per_second": 4310.4,
}


def drawn(width: int, *, steps: int = 1) -> str:
    screen = io.StringIO()
    view = LiveSteps(Console(file=screen, width=width), 60, done=10, policies=("alice", "bob"), roles=DUEL)
    view.sampling(64, 128)
    for step in range(steps):
        view.step(11 + step, STATS)
    view._console.print(view)
    return screen.getvalue()


def test_80_columns_hold_what_matters() -> None:
    lines = drawn(80).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "11/60" in text
    assert "left 0.46 s/step" in text
    assert "64/128 4,310 tokens/s" in text
    assert "reward outcome bonus length cut off KL to base entropy" in text
    assert "alice 0.84 0.66 0.18 48 5 % 0.012 0.51" in text
    assert "bob 0.70 0.70 – 52 – – –" in text
    assert "draft 66 % answer 71 % fix 41 % break 8 % held-out 64 %" in text
    assert "gradient" not in text


def test_200_columns_hold_more() -> None:
    lines = drawn(200).splitlines()
    assert max(map(len, lines)) <= 200
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "0.46 s/step: sample 0.21, update 0.17" in text
    assert "wins gradient learning rate" in text
    assert "50 % 0.13 1.0e-03" in text


def test_before_the_first_step_only_the_bars_are_drawn() -> None:
    lines = drawn(80, steps=0).splitlines()
    assert len(lines) == 2
    assert "10/60" in lines[0]
    assert "64/128" in lines[1]


def test_an_evaluation_stays_to_be_seen() -> None:
    screen = io.StringIO()
    view = LiveSteps(Console(file=screen, width=80), 60, done=0, policies=("alice",), roles=DUEL)
    view.step(1, STATS)
    view.step(2, {name: value for name, value in STATS.items() if not name.startswith("eval/")})
    view._console.print(view)
    assert "held-out 64 %" in screen.getvalue()


@pytest.mark.parametrize("live", [True, False])
def test_a_terminal_is_drawn_on_and_a_log_has_lines(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    screen = io.StringIO()
    console = RunConsole(Console(file=screen, width=80, force_terminal=live))
    with console.training(60, done=10, policies=("alice", "bob"), roles=DUEL) as display:
        display.sampling(1, 2)
        display.step(11, STATS)
        display.step(60, STATS)
    shown = screen.getvalue()
    assert ("\x1b[" in shown) == live
    if not live:
        first, last = shown.splitlines()
        figures = "draft 66 %  answer 71 %  fix 41 %  break 8 %  held-out 64 %  length 50  KL to base 0.012"
        assert first == f"step 11/60  {figures}  4,310 tokens/s  0.46 s/step  0:00:00 left"
        assert last == f"step 60/60  {figures}  4,310 tokens/s  0.46 s/step"


def test_ci_gets_a_log_on_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    screen = io.StringIO()
    console = RunConsole(Console(file=screen, width=80, force_terminal=True, color_system=None))
    with console.training(2, policies=("alice",), roles=DUEL) as display:
        display.step(1, STATS)
    with console.progress("evaluate before:", 4) as tick:
        tick(4)
    assert [line.split("  ")[0] for line in screen.getvalue().splitlines()] == ["step 1/2", "evaluate before: 4/4"]


def test_other_games_speak_of_their_roles() -> None:
    assert pair_figures(STATS, ("proposer", "responder")) == {"proposer": "66 %", "responder": "71 %", "held-out": "64 %"}
    assert policy_figures(STATS, "carol") == {}


def test_the_time_left_counts_the_steps_of_this_session(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = Clock(110, done=50)
    assert clock.left(50) == ""
    now[0] += 10 * 90.0
    assert clock.left(60) == "1:15:00 left"
    assert clock.left(110) == ""


HOSTILE = "\x1b[2J\x1b]8;;https://example.org\x07[link=https://example.org]x[/link] [bold red]y[/] \u202ez\r"


def test_names_of_a_run_neither_act_nor_are_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from a config, a data set or a game, which may be somebody else's."""
    monkeypatch.delenv("CI", raising=False)
    screen = io.StringIO()
    terminal = Console(file=screen, width=400, force_terminal=True, color_system="truecolor", highlight=False)
    console = RunConsole(terminal)
    console.banner(HOSTILE, {HOSTILE: HOSTILE})
    figures = {"n": 4, "draft_pass1": 0.5, "answer_pass1": 0.5, "ci95": {"draft_pass1": (0, 1), "answer_pass1": (0, 1)}}
    console.before_after(figures, figures, roles=(HOSTILE, "other"), title=HOSTILE)
    view = LiveSteps(terminal, 2, done=0, policies=(HOSTILE,), roles=(HOSTILE, "other"))
    view.step(1, {f"{HOSTILE}/reward": 1.0, f"{HOSTILE}/reward_{HOSTILE}": 1.0, "pair/draft_pass1": 0.5, "time/step": 1.0})
    terminal.print(view)
    shown = screen.getvalue()
    assert shown.count("[link=https://example.org]x[/link] [bold red]y[/]") >= 7
    for acting in ("\x1b[2J", "\x1b]", "\x07", "\u202e", "\r"):
        assert acting not in shown
