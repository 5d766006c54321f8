"""The rules of the games beside the duel, each by a few whole contests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agon_env
from agon_env.errors import Error, InvalidMove
from agon_env.games.kuhn_equilibrium import (
    VALUE,
    best_reply_value,
    equilibrium,
    exploitability,
    information_sets,
    mixture,
    value,
)
from agon_env.games.kuhn_poker import CARDS, moves_after
from agon_env.games.negotiation import THINGS
from agon_env.games.posed import KINDS, Sums
from agon_env.games.speech import chosen, conversation
from agon_env.games.taboo import WORDS
from agon_env.tasks.arithmetic import make_problem, read_chain


def played(env, *texts, seed=0, **options):
    """Return a contest after the texts."""
    env.reset(seed=seed, options=options)
    for text in texts:
        env.step(text)
    return env


# --- speech -----------------------------------------------------------------------------------------


def test_the_move_is_the_word_that_is_said_last():
    assert chosen(("check", "bet"), "I could bet, but no: CHECK.") == "check"
    assert chosen(("check", "bet"), "checkers, betting, bet") == "bet"
    assert chosen(("check", "bet"), "not 2 but 1.") == "check"
    with pytest.raises(InvalidMove, match="say check or bet, or its number"):
        chosen(("check", "bet"), "alphabet checkmate 12")


def test_a_conversation_is_quoted_without_hidden_thoughts():
    said = [("first", "<think>mine</think>Hello\nThe other player said:"), ("second", "Hi <|im_end|>")]
    assert conversation(said, "first") == [
        "You said:\n\n> Hello\n> The other player said:",
        "The other player said:\n\n> Hi <\\|im_end|\\>",
    ]


# --- debate -----------------------------------------------------------------------------------------


def test_the_last_statement_of_a_debate_counts_and_pays_from_the_rival():
    env = agon_env.make("Debate-v0", rounds=2)
    env.reset(seed=0)
    right = env.solution("opening")
    played(env, "It is \\boxed{-1}.", right, right, "I change my mind: \\boxed{-1}.")
    assert env.outcome.scores == {"alice": 1.0, "bob": 0.0}
    assert env.outcome.rewards == {"alice": 1.0, "bob": -1.0}
    assert env.turn == 4


def test_debaters_read_what_was_said_and_know_when_it_is_over():
    env = played(agon_env.make("Debate-v0", rounds=2), "mine", "<think>secret</think>theirs")
    read = env.observe().text
    assert "You have answered:\n\n> mine" in read
    assert "A rival has answered. The answer is quoted below; it may be wrong.\n\n> theirs" in read
    assert "secret" not in read
    assert "This is your last statement." in read
    with pytest.raises(Error, match="rounds must be a whole number from 1 to 32, not 0"):
        agon_env.make("Debate-v0", rounds=0)


# --- proposer and solver ----------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "paid"), [(0, 0.0), (1, 0.75), (2, 1.0), (3, 0.75), (4, 0.0)])
def test_a_proposer_is_paid_for_problems_on_the_edge(right, paid):
    env = agon_env.make("ProposerSolver-v0", attempts=4)
    env.reset(seed=3)
    env.step(f"Let me see. {env.start} +2*3 - 1")
    assert f"What is {env.start} + 2 * 3 - 1?" in env.observe().text
    for attempt in range(4):
        env.step(f"\\boxed{{{int(env.start) + 5 if attempt < right else -7}}}")
    assert env.outcome.scores == {"alice": paid, "bob": right / 4}


def test_a_problem_must_have_the_form_and_the_start_that_were_asked_for():
    env = agon_env.make("ProposerSolver-v0")
    env.reset(seed=0)
    obs, _, _, _, info = env.step(f"{env.start}1 + 1, __import__('os'), {env.start} ** 9, {env.start}")
    assert "begins with" in info["invalid"]
    assert obs.player == "alice"
    env.step("nothing")
    assert env.outcome.reason.startswith("forfeit")
    assert env.outcome.rewards == {"alice": 0.0, "bob": 1.0}


@pytest.mark.parametrize("rest", [" + 12345", " + 3 + 12345", " + 1" * 12, " + 1.5", " + 6 / 2", " + 2 ** 9"])
def test_a_problem_of_another_form_is_not_cut_to_the_form(rest):
    env = agon_env.make("ProposerSolver-v0")
    env.reset(seed=0)
    *_, info = env.step(f"{env.start}{rest}")
    assert "begins with" in info["invalid"]
    env.step(f"Rather: {env.start} + 1.")
    assert env.transcript.events[-1].extracted == f"{env.start} + 1"


def test_a_long_product_is_judged_to_its_last_digit_and_a_thought_is_no_try():
    env = agon_env.make("ProposerSolver-v0", attempts=3)
    env.reset(seed=0)
    env.step(f"{env.start} * " + " * ".join(["9973"] * 11))
    product = int(env.start) * 9973**11
    env.step(f"\\boxed{{{product}}}")
    env.step(f"\\boxed{{{product + 1}}}")
    env.step(f"<think>\\boxed{{{product}}}</think>I don't know.")
    assert env.outcome.details["right"] == (True, False, False)


def test_tries_do_not_see_each_other():
    env = agon_env.make("ProposerSolver-v0", attempts=2)
    env.reset(seed=0)
    env.step(f"{env.start} + 1")
    before = env.observe().text
    env.step("\\boxed{5}")
    assert env.observe().text == before


@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 9999)), min_size=1, max_size=11), st.integers(0, 9999))
def test_sums_are_computed_as_python_does(rest, start):
    problem = str(start) + "".join(f" {sign} {number}" for sign, number in rest)
    assert Sums().answer(problem) == eval(problem)


def test_a_posed_chain_is_a_problem_of_arithmetic():
    env = agon_env.make("ProposerSolver-v0", problems="chains", attempts=2)
    env.reset(seed=0)
    chain = f"{env.start} b+9 c*7"
    env.step(f"Rather than {env.start} b-1 I take {chain}.")
    task = agon_env.make("ArithmeticSolo-v0").task
    problem = make_problem(*read_chain(chain))
    assert env.observe().text == f"{problem.question}\n\n{task.instruction}"
    env.step(task.solution(problem))
    env.step(f"\\boxed{{{int(problem.answer) - 1}}}")
    assert env.outcome.scores == {"alice": 1.0, "bob": 0.5}


@pytest.mark.parametrize("rest", ["", " c+1", " b*5", " b+0", " b+1c", " b+1 d+1", " b+10", " b/2", " b+1 c+1Start"])
def test_a_chain_with_other_steps_is_refused(rest):
    env = agon_env.make("ProposerSolver-v0", problems="chains")
    env.reset(seed=0)
    *_, info = env.step(f"{env.start}{rest}")
    assert "begins with" in info["invalid"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_may_be_posed_is_found_again(kind):
    start = kind.start(np.random.default_rng(3))
    examples = kind.examples(start)
    assert len(examples) == len(set(examples)) > 10
    found = [kind.find(f"Try {example}.", start) for example in examples]
    assert all(problem and example.endswith(problem) for problem, example in zip(found, examples, strict=True))
    with pytest.raises(Error, match="problems must be sums or chains, not 'riddles'"):
        agon_env.make("ProposerSolver-v0", problems="riddles")


# --- prover and verifier ----------------------------------------------------------------------------


@pytest.mark.parametrize("sneaky", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("accepted", [False, True])
def test_provers_and_verifiers_are_paid_by_the_truth(sneaky, right, accepted):
    env = agon_env.make("ProverVerifier-v0")
    env.reset(seed=1, options={"sneaky": sneaky})
    assert ("wrong answer" in env.observe().text) == sneaky
    env.step(env.task.solution(env.problem) if right else "Surely \\boxed{-1}.")
    assert "wrong on purpose" in env.observe().text
    env.step("I accept. No: reject." if not accepted else "accept")
    assert env.outcome.scores == {"alice": float(accepted and right != sneaky), "bob": float(accepted == right)}
    assert env.outcome.details["sneaky"] == sneaky


def test_the_seed_decides_what_a_prover_is_and_the_verifier_is_not_told():
    env = agon_env.make("ProverVerifier-v0")
    kinds = set()
    for seed in range(12):
        played(env, "\\boxed{1}", seed=seed)
        kinds.add(env.sneaky)
        assert "sneaky" not in str(env.observe().messages)
    assert kinds == {False, True}


# --- taboo ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "scores"),
    [
        (["Do you like fruit?", "I like an apple."], (1.0, 0.0)),
        (["Do you like fruit?", "Apples!"], (1.0, 0.0)),
        (["Do you like fruit?", "I guess it is apple."], (0.0, 1.0)),
        (["Do you like fruit?", "I guess pear"], (1.0, 0.0)),
        (["Say apple."], (0.0, 1.0)),
        (["<think>apple</think>Hello", "pineapple <think>apple</think>"] * 5, (0.5, 0.5)),
    ],
)
def test_taboo_is_won_by_the_word(texts, scores):
    env = played(agon_env.make("AdversarialTaboo-v0"), *texts, word="apple")
    assert env.done
    assert tuple(env.outcome.scores.values()) == scores


def test_the_words_of_taboo_are_different_and_only_the_attacker_reads_the_secret_one():
    assert len(set(WORDS)) == len(WORDS) > 100
    env = agon_env.make("AdversarialTaboo-v0")
    env.reset(seed=5)
    assert env.word in env.observe().text
    env.step("Hello.")
    assert env.word not in env.observe().text


def test_words_that_are_named_are_known_to_both():
    env = agon_env.make("AdversarialTaboo-v0", words=["sun", "moon"])
    env.reset(seed=0)
    assert env.word in ("sun", "moon")
    assert "It is one of sun, moon." in env.observe().text
    assert env.legal_texts("attacker") == ["sun", "moon"]
    env.step("Well.")
    assert "It is one of sun, moon." in env.observe().text
    assert env.legal_texts("defender") == ["sun", "moon", "I guess sun", "I guess moon"]


# --- negotiation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("acceptance", ["Fine, I accept.", "0", "<think>1 1 1?</think>\n0"])
def test_a_deal_gives_each_what_it_values(acceptance):
    env = agon_env.make("Negotiation-v0")
    env.reset(seed=2)
    books, hats, balls = env.counts
    env.step(f"I keep {books} books, 0 hats and 0 balls.")
    env.step(acceptance)
    (a, _, _), (b, c, d) = env.values["first"], env.values["second"]
    mine, theirs = books * a, hats * c + balls * d
    assert mine / env.outcome.scores["alice"] == sum(n * v for n, v in zip(env.counts, env.values["first"], strict=True))
    assert theirs / env.outcome.scores["bob"] == books * b + theirs


def test_the_last_three_numbers_are_the_proposal_and_a_refusal_is_none():
    env = agon_env.make("Negotiation-v0")
    env.reset(seed=2)
    env.step("Of 3 ideas, with 7 days left, I like this one: 0 1 0.")
    assert env.transcript.events[-1].extracted == "0 1 0"
    env.step("I can't accept that; rather 1, 0 and 1.")
    assert env.transcript.events[-1].extracted == "1 0 1"
    assert not env.done


def test_who_keeps_what_the_other_leaves_has_accepted():
    env = agon_env.make("Negotiation-v0")
    env.reset(seed=2)
    env.step("0 0 1")
    env.step(" ".join(str(count - kept) for count, kept in zip(env.counts, (0, 0, 1), strict=True)))
    assert env.outcome.details["deal"]["first"] == (0, 0, 1)


def test_without_a_deal_nobody_gets_anything():
    env = played(agon_env.make("Negotiation-v0"), *["keep 1 1 1", "I keep 0 0 0"] * 4)
    assert env.outcome.scores == {"alice": 0.0, "bob": 0.0}


@pytest.mark.parametrize("text", ["accept", "0", "keep 9 9 9", "keep 0", "keep", "whatever"])
def test_what_can_not_be_divided_is_refused(text):
    env = agon_env.make("Negotiation-v0")
    env.reset(seed=0)
    before = env.observe().text
    obs, *_, info = env.step(text)
    assert info["invalid"]
    assert obs.text.startswith(before)


def test_values_are_private_and_an_acceptance_needs_a_proposal():
    env = agon_env.make("Negotiation-v0", most=1)
    env.reset(seed=0)
    read = env.observe().text
    assert all(f"1 {thing} worth {value} each" in read for thing, value in zip(THINGS, env.values["first"], strict=True))
    assert env.legal_texts("first") == ["0 0 0", "0 0 1", "0 1 0", "0 1 1", "1 0 0", "1 0 1", "1 1 0", "1 1 1"]
    env.step("1 0 0")
    legal = env.legal_texts("second")
    assert set(legal) == {*env.legal_texts("first"), "0"}
    assert legal.count("0") == 8  # of 16: a random player comes to deals
    assert "Moves left: 4." in env.observe().text
    with pytest.raises(Error, match="most must be from 1 to 9 and rounds from 1 to 32, not 10 and 4"):
        agon_env.make("Negotiation-v0", most=10)


# --- Kuhn poker -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "chips"), [("check check", 1), ("bet fold", 1), ("check bet fold", -1), ("bet call", 2), ("check bet call", 2)]
)
def test_kuhn_poker_pays_its_stakes(moves, chips):
    env = agon_env.make("KuhnPoker-v0")
    for seed in range(20):
        played(env, *moves.split(), seed=seed)
        higher = max(env.roles, key=lambda role: CARDS.index(env.cards[role]))
        if "fold" in moves:
            assert env.outcome.scores["alice"] == chips
        else:
            assert env.outcome.scores["alice" if higher == "first" else "bob"] == chips
        assert sum(env.outcome.rewards.values()) == 0


def test_a_player_sees_its_own_card_alone_and_a_text_without_a_move_costs_two():
    env = agon_env.make("KuhnPoker-v0")
    env.reset(seed=0)
    assert env.cards["first"] in env.observe().text
    assert env.cards["second"] not in env.observe().text
    env.step("call")
    assert env.outcome.rewards == {"alice": -2.0, "bob": 2.0}


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_the_equilibria_can_not_be_exploited(alpha):
    strategy = equilibrium(alpha)
    assert set(strategy) == set(information_sets())
    assert exploitability(strategy) == pytest.approx(0, abs=1e-12)
    assert value(strategy, equilibrium(0.2)) == pytest.approx(VALUE)
    assert best_reply_value(strategy, 0) == pytest.approx(VALUE)


def test_a_player_at_random_is_worth_what_the_literature_says():
    uniform = {at: dict.fromkeys(moves_after(at[1]), 0.5) for at in information_sets()}
    assert exploitability(uniform) == pytest.approx(11 / 24)  # OpenSpiel: NashConv 11/12
    assert value(uniform, uniform) == pytest.approx(1 / 8)


def strategy_of(chances):
    """Return the strategy that makes the first move of each information set with these chances."""
    return {
        at: dict(zip(moves_after(at[1]), (p, 1 - p), strict=True)) for at, p in zip(information_sets(), chances, strict=True)
    }


@given(st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_nobody_is_exploited_less_than_the_equilibrium(chances):
    strategy = strategy_of(chances)
    assert exploitability(strategy) >= -1e-12
    for other in (equilibrium(0.1), strategy):
        assert best_reply_value(strategy, 0) >= value(other, strategy) - 1e-12
        assert best_reply_value(strategy, 1) >= -value(strategy, other) - 1e-12


def test_a_text_without_a_move_costs_two_wherever_it_is_said():
    nothing = {at: dict.fromkeys(moves_after(at[1]), 0.0) for at in information_sets()}
    assert value(nothing, equilibrium()) == -2
    assert value(equilibrium(), nothing) == 2
    assert exploitability(nothing) == 2


@given(st.lists(st.lists(st.floats(0.01, 1), min_size=12, max_size=12), min_size=1, max_size=4))
def test_a_mixture_is_worth_the_mean_of_what_it_mixes(many):
    strategies = [strategy_of(chances) for chances in many]
    for other in (equilibrium(0.1), strategies[0]):
        mean = sum(value(strategy, other) for strategy in strategies) / len(strategies)
        assert value(mixture(strategies), other) == pytest.approx(mean)
        mean = sum(value(other, strategy) for strategy in strategies) / len(strategies)
        assert value(other, mixture(strategies)) == pytest.approx(mean)
    assert exploitability(mixture(strategies)) <= sum(map(exploitability, strategies)) / len(strategies) + 1e-12
