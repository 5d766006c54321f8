"""The whole run, on the embedded model: its folder, its metrics, resuming, stopping."""

import dataclasses
import io
import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

import agon_env
from agon_env.games import DraftChallenge
from agon_env.tasks.arithmetic import Arithmetic
from algos.algorithm import Algorithm
from algos.commands.train import parse
from algos.competitive import CompetitiveGRPO
from algos.config import PRESETS, TINY, TrainConfig
from algos.errors import ConfigError
from algos.evaluation.divergence import policy_divergence
from algos.learning.optim import OptimConfig
from algos.playing.play import play
from algos.trainer import Interrupted, train
from algos.training.console import RunConsole
from algos.training.run import Run

FAST = dataclasses.replace(
    TINY,
    env_options=("difficulty=3",),
    steps=4,
    problems=4,
    group_size=4,
    max_tokens=40,
    eval_problems=8,
    checkpoint_every=2,
    lora_rank=4,
)


def quiet() -> RunConsole:
    return RunConsole(Console(file=io.StringIO(), width=100))


def adapters(run: Path) -> dict[str, torch.Tensor]:
    return {
        f"{policy.parent.name}/{name}": tensor
        for policy in sorted(run.glob("*/adapter_model.safetensors"))
        for name, tensor in load_file(policy).items()
    }


def metrics(run: Path) -> list[dict[str, float]]:
    """Read the metrics without those that measure time."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in record.items() if not key.startswith(("time/", "memory/"))} for record in records]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(dataclasses.replace(FAST, output_dir=str(tmp_path_factory.mktemp("runs"))), console=quiet())


def test_a_run_leaves_what_it_promises(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} >= {"config.json", "metrics.jsonl", "summary.json", "alice", "bob"}
    assert list(finished.glob("events.out.tfevents.*"))
    summary = json.loads((finished / "summary.json").read_text(encoding="utf-8"))
    for when in ("before", "after"):
        assert {"draft_pass1", "answer_pass1", "fix_rate", "break_rate", "mean_tokens", "n", "ci95"} <= set(summary[when])
        assert summary[when]["n"] == 8
        low, high = summary[when]["ci95"]["answer_pass1"]
        assert low <= summary[when]["answer_pass1"] <= high
    assert [record["step"] for record in metrics(finished)] == [0, 1, 2, 3]


def test_metrics_of_both_policies_and_of_the_pair_are_logged(finished: Path) -> None:
    names = set().union(*metrics(finished))
    for policy in ("alice", "bob"):
        assert {
            f"{policy}/{key}" for key in ("reward", "reward_outcome", "reward_bonus", "length", "truncated", "rows")
        } <= names
    assert {"pair/answer_pass1", "pair/draft_pass1", "pair/wins_drafter", "pair/kl_alice_bob", "groups/dropped"} <= names


def test_t42_the_logged_reward_is_the_sum_of_its_logged_components(finished: Path) -> None:
    for record in metrics(finished):
        for policy in ("alice", "bob"):
            parts = record[f"{policy}/reward_outcome"] + record[f"{policy}/reward_bonus"]
            assert record[f"{policy}/reward"] == pytest.approx(parts)


def test_t09_the_policies_start_apart_and_the_metric_tells_one_from_two() -> None:
    run = Run.of(FAST)
    starts = [
        [parameter for key, parameter in policy.base.adapters.named_parameters(name).items() if "lora_A" in key]
        for name, policy in run.policies.items()
    ]
    assert not any(torch.equal(a, b) for a, b in zip(*starts, strict=True))
    turns = play(run)[0].turns
    assert policy_divergence(run.policies, run.learners, turns, temperature=1)["pair/kl_alice_bob"] == pytest.approx(
        0, abs=1e-6
    )  # both still are the base
    with torch.no_grad():
        for parameter in run.policies["bob"].parameters():
            parameter.add_(0.1)
    assert policy_divergence(run.policies, run.learners, turns, temperature=1)["pair/kl_alice_bob"] > 0.01


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_t45_t49_t50_what_is_trained_is_what_was_sampled(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tokens with their end, scored at the same temperature, of the groups that differ in reward."""
    run = Run.of(dataclasses.replace(FAST, temperature=temperature))
    trained = {}
    learner = run.learners["alice"]
    assert run.learners["bob"] is learner
    forward_backward = learner.forward_backward
    monkeypatch.setattr(
        learner,
        "forward_backward",
        lambda policy, batch: trained.update({policy.name: batch}) or forward_backward(policy, batch),
    )
    stats, played = run.advance()
    assert set(trained) == {"alice", "bob"}
    for name, batch in trained.items():
        own = [turn for turn in played.turns if turn.policy == name]
        rewards = {turn.problem: {other.reward for other in own if other.problem == turn.problem} for turn in own}
        expected = [
            (turn.prompt_ids, turn.completion.token_ids, turn.completion.logprobs)
            for turn in own
            if len(rewards[turn.problem]) > 1
        ]
        assert [(row.prompt_ids, row.completion_ids, row.old_logprobs) for row in batch.rows] == expected
        assert any(row.completion_ids[-1] in learner.base.eos_ids for row in batch.rows)
        assert stats[f"{name}/ratio_mean"] == pytest.approx(1, abs=1e-3)
        assert stats[f"{name}/ratio_max"] == pytest.approx(1, abs=1e-2)


