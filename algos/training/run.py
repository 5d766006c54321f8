"""`Run`: everything that a training step needs, and the step itself.

One step, of `problems` × `group_size` × `answers` contests:

    match     who meets whom, live or an opponent that stands in (algorithm.matches)
    play      every policy samples its turns, the environment pays            time/sample, time/verify
    compare   each turn with its group, or with what a critic expected (algorithm.advantages)
    update    each policy on its own turns, with its own optimiser            time/update
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch

from agents.adapter_files import AdapterSpec
from agents.engines.served import ServedEngine
from agents.engines.tinker import TinkerBase
from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams, sample_many
from agents.shared_base import SharedBase
from agon_env.contest import Contest
from algos.advantages import Advantages
from algos.algorithm import Algorithm, advantages_of
from algos.config import TrainConfig
from algos.errors import OutOfMemory
from algos.evaluate import Evaluation
from algos.evaluation.divergence import base_divergence, disagreement, policy_divergence
from algos.evaluation.judge import evaluate_policies
from algos.evaluation.metrics import pair_metrics, turn_metrics, turn_samples
from algos.guards import Guards
from algos.learner import Learner, LocalLearner
from algos.learning.memory import free_memory, is_out_of_memory
from algos.learning.tinker import TinkerLearner
from algos.learning.update import update_policy
from algos.learning.values import Critic, appraise, update_critic
from algos.length_penalty import penalise_length
from algos.parallel.pool import RayPool
from algos.parallel.ranked import RankedCritic, RankedLearner, ranked_rollout, rollout_of_first
from algos.parallel.ranks import Ranks
from algos.phases import recording
from algos.playing.asynchronous import Ahead
from algos.playing.contests import make_contests
from algos.playing.engines import AnyEngine, make_engine, make_workers
from algos.playing.opponents import Opponents, make_opponents
from algos.playing.policies import load_bases, make_policy, sampling_params
from algos.playing.win_rates import WinRates
from algos.rollouts import Rollout, Rollouts, rollout
from algos.types import Row, Stats, Turn, ValueRow


@dataclass
class Run:
    """Everything that a training step needs."""

    config: TrainConfig
    algorithm: Algorithm
    contest: Contest
    """The template of training contests."""
    held_out: Contest
    """The template of evaluation contests."""
    policies: dict[str, LLMPolicy]
    learners: dict[str, Learner]
    """Policy → what updates it; policies on one base have the same."""
    opponents: Opponents | None
    engine: AnyEngine
    params: SamplingParams
    ranks: Ranks = field(default_factory=Ranks)
    """The processes that learn side by side, of which this is one."""
    workers: RayPool | None = None
    """Where contests are played, if not in this process."""
    rollout: Rollouts = rollout
    """Plays contests."""
    ahead: Ahead = field(default_factory=Ahead)
    """Plays those of the next step ahead, if the config says so."""
    critics: dict[str, Critic] = field(default_factory=dict)
    """Policy → its critic, where the algorithm has such."""
    rates: WinRates = field(default_factory=WinRates)
    step: int = 0
    tokens: int = 0
    """Sampled for training so far."""
    samples: dict[str, list[float]] = field(default_factory=dict)
    """Of the last step: what histograms are drawn of; see `turn_samples`."""
    before: dict[str, Any] | None = None
    """The evaluation of the untrained policies."""
    best: dict[str, float] | None = None
    """The best evaluation while training, so far: after how many steps (`step`), and its `answer_pass1`."""

    def __post_init__(self) -> None:
        self.guards = Guards(
            self.config.guards,
            self.policies,
            self.learners,
            critics=self.critics,
            eval_problems=0 if self.no_best else self.config.eval_problems,
        )
        """What watches the run; see `algos.guards`."""

    @classmethod
    def of(cls, config: TrainConfig) -> Run:
        """Load the bases, make the policies, the contests and the opponents that `config` names.

        Raises:
            ConfigError: they can't be had, or nothing could be learned from them.
        """
        if config.threads:
            torch.set_num_threads(config.threads)
        algorithm, ranks = config.make_algorithm(), Ranks.current()
        contest, held_out = make_contests(config, algorithm)
        names = algorithm.policies
        engine = make_engine(config, policies=len(names))
        bases = load_bases(config, names, engine)
        policies = {
            name: make_policy(bases[name], name, config, seed=config.seed * len(names) + number)
            for number, name in enumerate(names)
        }
        correction, differs = config.loss.sampler_correction, config.engine != "torch" or config.staleness > 0
        loss = replace(
            config.loss,
            max_tokens=config.loss.max_tokens or config.max_tokens,
            sampler_correction="token" if correction == "none" and differs else correction,
        )
        updates = config.imitation.steps + config.steps * config.optim.epochs * config.optim.minibatches
        of_base = {
            id(base): _make_learner(base, ranks, loss=loss, optim=config.optim, total_steps=updates)
            for base in {id(base): base for base in bases.values()}.values()
        }
        learners = {name: of_base[id(bases[name])] for name in names}
        workers = make_workers(config, policies=len(names)) if config.ray.address and ranks.first else None
        return cls(
            config=config,
            algorithm=algorithm,
            contest=contest,
            held_out=held_out,
            policies=policies,
            learners=learners,
            opponents=make_opponents(config, policies, contest),
            engine=engine,
            params=sampling_params(config),
            ranks=ranks,
            workers=workers,
            ahead=Ahead(staleness=config.staleness),
            rollout=_rollouts(ranks, workers, spread=bool(config.ray.address)),
            critics=_make_critics(config, policies, learners) if algorithm.critic else {},
        )

    def close(self) -> None:
        """End what was begun elsewhere: workers, servers."""
        self.ahead.close()
        if self.workers is not None:
            self.workers.close()
        if isinstance(self.engine, ServedEngine):
            self.engine.close()

    @property
    def bases(self) -> list[SharedBase]:
        """The frozen models, each once."""
        return list({id(policy.base): policy.base for policy in self.policies.values()}.values())

    @property
    def finished(self) -> bool:
        """Whether the steps are done, or the token budget is spent."""
        return self.step >= self.config.steps or 0 < self.config.sample_budget <= self.tokens

    @property
    def no_best(self) -> str | None:
        """Why no checkpoint is kept as the best one; None where one is, for evaluations measure progress."""
        *rivals, last = self.held_out.roles
        if self.held_out.scores_are_verdicts or not rivals:
            return None
        return (
            f"No checkpoint is kept as the best one: what the {last} of {self.config.env} scores depends on rivals who learn "
            "too, so its mean says nothing of progress; agon eval RUN --against random sets the policies against players that "
            "stand still."
        )

    def is_best(self, figures: Mapping[str, Any]) -> bool:
        """Take note of an evaluation while training; return whether it is the best so far, if there can be one."""
        figure = figures.get("answer_pass1")
        if self.no_best or figure is None or (self.best is not None and figure <= self.best["answer_pass1"]):
            return False
        self.best = {"step": self.step, "answer_pass1": figure}
        return True

    def evaluate(self, on_contest: Callable[[int], None] | None = None) -> tuple[Evaluation, list[Contest]]:
        """Play the held-out problems with the policies as they are; see `algos.evaluation.judge`."""
        self.ahead.settle()
        return evaluate_policies(
            self.held_out,
            self.policies,
            problems=self.config.eval_problems,
            params=self.params,
            seed=self.config.seed,
            both_orders=self.config.swap_roles,
            sample=self.sample,
            play=self.rollout,
            on_contest=on_contest,
        )

    def advance(self) -> tuple[Stats, Rollout]:
        """Do one step: match, play, compare, update. Returns its metrics, and what was played."""
        with recording(self.bases[0].device) as phases:
            stats, rollout = self._advance()
        stats |= phases.stats()
        if "time/sample" in stats:
            stats["time/tokens_per_second"] = stats["progress/tokens"] / stats["time/sample"]
        return stats, rollout

    def _advance(self) -> tuple[Stats, Rollout]:
        self.guards.step = self.step
        rollout, stats = self.ahead.play(self)
        if isinstance(self.engine, ServedEngine):
            self.engine.rest()  # the GPU is the learner's now
        turns = penalise_length(rollout.turns, self.config.length_penalty, max_tokens=self.config.max_tokens)
        stats |= turn_metrics(turns) | pair_metrics(rollout) | disagreement(rollout.contests)
        for divergence in (base_divergence, policy_divergence):
            stats |= divergence(self.policies, self.learners, turns, temperature=self.params.temperature)
        turns = appraise(rollout, turns, self.critics)
        learning = [turn for turn in turns if turn.policy in self.policies and self.algorithm.learns(turn, self.contest.roles)]
        advantages = advantages_of(self.algorithm, learning)
        self.samples = turn_samples(turns, learning, advantages)
        stats["groups/total"], stats["groups/dropped"] = float(advantages.groups), float(advantages.dropped)
        for name, policy in self.policies.items():
            own = [index for index, turn in enumerate(learning) if advantages.kept[index] and turn.policy == name]
            rows = [
                _row(learning[index], advantages, index)
                for index in own
                if not (self.config.loss.mask_truncated and _was_cut(learning[index]))
            ]
            update = self._update(policy, self.guards.sound_rows(policy, rows))
            if name in self.critics:
                valued = [_value_row(learning[index], advantages, index) for index in own]
                update |= update_critic(self.critics[name], valued, seed=(self.config.seed, self.step), watch=self.guards)
            self.guards.updated(policy, update)
            stats |= {f"{name}/{key}": value for key, value in update.items()}
        tokens = sum(len(turn.completion.token_ids) for turn in rollout.turns if turn.completion is not None)
        stats["progress/tokens"] = float(tokens)
        self.step += 1
        self.tokens += tokens
        return stats, rollout

    def _update(self, policy: LLMPolicy, rows: Sequence[Row]) -> Stats:
        seed = (self.config.seed, self.step)
        temperature = self.config.temperature
        return update_policy(self.learners[policy.name], policy, rows, temperature=temperature, seed=seed, watch=self.guards)

    def sample(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Generate tokens, by the verbs of the learners that the policies belong to."""
        try:
            return self._sample(requests)
        except BaseException as error:
            if not (is_out_of_memory(error) and isinstance(self.engine, TorchEngine)):
                raise
        free_memory()  # out of the handler, whose traceback holds what there is no memory for
        names, rows = ", ".join(request.policy.name for request in requests), sum(len(one.prompts) for one in requests)
        fewer = max(1, min(rows, self.engine.max_rows or rows) // 2)
        self.engine.max_rows = fewer
        self.guards.tell("out_of_memory", f"{rows} rows of {names} can't be sampled side by side: {fewer} are from now on")
        try:
            return self._sample(requests)
        except BaseException as error:
            if not is_out_of_memory(error):
                raise
            longest = max(len(prompt) + one.params.max_tokens for one in requests for prompt in one.prompts)
            raise OutOfMemory(
                f"{names} can't sample {fewer} rows of up to {longest} tokens side by side ({error}): set a smaller "
                "max_rows or max_tokens"
            ) from error

    def _sample(self, requests: Sequence[Request]) -> list[list[Completion]]:
        learners = [self.learners.get(request.policy.name) for request in requests]  # an opponent has none
        found: dict[int, list[Completion]] = {}
        for learner in {id(one): one for one in learners}.values():
            sample = sample_many if learner is None else learner.sample
            own = [place for place, one in enumerate(learners) if one is learner]
            found |= zip(own, sample([requests[place] for place in own]), strict=True)
        return [found[place] for place in range(len(requests))]


def _was_cut(turn: Turn) -> bool:
    return turn.completion is not None and turn.completion.finish_reason == "length"


def _row(turn: Turn, advantages: Advantages, index: int) -> Row:
    assert turn.completion is not None
    tokens = None if advantages.tokens is None else advantages.tokens[index]
    advantage = float(advantages.values[index])
    return Row(turn.prompt_ids, turn.completion.token_ids, turn.completion.logprobs, advantage, advantages=tokens)


def _value_row(turn: Turn, advantages: Advantages, index: int) -> ValueRow:
    assert turn.completion is not None
    assert advantages.returns is not None
    returns = advantages.returns[index]
    return ValueRow(turn.prompt_ids, turn.completion.token_ids, turn.values[: len(returns)], returns)


def _rollouts(ranks: Ranks, workers: RayPool | None, *, spread: bool) -> Rollouts:
    play = rollout if workers is None else workers.rollout
    if ranks.size == 1:
        return play
    return rollout_of_first(ranks, play) if spread else ranked_rollout(ranks)


def _make_learner(base: SharedBase, ranks: Ranks, **options: Any) -> Learner:
    if isinstance(base, TinkerBase):
        return TinkerLearner(base, **options)
    return LocalLearner(base, **options) if ranks.size == 1 else RankedLearner(base, ranks=ranks, **options)


def _make_critics(config: TrainConfig, policies: Mapping[str, LLMPolicy], learners: Mapping[str, Learner]) -> dict[str, Critic]:
    spec = AdapterSpec(config.lora_rank, config.lora_alpha)
    seeds = np.random.SeedSequence(config.seed).generate_state(len(policies)).tolist()
    return {
        name: (RankedCritic if isinstance(learners[name], RankedLearner) else Critic)(
            cast(LocalLearner, learners[name]), policy, spec=spec, seed=seed, config=config.critic
        )
        for (name, policy), seed in zip(policies.items(), seeds, strict=True)
    }
