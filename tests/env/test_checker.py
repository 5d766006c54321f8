"""Every registered contest keeps every rule, and `check_env` finds those that do not."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace

import pytest
from toys import Doubling, Nim

import agon_env
from agon_env import checker
from agon_env.checker import RULES, CheckFailed, check_env
from agon_env.contest import Contest
from agon_env.games import DraftChallenge, Solo
from agon_env.registration import ContestSpec

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("id", sorted(agon_env.registry))
def test_every_registered_contest_keeps_the_rules(id):
    assert len(check_env(id, processes=True)) == len(RULES) + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Nim(),
        lambda: Nim(reward="competitive"),
        lambda: Nim(players=("x", "y"), roles={"x": "second", "y": "first"}),
        lambda: Solo(Doubling()),
        lambda: DraftChallenge(Doubling()),
        lambda: DraftChallenge(Doubling(), reward="zero_sum", reveal="nothing"),
        lambda: DraftChallenge(Doubling(), reveal="answer"),
        lambda: DraftChallenge(Doubling(), reward="cooperative", reveal="thinking", credit_truncated=True),
    ],
)
def test_the_games_keep_the_rules_in_every_setting(make):
    assert check_env(make()) == [rule.__name__ for rule in RULES]


def test_a_spec_can_be_checked_in_other_processes():
    check_env(ContestSpec("toys/Nim-v0", "toys:Nim"), processes=True)


class StartsOver(Nim):
    """Says nothing wrong, but `__init__` does not call the one above it."""

    def __init__(self):
        self.players = self.roles


class HasNoRange(Nim):
    score_range = (1.0, 1.0)


class IsOverAtOnce(Nim):
    def next_role(self):
        return None


class SpeaksAsNobody(Nim):
    def prompt(self, role):
        return [{"role": "referee", "content": "Go."}]


class ShowsWhatIsHidden(DraftChallenge):
    def __init__(self):
        super().__init__(Doubling())

    def visible_to(self, role):
        return (self.player_of[role],)


class CountsLooks(Nim):
    looks = 0

    def prompt(self, role):
        return f"{self.stones} stones."

    def legal_texts(self, role):
        self.looks += 1
        return super().legal_texts(role)

    def details(self):
        return {"looks": self.looks}


class Remembers(Nim):
    games = 0

    def setup(self, rng, options):
        super().setup(rng, options)
        self.games += 1

    def prompt(self, role):
        return f"Game {self.games}."


class IgnoresTheSeed(Nim):
    def setup(self, rng, options):
        self.stones, self.mover = random.SystemRandom().randrange(5, 10**9), "first"

    def apply(self, role, text):
        self.stones, self.loser = 0, "first"


class DriftsLater(Nim):
    def apply(self, role, text):
        super().apply(role, text)
        self.stones = self.stones and random.SystemRandom().randrange(1, 10**9)


class StampsTheTime(Nim):
    def details(self):
        return {"stamp": time.perf_counter_ns()}


class UsesGlobalRandomness(Nim):
    def setup(self, rng, options):
        self.stones, self.mover = random.randrange(5, 10**6) % 50 + 5, "first"


class HoldsALock(Nim):
    def setup(self, rng, options):
        super().setup(rng, options)
        self.callback = lambda: None


class SharesOnCopies(Nim):
    def setup(self, rng, options):
        super().setup(rng, options)
        self.board = [0]

    shared = Contest.shared | {"board"}

    def apply(self, role, text):
        self.board.append(text)
        return super().apply(role, text)

    def details(self):
        return {"moves": len(self.board)}


class HandsOutItsState(Nim):
    def setup(self, rng, options):
        super().setup(rng, options)
        self.rules = [{"role": "user", "content": "Nim"}]

    def observe(self, player=None):
        seen = super().observe(player)
        return SimpleNamespace(player=seen.player, role=seen.role, text=seen.text, messages=self.rules)


class SharesAcrossContests(Nim):
    log: list[str] = []  # noqa: RUF012 - the fault

    def setup(self, rng, options):
        super().setup(rng, options)
        self.log.clear()

    def apply(self, role, text):
        self.log.append(text)
        return super().apply(role, text)

    def prompt(self, role):
        return f"{len(self.log)} moves were made."


class ChangesItsInfo(Nim):
    def details(self):
        return {"stones": self.stones, **({"late": 1} if self.turn else {})}


class StripsTheText(Nim):
    def step(self, action):
        return super().step(action.strip() if isinstance(action, str) else action)


class PlaysNone(Nim):
    def check_action(self, action):
        return super().check_action("" if action is None else action)


class ChangesOnInvalidMoves(Nim):
    def apply(self, role, text):
        self.stones = max(1, self.stones - 1)
        return super().apply(role, text)


class NeverForfeits(Nim):
    def _ending_after(self, role, complaint):
        self._invalid_in_a_row = -1
        return super()._ending_after(role, complaint)


class PaysTheWinnerAlone(Nim):
    def _end(self, reason, **how):
        super()._end(reason, **how)
        object.__setattr__(self.outcome, "rewards", {p: r for p, r in self.outcome.rewards.items() if r > 0})


class IsNotZeroSum(Nim):
    def __init__(self):
        super().__init__(reward="outcome")

    zero_sum = True


class LeavesTheRange(Nim):
    reward_range = (0.0, 0.5)


class KeepsTheRoles(Nim):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options={key: value for key, value in (options or {}).items() if key != "roles"})


class HasAnUnwritableResult(Nim):
    def verdicts(self):
        return {"object": object()}


class PraisesEverything(DraftChallenge):
    def __init__(self):
        super().__init__(Doubling())

    def score(self):
        return {role: 1.0 if self.texts.get(role) else 0.0 for role in self.roles}


class HasAFalseOracle(Solo):
    def __init__(self):
        super().__init__(Doubling())

    def solution(self, role):
        return "It is nothing"


@pytest.mark.parametrize(
    ("game", "rule", "hint"),
    [
        (StartsOver, "check_lifecycle", "super().__init__()"),
        (HasNoRange, "check_declarations", "score_range"),
        (IsOverAtOnce, "check_declarations", "next_role()"),
        (SpeaksAsNobody, "check_prompts", "system, user or assistant"),
        (ShowsWhatIsHidden, "check_hidden_texts", "leave it out of prompt()"),
        (CountsLooks, "check_observe_is_pure", "make them pure"),
        (Remembers, "check_reset_forgets", "setup()"),
        (IgnoresTheSeed, "check_seeds", "setup's rng"),
        (DriftsLater, "check_seeds", "setup's rng"),
        (StampsTheTime, "check_seeds", "same seed gives different contests"),
        (UsesGlobalRandomness, "check_global_randomness", "setup's rng"),
        (HoldsALock, "check_copies", "pickled"),
        (SharesOnCopies, "check_copies", "goes on differently"),
        (HandsOutItsState, "check_no_shared_state", "must return copies"),
        (SharesAcrossContests, "check_no_shared_state", "none on the class"),
        (ChangesItsInfo, "check_info", "changes its keys"),
        (StripsTheText, "check_unicode", "verbatim"),
        (PlaysNone, "check_bad_actions", "TypeError"),
        (ChangesOnInvalidMoves, "check_invalid_moves", "before apply() changes anything"),
        (NeverForfeits, "check_ends", "max_turns"),
        (PaysTheWinnerAlone, "check_rewards", "every player"),
        (IsNotZeroSum, "check_rewards", "do not sum to zero though its zero_sum says so"),
        (LeavesTheRange, "check_rewards", "mend its range()"),
        (KeepsTheRoles, "check_roles", "roles"),
        (HasAnUnwritableResult, "check_transcript", "plain JSON"),
        (PraisesEverything, "check_canaries", "mend apply() or score()"),
        (HasAFalseOracle, "check_oracle", "mend solution(), apply() or score()"),
    ],
)
def test_a_broken_game_is_found_and_told_how_to_mend(game, rule, hint):
    with pytest.raises(Exception) as caught:
        getattr(checker, rule)(game)
    assert hint in str(caught.value)


def test_every_rule_has_a_broken_game():
    (parameters,) = [mark for mark in test_a_broken_game_is_found_and_told_how_to_mend.pytestmark if mark.name == "parametrize"]
    assert {rule for _, rule, _ in parameters.args[1]} == {rule.__name__ for rule in RULES}


def test_all_broken_rules_are_listed():
    with pytest.raises(CheckFailed) as caught:
        check_env(ChangesItsInfo())
    assert "check_info: info changes its keys" in str(caught.value)
    with pytest.raises(CheckFailed, match="check_canaries") as caught:
        check_env(PraisesEverything())
    assert "breaks 1 rule:" in str(caught.value)


class CrashesOnWords(Solo):
    def __init__(self):
        super().__init__(Doubling())

    def apply(self, role, text):
        super().apply(role, str(int(text.split()[-1])))


def test_a_game_that_can_not_stand_a_text_is_told_so():
    with pytest.raises(
        CheckFailed, match=r"check_unicode.*: it raised ValueError.* in apply\(\); apply\(\) must stand any"
    ) as caught:
        check_env(CrashesOnWords())
    assert len(set(mistakes := [line.partition(": ")[2] for line in str(caught.value).splitlines()])) == len(mistakes)


class NeedsADraft(Solo):
    def __init__(self):
        super().__init__(Doubling())

    def score(self):
        return {"solver": self.no_such_attribute}


def test_one_mistake_is_told_once():
    with pytest.raises(CheckFailed) as caught:
        check_env(NeedsADraft())
    title, *mistakes = str(caught.value).splitlines()
    assert int(title.split()[2]) > 5
    (told,) = [line for line in mistakes if "AttributeError" in line and "in score()" in line]
    assert "check_ends, check_rewards" in told


def test_a_contest_that_depends_on_the_hash_seed_is_found(tmp_path, monkeypatch):
    (tmp_path / "hashed_game.py").write_text(
        "from toys import Nim\n"
        "class Hashed(Nim):\n"
        "    def prompt(self, role):\n"
        "        return ' '.join({'ant', 'bee', 'cat', 'dog', 'elk'})\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AssertionError, match="iterate over no set"):
        checker.check_processes(ContestSpec("toys/Hashed-v0", "hashed_game:Hashed").make)