def test_t13_the_roles_rotate_with_the_step(finished: Path) -> None:
    for record in metrics(finished):
        drafter, challenger = ("alice", "bob") if record["step"] % 2 == 0 else ("bob", "alice")
        assert f"{drafter}/score_drafter" in record
        assert f"{challenger}/score_challenger" in record
        assert f"{drafter}/score_challenger" not in record


def test_both_adapters_learned_and_differ(finished: Path) -> None:
    tensors = adapters(finished)
    moved = {name: bool(tensor.any()) for name, tensor in tensors.items() if "lora_B" in name}
    assert {name.split("/")[0] for name in moved} == {"alice", "bob"}
    assert all(moved.values())
    assert any(
        not torch.equal(tensors[name], tensors[name.replace("alice/", "bob/")]) for name in tensors if name.startswith("alice/")
    )


def test_adapters_load_in_plain_peft(finished: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from agents.embedded import path

    ids = torch.tensor([[5, 6, 7, 8]])
    base = AutoModelForCausalLM.from_pretrained(path())
    plain = base(ids).logits
    model = PeftModel.from_pretrained(base, finished / "bob")
    assert not torch.equal(model(ids).logits, plain)


def test_t57_a_resumed_run_equals_an_uninterrupted_one(finished: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(FAST, output_dir=str(tmp_path))
    console, seen = quiet(), []

    class StopAfterOne(RunConsole):  # an odd number, so that the roles must go on swapped
        def say(self, text: str) -> None:
            if text.startswith("step 1/"):
                seen.append(text)
                os.kill(os.getpid(), signal.SIGINT)  # arrives before step 2 begins

    with pytest.raises(Interrupted) as stopped:
        train(config, console=StopAfterOne(console.console))
    assert seen
    run = stopped.value.run
    assert [record["step"] for record in metrics(run)] == [0]
    assert not (run / "summary.json").exists()
    train(TrainConfig.from_dict(json.loads((run / "config.json").read_text())), resume=run, console=console)
    assert metrics(run) == metrics(finished)
    resumed, straight = adapters(run), adapters(finished)
    assert resumed.keys() == straight.keys()
    assert all(torch.equal(resumed[name], straight[name]) for name in straight)
    assert (run / "summary.json").read_text() == (finished / "summary.json").read_text()


def test_the_same_seed_gives_the_same_run_and_another_seed_does_not(finished: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(FAST, output_dir=str(tmp_path), steps=2, eval_problems=0)
    assert metrics(train(config, console=quiet())) == metrics(finished)[:2]
    assert metrics(train(dataclasses.replace(config, seed=1), console=quiet())) != metrics(finished)[:2]


def test_grpo_trains_one_policy_alone(tmp_path: Path) -> None:
    config = dataclasses.replace(FAST, env="ArithmeticSolo-v0", algorithm="grpo", steps=1, output_dir=str(tmp_path))
    run = train(config, console=quiet())
    assert (run / "alice").exists()
    assert not (run / "bob").exists()
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert "draft_pass1" not in summary["before"]


def test_only_the_challenger_learns_if_asked(tmp_path: Path) -> None:
    run = Run.of(dataclasses.replace(FAST, update="last"))
    stats, _ = run.advance()
    assert stats["alice/rows"] == 0  # drafts at step 0
    assert stats["bob/rows"] > 0


def test_a_solo_contest_has_no_room_for_two_policies() -> None:
    with pytest.raises(ValueError, match="needs a contest for 2 players"):
        Run.of(dataclasses.replace(FAST, env="ArithmeticSolo-v0"))


def test_held_out_problems_are_never_trained_on() -> None:
    run = Run.of(FAST)
    _, played = run.advance()
    _, judged = run.evaluate()
    assert not {contest.problem.question for contest in played.contests} & {contest.problem.question for contest in judged}


def test_the_banner_says_what_a_step_is(tmp_path: Path) -> None:
    screen = io.StringIO()
    train(dataclasses.replace(FAST, steps=1, output_dir=str(tmp_path)), console=RunConsole(Console(file=screen, width=120)))
    text = screen.getvalue()
    for part in (
        "one step",
        "alice: LoRA r=4",
        "of the base",
        "before",
        "after",
        "fix rate: wrong draft → right",
        "step 1/1",
    ):
        assert part in text


def test_the_live_line_is_drawn_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    screen = io.StringIO()
    console = RunConsole(Console(file=screen, width=120, force_terminal=True))
    train(dataclasses.replace(FAST, steps=1, eval_problems=0, output_dir=str(tmp_path)), console=console)
    assert "1/1" in screen.getvalue()
    assert "sampled" in screen.getvalue()
    assert "answer" in screen.getvalue()


def test_evaluations_on_the_way_are_logged_with_their_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    screen = io.StringIO()
    console = RunConsole(Console(file=screen, width=120, force_terminal=True))
    run = train(dataclasses.replace(FAST, steps=3, eval_every=2, output_dir=str(tmp_path)), console=console)
    assert ["eval/answer_pass1" in record for record in metrics(run)] == [False, True, False]
    assert "held-out" in screen.getvalue()
    assert set(json.loads((run / "summary.json").read_text(encoding="utf-8"))) == {"before", "after"}
    state = json.loads((run / "checkpoint" / "step-3" / "state.json").read_text(encoding="utf-8"))
    assert state["best"] == {"step": 2, "answer_pass1": metrics(run)[1]["eval/answer_pass1"]}


def test_the_split_is_not_an_option_of_a_run_that_is_evaluated() -> None:
    with pytest.raises(ConfigError, match="'split' tells held-out problems"):
        Run.of(dataclasses.replace(FAST, env_options=("split=test",)))
    assert Run.of(dataclasses.replace(FAST, env_options=("split=test",), eval_problems=0)).contest.task.split == "test"


def test_a_run_that_learned_nothing_says_so(tmp_path: Path) -> None:
    screen = io.StringIO()
    config = dataclasses.replace(FAST, steps=1, max_tokens=1, output_dir=str(tmp_path))
    train(config, console=RunConsole(Console(file=screen, width=120)))
    assert "Nothing was learned" in screen.getvalue()
    assert "texts that were cut off" in screen.getvalue()


def test_a_finished_run_that_is_taken_up_again_is_not_said_to_have_learned_nothing(finished: Path, tmp_path: Path) -> None:
    screen, again = io.StringIO(), tmp_path / "again"
    shutil.copytree(finished, again)
    config = TrainConfig.from_dict(json.loads((again / "config.json").read_text(encoding="utf-8")))
    train(config, resume=again, console=RunConsole(Console(file=screen, width=120)))
    assert "Run folder" in screen.getvalue()
    assert "Nothing was learned" not in screen.getvalue()


def test_the_table_speaks_of_the_roles_of_the_game(tmp_path: Path) -> None:
    class Echo(agon_env.Contest):
        roles = ("caller", "echo")

        def setup(self, rng: object, options: object) -> None:
            self.said: list[str] = []

        def prompt(self, role: str) -> str:
            return "Say a digit."

        def apply(self, role: str, text: str) -> None:
            self.said.append(text)

        def score(self) -> dict[str, float | None]:
            return {"caller": float("1" in self.said[0]), "echo": float(self.said[0] == self.said[1])}

    agon_env.register("tests/Echo-v0", Echo, force=True)
    try:
        screen = io.StringIO()
        config = dataclasses.replace(FAST, env="tests/Echo-v0", env_options=(), steps=2, eval_every=1, output_dir=str(tmp_path))
        run = train(config, console=RunConsole(Console(file=screen, width=120)))
    finally:
        del agon_env.registry["tests/Echo-v0"]
    assert "mean score of the caller" in screen.getvalue()
    assert "draft" not in screen.getvalue()
    assert "eval/answer_pass1" in metrics(run)[0]
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert "what the echo of tests/Echo-v0 scores depends on rivals" in summary["no_best"]
    assert summary["no_best"] in screen.getvalue()
    assert json.loads((run / "checkpoint" / "step-2" / "state.json").read_text(encoding="utf-8"))["best"] is None


@pytest.mark.parametrize(
    ("env", "kept"),
    [
        ("ArithmeticSolo-v0", True),
        ("ArithmeticDuel-v0", True),
        ("Debate-v0", True),
        ("KuhnPoker-v0", False),
        ("Negotiation-v0", False),
        ("ProposerSolver-v0", False),
        ("ProverVerifier-v0", False),
    ],
)
def test_there_is_a_best_checkpoint_where_scores_are_verdicts(env: str, kept: bool) -> None:
    run = SimpleNamespace(held_out=agon_env.make(env), config=dataclasses.replace(FAST, env=env), step=1, best=None)
    run.no_best = Run.no_best.fget(run)
    assert (run.no_best is None) == Run.is_best(run, {"answer_pass1": 0.5}) == kept


def test_a_second_ctrl_c_says_what_has_to_be_made_again(tmp_path: Path) -> None:
    class Impatient(RunConsole):
        def say(self, text: str) -> None:
            if text.startswith("step 1/"):
                raise KeyboardInterrupt

    config = dataclasses.replace(FAST, steps=2, checkpoint_every=9, output_dir=str(tmp_path))
    with pytest.raises(Interrupted, match="The last checkpoint is that of step 0"):
        train(config, console=Impatient(quiet().console))


# --- configs --------------------------------------------------------------------------------------------


def test_options_are_read_as_json_or_as_python() -> None:
    options = ("a=true", "b=False", "c=.5", "d=[1, 2]", "e=word", "f=None")
    config = dataclasses.replace(TINY, env_options=options)
    assert config.contest_options() == {"a": True, "b": False, "c": 0.5, "d": [1, 2], "e": "word", "f": None}
    run = Run.of(dataclasses.replace(FAST, env_options=("reveal=nothing",)))
    assert run.contest.reveal == "nothing"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "ArithmeticSolo-v0", "algorithm": "grpo", "group_size": 1, "answers": 8}, "group_size instead of answers=8"),
        ({"group_by": "position"}, "answers must be at least 2"),
        ({"env_options": ("reveal=maybe",)}, "reveal must be one of"),
        ({"algorithm": "reinforce", "normalize": "mean"}, "normalize='mean' has no effect with reinforce"),
        ({"algorithm": "competitive_ppo", "group_by": "position"}, "group_by='position' has no effect with competitive_ppo"),
    ],
)
def test_runs_that_can_not_learn_what_they_say_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Run.of(dataclasses.replace(FAST, **changes))


