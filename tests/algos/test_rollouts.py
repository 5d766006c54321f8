"""Rollouts: who is asked, what is paid to which move, and that nothing depends on what is batched together."""

import math
from collections.abc import Sequence

import pytest

from agents import Agent, SharedBase
from agents.errors import PromptTooLong
from agents.sampling import SamplingParams
from agon_env import Action, Contest, Observation
from agon_env.errors import Error, InvalidMove
from agon_env.games import DraftChallenge, Solo
from agon_env.tasks import Problem
from agon_env.verifiers import Verdict
from algos.evaluate import evaluate, tally
from algos.rollouts import Rollout, Start, _encode, rollout, row_seed
from algos.statistics import wilson

PARAMS = SamplingParams(max_tokens=8)


class Exact:
    def score(self, completion: str, gold: str) -> Verdict:
        score = None if completion == "unreadable" else float(completion == gold)
        return Verdict(score, completion, "compared")

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        return [self.score(*pair) for pair in pairs]


class Count:
    """Problem i asks for the number i."""

    name, source, instruction, size = "count", "here", "Say it.", None
    verifier = Exact()

    def __getitem__(self, index: int) -> Problem:
        return Problem(str(index), f"number {index}", str(index))

    def solution(self, problem: Problem) -> str:
        return problem.answer


