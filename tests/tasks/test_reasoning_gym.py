"""The generators of reasoning-gym: offered when missed, made and scored in a process that can be killed."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import agon_env
from agon_env import registration
from agon_env.errors import DependencyNotInstalled, NameNotFound, TaskError
from agon_env.tasks import Task, load_task, split_of
from agon_env.tasks import reasoning_gym as module
from agon_env.tasks.reasoning_gym import DEFAULT, ReasoningGym, ReasoningGymVerifier, generator_names, last_answer
from agon_env.tasks.reasoning_gym_worker import check_formula, read_literal

pytest.importorskip("reasoning_gym")

WITHOUT_ANSWERS = {"boxnet", "graph_color", "rush_hour"}
"""Generators whose scorer knows a right answer when it sees one, but has none to show."""


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment, timeout=120
    )
    return done.stdout.strip()


def test_importing_agon_env_does_not_load_it_and_neither_does_playing():
    code = (
        "import sys, agon_env; env = agon_env.make('ReasoningGym/chain_sum-v0')\n"
        "env.reset(seed=0); env.step(env.solution('solver'))\n"
        "print(env.outcome.scores, 'reasoning_gym' in sys.modules, 'sympy' in sys.modules)"
    )
    assert run(code) == "{'alice': 1.0} False False"
    assert run("import agon_env; print([id for id in agon_env.registry if id.startswith('ReasoningGym/')])") == "[]"


def test_every_generator_has_an_id():
    code = "import agon_env; print(sum(id.startswith('ReasoningGym/') for id in agon_env.list_envs()))"
    assert int(run(code)) == len(generator_names()) >= 100


def test_an_unknown_one_has_a_near_name():
    code = (
        "import agon_env\n"
        "try: agon_env.make('ReasoningGym/chain_sums-v0')\n"
        "except agon_env.errors.NameNotFound as error: print(error)"
    )
    assert "Did you mean ReasoningGym/chain_sum-v0?" in run(code)


def test_without_the_package_the_error_names_it(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(registration, "registry", {"MATHDuel-v0": registration.registry["MATHDuel-v0"]})
    with pytest.raises(DependencyNotInstalled, match=r"pip install 'agon-env\[reasoning-gym\]'"):
        agon_env.make("ReasoningGym/chain_sum-v0")
    with pytest.raises(DependencyNotInstalled, match="reasoning-gym"):
        ReasoningGym()
    assert "MATHDuel-v0" in agon_env.list_envs()
    with pytest.raises(NameNotFound):
        agon_env.make("Nothing-v0")


@pytest.mark.parametrize("split", ["train", "test"])
def test_problems_are_a_function_of_seed_index_and_split(split):
    task = ReasoningGym(split=split, seed=5)
    assert isinstance(task, Task)
    problems = [task[i] for i in range(30)]
    assert problems == [ReasoningGym(split=split, seed=5)[i] for i in range(30)]
    assert problems[:5] != [ReasoningGym(split=split, seed=6)[i] for i in range(5)]
    assert {split_of(problem.question) for problem in problems} == {split}
    assert len({problem.id for problem in problems}) == 30
    assert len({problem.topic for problem in problems}) > len(DEFAULT) // 2
    pairs = [(task.solution(problem), problem.answer) for problem in problems]
    assert {verdict.score for verdict in task.verifier.score_many(pairs)} == {1.0}


def test_other_processes_make_the_same_problems():
    # without a fixed order of sets, this generator depends on the process
    code = (
        "from agon_env.tasks.reasoning_gym import ReasoningGym\n"
        "print([ReasoningGym('ransom_note')[i].question for i in range(3)])"
    )
    assert run(code, PYTHONHASHSEED="1") == run(code, PYTHONHASHSEED="2")


def test_a_setting_of_the_generator():
    task = ReasoningGym("chain_sum", config={"min_terms": 9, "max_terms": 9})
    assert all(task[i].question.count("+") + task[i].question.count(" - ") == 8 for i in range(3))
    with pytest.raises(TaskError, match="config is for one generator"):
        ReasoningGym(config={"min_terms": 9})
    with pytest.raises(TaskError, match=r"chain_sum failed: .*config="):
        _ = ReasoningGym("chain_sum", config={"terms": 9})[0]


def test_wrong_options():
    with pytest.raises(TaskError, match=r"no generator 'chain_sums'; it has .*chain_sum"):
        ReasoningGym("chain_sums")
    with pytest.raises(TaskError, match="split is"):
        ReasoningGym(split=None)
    with pytest.raises(TaskError, match="seed is"):
        ReasoningGym(seed=-1)
    with pytest.raises(IndexError):
        _ = ReasoningGym()[-1]
    assert load_task("reasoning_gym", generators="gcd") is load_task("reasoning_gym", generators="gcd")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>7</answer>", "7"),
        ("<answer>1</answer> no: <answer> 2\n3 </answer>.", "2\n3"),
        ("<answer>1</answer> no: <answer>2", None),
        ("<answer></answer>", None),
        ("</answer><answer>", None),
        (r"\boxed{7}", None),
        ("", None),
    ],
)
def test_the_last_answer_counts(text, answer):
    assert last_answer(text) == answer


def test_only_the_full_score_counts_unless_asked_otherwise():
    problem = ReasoningGym("spell_backward")[0]
    answer = json.loads(problem.answer)["answer"]
    near = f"<answer>{answer[:-1]}{'x' if answer[-1] != 'x' else 'y'}</answer>"
    strict, lenient = ReasoningGymVerifier(), ReasoningGymVerifier(partial_credit=True)
    assert strict.score(f"<answer>{answer}</answer>", problem.answer).score == 1.0
    assert strict.score(near, problem.answer).score == 0.0
    assert 0.0 < lenient.score(near, problem.answer).score < 1.0
    assert strict.score(f"<think><answer>{answer}</answer></think> I do not know.", problem.answer).reason == "no answer"
    assert strict.score("<answer>x</answer>", "not json").reason == "no gold"
    assert strict.score(f"<answer>{'x' * 30_000}</answer>", problem.answer).reason == "too long"


EVIL = [
    "__import__('os').system('touch {path}')",
    "open('{path}', 'w')",
    "[open('{path}', 'w')]",
    "().__class__.__base__.__subclasses__()",
    "exec(chr(112))",
    "open(chr(97),chr(119))",
]


@pytest.mark.parametrize(
    "generator", ["string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "puzzle24", "countdown"]
)
def test_scorers_that_evaluate_answers_do_not_run_them(generator, tmp_path):
    task = ReasoningGym(generator)
    problem = task[0]
    for text in EVIL:
        answer = text.format(path=tmp_path / "made")
        assert task.verifier.score(f"<answer>{answer}</answer>", problem.answer).score == 0.0
    assert list(tmp_path.iterdir()) == []
    assert not Path("a").exists()
    assert task.verifier.score(task.solution(problem), problem.answer).score == 1.0


def test_formulas_and_literals():
    for text in ("3*x**2 + sin(x)/2 - sqrt(2)", "(1 + 2)*3", "x*exp(-x) + C", "-0.5"):
        check_formula(text)
    for text in ("__import__('os')", "x.real", "open(x)", "exec(x)", "lambda: 1", "[x]", "'a'", "a_b_", "1" * 3000):
        with pytest.raises(ValueError, match="not a formula"):
            check_formula(text)
    assert read_literal("[[1, 2], ['a']]") == [[1, 2], ["a"]]
    assert read_literal("0x1F & (3 + 4)") == 7
    for text in ("f()", "abc", "().__class__", "[x for x in (1,)]"):
        with pytest.raises((ValueError, SyntaxError)):
            read_literal(text)


def test_a_hang_costs_one_verdict():
    task = ReasoningGym("puzzle24", deadline=1.0)
    problem = task[0]
    assert task.verifier.score("<answer>9**9**9**9</answer>", problem.answer).reason == "timeout"
    assert task.verifier.score(task.solution(problem), problem.answer).score == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", generator_names())
def test_every_generator_knows_right_from_garbage(name):
    for split in ("train", "test"):
        task = ReasoningGym(name, split=split, deadline=20)
        problem = task[0]
        for text in (
            "",
            "<answer></answer>",
            problem.question,
            f"<answer>{problem.question}</answer>",
            "<answer>0 1 yes no</answer>",
        ):
            assert task.verifier.score(text, problem.answer).score == 0.0
        if name in WITHOUT_ANSWERS:
            with pytest.raises(TaskError, match="gives no answers"):
                task.solution(problem)
        else:
            # an answer that the generator could not work out restates the question, which is not credited
            worked_out = "Integral" not in json.loads(problem.answer)["answer"]
            assert task.verifier.score(task.solution(problem), problem.answer).score == float(worked_out)


def test_the_duel_plays():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = agon_env.make("ReasoningGymDuel-v0", generators=["gcd", "leg_counting"])
    env.reset(seed=1)
    env.step("I do not know.")
    assert "> I do not know." in env.observe().text
    env.step(env.solution("challenger"))
    assert env.outcome.scores == {"alice": 0.0, "bob": 1.0}