def test_a_task_object_says_what_is_held_out() -> None:
    task = Arithmetic(difficulty=2)
    agon_env.register("tests/Objects-v0", DraftChallenge, kwargs={"task": task}, force=True)
    try:
        config = dataclasses.replace(FAST, env="tests/Objects-v0", env_options=())
        with pytest.raises(ConfigError, match="no held-out problems"):
            Run.of(config)
        assert Run.of(dataclasses.replace(config, eval_problems=0)).contest.task is task
        task.held_out = Arithmetic(difficulty=2, split="test")
        assert Run.of(config).held_out.task is task.held_out
        task.held_out = Arithmetic(difficulty=2)
        with pytest.raises(ConfigError, match=r"questions are in generated and in generated, for example"):
            Run.of(config)
    finally:
        del agon_env.registry["tests/Objects-v0"]


def test_a_run_goes_on_as_it_began_or_not_at_all(finished: Path) -> None:
    config = TrainConfig.from_dict(json.loads((finished / "config.json").read_text(encoding="utf-8")))
    with pytest.raises(ConfigError, match=r"temperature was 1\.0 and can't become 0.5"):
        train(dataclasses.replace(config, temperature=0.5), resume=finished, console=quiet())


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_in_an_evaluation_loses_nothing(when: str, tmp_path: Path) -> None:
    class Impatient(RunConsole):
        def say(self, text: str) -> None:
            if text.startswith(f"evaluate {when}"):
                raise KeyboardInterrupt

    config = dataclasses.replace(FAST, steps=2, output_dir=str(tmp_path))
    with pytest.raises(Interrupted) as stopped:
        train(config, console=Impatient(quiet().console))
    run = train(config, resume=stopped.value.run, console=quiet())
    assert [record["step"] for record in metrics(run)] == [0, 1]
    assert (run / "summary.json").exists()


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_configs_survive_json(preset: TrainConfig) -> None:
    assert TrainConfig.from_dict(json.loads(json.dumps(preset.to_dict()))) == preset
    assert isinstance(preset.make_algorithm(), Algorithm)