class Script(Agent):
    """Says the next of its lines at each turn, and remembers what it was asked."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.asked = list(lines), []

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        self.asked.append(list(observations))
        return [Action(self.lines.pop(0)) for _ in observations]


def starts(*indices: int) -> list[Start]:
    return [Start(seed=index, options={"index": index}) for index in indices]


def duel(**options: object) -> DraftChallenge:
    return DraftChallenge(Count(), **{"reward": "competitive", "bonus": 0.5, **options})


def play(
    *,
    drafts: Sequence[str],
    answers: Sequence[str],
    indices: Sequence[int] = (7,),
    branches: Sequence[int] = (),
    **options: object,
) -> Rollout:
    players = {"alice": Script(*drafts), "bob": Script(*answers)}
    return rollout(lambda: duel(**options), players, starts(*indices), params=PARAMS, seed=0, branches=branches)


def test_every_player_is_asked_once_per_turn_in_one_batch() -> None:
    alice, bob = Script(*"7777"), Script(*"7777")
    rollout(duel, {"alice": alice, "bob": bob}, starts(1, 2), params=PARAMS, seed=0, branches=(2,))
    assert [len(batch) for batch in alice.asked] == [4]
    assert [len(batch) for batch in bob.asked] == [4]
    assert all("> 7" in observation.text for observation in bob.asked[0])


def test_pairs_are_paid_by_the_environment() -> None:
    played = play(drafts=["7", "no"], answers=["no", "7"], branches=(2, 1))
    rewards = {(turn.role, turn.text): turn.reward for turn in played.turns}
    assert rewards == {("drafter", "7"): 1.5, ("drafter", "no"): 0.0, ("challenger", "no"): 0.0, ("challenger", "7"): 1.5}
    assert all(
        turn.reward == contest.outcome.rewards[turn.player]
        for turn, contest in zip(played.turns[:2], played.contests, strict=True)
    )


def test_a_drafter_meets_the_mean_of_its_answers() -> None:
    played = play(drafts=["7", "no"], answers=["7", "no", "no", "no", "7", "7", "7", "no"], branches=(2, 4))
    drafter = [turn for turn in played.turns if turn.role == "drafter"]
    assert [turn.reward for turn in drafter] == [1 + 0.5 * (1 - 0.25), 0.0]
    assert [turn.components["bonus"] for turn in drafter] == [0.5 * 0.75, 0.0]
    challenger = [turn.reward for turn in played.turns if turn.role == "challenger"]
    assert challenger == [1.0, 0.0, 0.0, 0.0, 1.5, 1.5, 1.5, 0.0]
    assert len(played.contests) == 8


def test_turns_name_the_problem_and_the_position_they_were_made_in() -> None:
    played = play(drafts=["a", "b", "c", "d"], answers=list("abcdabcd"), indices=(3, 4), branches=(2, 2))
    drafter = [turn for turn in played.turns if turn.role == "drafter"]
    challenger = [turn for turn in played.turns if turn.role == "challenger"]
    assert [turn.problem for turn in drafter] == [0, 0, 1, 1]
    assert len({turn.parent for turn in drafter}) == 2
    assert [turn.problem for turn in challenger] == [0] * 4 + [1] * 4
    assert len({turn.parent for turn in challenger}) == 4


def test_a_score_that_is_missing_is_left_out_and_never_0() -> None:
    played = play(drafts=["7"], answers=["unreadable", "no"], branches=(1, 2))
    drafter, lost, wrong = played.turns
    assert drafter.reward == 1.5  # the rival's known mean is 0
    assert lost.reward is None
    assert wrong.reward == 0.0
    half = play(drafts=["7"], answers=["unreadable", "7"], branches=(1, 2))
    assert half.turns[0].reward == 1.0  # the rival's known mean is 1, not a half
    alone = play(drafts=["7"], answers=["unreadable"])
    assert [turn.reward for turn in alone.turns] == [None, None]  # the bonus can't be computed
    assert alone.turns[0].score == 1.0


def test_a_turn_shares_no_luck_with_the_one_before_it() -> None:
    assert len({row_seed(7, path) for path in [(0,), (0, 0), (0, 0, 0), (3, 1), (3, 1, 0), (3, 1, 0, 0)]}) == 6


def test_row_seeds_differ_by_place_and_not_by_company() -> None:
    seeds = {row_seed(seed, (problem, branch)) for seed in range(3) for problem in range(5) for branch in range(5)}
    assert len(seeds) == 75
    assert all(0 <= seed < 2**63 for seed in seeds)


class Insist(Contest):
    """Says the word within three tries, or forfeits."""

    roles = ("speaker", "judge")
    retries = 2

    def setup(self, rng: object, options: object) -> None:
        self.said = False

    def prompt(self, role: str) -> str:
        return role

    def apply(self, role: str, text: str) -> str:
        if role == "speaker" and text != "word":
            raise InvalidMove("say the word")
        return text

    def score(self) -> dict[str, float | None]:
        return {"speaker": 0.25, "judge": 0.75}


def test_refused_moves_are_turns_too_and_a_forfeit_pays_everyone() -> None:
    players = {"alice": Script("what", "word"), "bob": Script("fine")}
    played = rollout(Insist, players, [Start(0, {})], params=PARAMS, seed=0)
    assert [(turn.role, turn.reward) for turn in played.turns] == [("speaker", 0.25), ("speaker", 0.25), ("judge", 0.75)]
    players = {"alice": Script("a", "b", "c"), "bob": Script()}
    played = rollout(Insist, players, [Start(0, {})], params=PARAMS, seed=0)
    assert [turn.reward for turn in played.turns] == [0.0, 0.0, 0.0]
    assert played.contests[0].outcome.rewards == {"alice": 0.0, "bob": 1.0}


def test_tally_counts_fixes_and_breaks() -> None:
    figures = tally([play(drafts=["7", "7", "no", "no", "no"], answers=["7", "no", "7", "no", "no"], branches=(5, 1))])
    assert (figures.n, figures.draft_pass1, figures.answer_pass1) == (5, 0.4, 0.4)
    assert figures.fix_rate == pytest.approx(1 / 3)
    assert figures.break_rate == pytest.approx(1 / 2)
    assert figures.ci95["answer_pass1"] == wilson(0.4, 5)
    assert figures.mean_tokens is None


def test_tally_leaves_out_what_could_not_be_scored() -> None:
    figures = tally([play(drafts=["7", "7"], answers=["unreadable", "7"], branches=(2, 1))])
    assert (figures.n, figures.unscored, figures.answer_pass1) == (1, 1, 1.0)


def test_evaluation_plays_each_problem_once_in_both_orders() -> None:
    right, wrong = Solver(), Script(*["no"] * 6)
    figures, contests = evaluate(duel, {"alice": right, "bob": wrong}, problems=6, params=PARAMS, batch=4)
    assert [contest.problem.id for contest in contests] == list("012345")
    assert [contest.player_of["drafter"] for contest in contests] == ["alice", "bob"] * 3
    assert (figures.draft_pass1, figures.answer_pass1, figures.fix_rate, figures.break_rate) == (0.5, 0.5, 1.0, 1.0)


class Trio(Contest):
    """Whoever speaks is paid for its role."""

    roles = ("first", "middle", "last")

    def setup(self, rng, options):
        pass

    def prompt(self, role: str) -> str:
        return "Say something."

    def apply(self, role: str, text: str) -> None:
        pass

    def score(self) -> dict[str, float | None]:
        return {"first": 0.0, "middle": 0.5, "last": 1.0}


def test_evaluation_gives_three_players_every_role_equally_often_and_on_a_problem_in_turn() -> None:
    players = dict.fromkeys(("alice", "bob", "carol"), lambda _: "word")
    _, contests = evaluate(Trio, players, problems=6, samples=3, params=PARAMS)
    seatings = [tuple(contest.player_of[role] for role in Trio.roles) for contest in contests]
    rotations = [("alice", "bob", "carol"), ("bob", "carol", "alice"), ("carol", "alice", "bob")]
    assert seatings[:6] == rotations * 2
    assert all({seatings[place + 6 * nth] for nth in range(3)} == set(rotations) for place in range(6))
    _, contests = evaluate(Trio, players, problems=3, params=PARAMS, both_orders=False)
    assert [contest.player_of["middle"] for contest in contests] == ["bob"] * 3


def test_an_empty_seat_is_named() -> None:
    with pytest.raises(ValueError, match="nobody plays for bob"):
        rollout(duel, {"alice": Solver()}, starts(0), params=PARAMS, seed=0)


class Solver(Agent):
    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [Action(observation.text.split()[1]) for observation in observations]


def test_a_solo_contest_has_no_drafts() -> None:
    figures, _ = evaluate(lambda: Solo(Count()), {"alice": Solver()}, problems=3, params=PARAMS)
    interval = {"answer_pass1": wilson(1.0, 3)}
    assert figures.summary() == {"n": 3, "answer_pass1": 1.0, "forfeits": 0.0, "unscored": 0, "ci95": interval}


def test_contests_without_an_index_are_held_out_by_their_seed() -> None:
    _, contests = evaluate(Insist, {"alice": lambda _: "word", "bob": lambda _: "word"}, problems=3, params=PARAMS)
    assert min(contest.seed for contest in contests) >= 2**52


class Wide(Insist):
    score_range = (-2.0, 2.0)

    def score(self) -> dict[str, float | None]:
        return {"speaker": 2.0, "judge": -1.0}


def test_scores_of_any_range_are_judged_as_shares_of_it() -> None:
    figures, _ = evaluate(Wide, {"alice": lambda _: "word", "bob": lambda _: "word"}, problems=4, params=PARAMS)
    assert (figures.draft_pass1, figures.answer_pass1, figures.break_rate) == (1.0, 0.25, 0.75)


def test_who_forfeits_is_wrong_and_the_other_is_not_judged() -> None:
    figures, _ = evaluate(Insist, {"alice": lambda _: "no", "bob": lambda _: "no"}, problems=4, params=PARAMS)
    assert (figures.n, figures.draft_pass1, figures.answer_pass1, figures.forfeits, figures.unscored) == (4, 0.0, None, 1.0, 0)


class Gate(Contest):
    """The second speaker must say "pass", or forfeits."""

    roles = ("first", "second")

    def setup(self, rng: object, options: object) -> None: ...

    def prompt(self, role: str) -> str:
        return role

    def apply(self, role: str, text: str) -> str:
        if role == "second" and text != "pass":
            raise InvalidMove("say pass")
        return text

    def score(self) -> dict[str, float | None]:
        return {"first": 0.0, "second": 1.0}


def test_a_move_that_leads_to_forfeits_is_paid_the_mean_of_what_the_contests_paid() -> None:
    players = {"alice": Script("go"), "bob": Script("pass", "no", "no", "pass")}
    played = rollout(Gate, players, [Start(0, {})], params=PARAMS, seed=0, branches=(1, 4))
    first, *second = played.turns
    assert first.reward == 0.5  # two rivals forfeited, which paid 1 each
    assert [turn.reward for turn in second] == [1.0, 0.0, 0.0, 1.0]


def test_prompts_of_one_text_in_different_messages_are_encoded_apart() -> None:
    class Speller:
        def encode(self, observation: Observation, *, params: SamplingParams) -> tuple[int, ...]:
            return tuple(len(message["content"]) for message in observation.messages)

    one = Observation("alice", "solver", ({"role": "user", "content": "a\n\nb"},))
    two = Observation("alice", "solver", ({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}))
    assert one.text == two.text
    assert _encode(Speller(), [one, two, one], PARAMS) == [(4,), (1, 1), (4,)]


def test_prompts_leave_room_for_what_the_rollout_samples_not_for_what_the_policy_would() -> None:
    base = SharedBase.load("embedded")
    policy = base.policy(params=SamplingParams(max_tokens=4))
    much = SamplingParams(max_tokens=base.context_length - 4)
    with pytest.raises(PromptTooLong, match=f"less {much.max_tokens} to sample"):
        rollout(lambda: Solo(Count()), {"alice": policy}, starts(0), params=much, seed=0)
    policy.params = much
    (turn,) = rollout(lambda: Solo(Count()), {"alice": policy}, starts(0), params=SamplingParams(max_tokens=4), seed=0).turns
    assert 0 < len(turn.completion.token_ids) <= 4


class Brittle:
    """A rule that knows right and wrong, but no mean of them."""

    zero_sum = False

    def __call__(self, scores):
        return {role: {"outcome": score if score in (0.0, 1.0) else math.nan} for role, score in scores.items()}

    def range(self, scores=(0.0, 1.0)):
        return scores


def test_a_rule_that_fails_where_answers_branch_pays_nobody() -> None:
    assert [turn.reward for turn in play(drafts=["7"], answers=["7"], reward=Brittle(), bonus=None).turns] == [1.0, 1.0]
    with pytest.raises(Error, match="must be finite"):
        play(drafts=["7"], answers=["7", "no"], branches=(1, 2), reward=Brittle(), bonus=None)


def test_every_turn_has_the_score_of_its_own_player() -> None:
    for branches, answers in (((2, 1), ["no", "7"]), ((2, 2), ["no", "no", "7", "7"])):
        played = play(drafts=["7", "no"], answers=answers, branches=branches)
        assert [(turn.role, turn.score) for turn in played.turns] == [
            *(("drafter", float(text == "7")) for text in ("7", "no")),
            *(("challenger", float(text == "7")) for text in answers),
        ]