def test_an_algorithm_of_ones_own_is_named_by_its_place() -> None:
    config = dataclasses.replace(TINY, algorithm="algos.competitive:CompetitiveGRPO", swap_roles=False)
    assert config.make_algorithm() == CompetitiveGRPO(swap_roles=False)
    for wrong in ("algos.competitive:Nothing", "nowhere:Thing", "algos.trainer:Run"):
        with pytest.raises(ConfigError, match=wrong):
            dataclasses.replace(TINY, algorithm=wrong)


def test_flags_override_the_preset() -> None:
    args = parse(["--preset", "smollm2", "--steps", "3", "--optim.learning-rate", "0.5", "--env-options", "difficulty=[1,2]"])
    config = args.run
    assert args.start.resume is None
    assert (config.model, config.steps, config.optim.learning_rate) == ("smollm2-135m", 3, 0.5)
    assert config.contest_options() == {"difficulty": [1, 2]}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("algorithm", "magic", "algorithm must be one of competitive_grpo, "),
        ("problems", 0, "problems must be at least 1"),
        ("steps", -1, "steps must be at least 0"),
        ("temperature", 0.0, "temperature must be at least"),
        ("group_size", 1, "a group needs two turns"),
        ("env_options", ("difficulty",), "a contest option is name=value"),
        ("max_rows", 0, "max_rows must be at least 1"),
        ("temperature", float("inf"), "temperature must be a finite number, not inf"),
        ("optim", OptimConfig(learning_rate=float("inf")), "learning_rate must be a finite number"),
        ("optim", OptimConfig(betas=(0.9, 0.999), eps=float("inf")), "eps must be a finite number"),
    ],
)
def test_impossible_configs_are_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "reinforce", "discount": 2.0}, "discount must be in"),
        ({"algorithm": "ppo", "gamma": 2.0}, "gamma and lam must be in"),
    ],
)
def test_what_an_algorithm_can_not_take_is_an_error_of_the_config(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TINY, **changes)


def test_a_config_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no field 'colour'"):
        TrainConfig.from_dict({"colour": "red"})
