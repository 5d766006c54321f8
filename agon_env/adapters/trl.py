"""A contest as what TRL's `GRPOTrainer` trains on: one seat is the model's, frozen players take the others.

Example:
    ```python
    duel = agon_env.to_trl(agon_env.make("ArithmeticDuel-v0"), "challenger", rivals=drafter)
    GRPOTrainer(
        model, reward_funcs=duel.reward, rollout_func=duel.rollout_func, train_dataset=duel.prompts(256), args=config
    ).train()
    GRPOTrainer(
        model, reward_funcs=duel.reward, environment_factory=duel.environment, train_dataset=duel.seeds(256), args=config
    ).train()
    ```
`rollout_func` plays contests of any number of turns with any chat template; `environment_factory` is for models that call
tools. What is sampled together, the group of `num_generations` completions, meets one contest: in a duel, one draft.
TRL and torch are not imported here; the trainer that calls brings them along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agon_env.adapters.seats import Rival, check_contest, check_seat, player_in, rival_of
from agon_env.adapters.wire import storable, storable_messages
from agon_env.contest import Contest
from agon_env.errors import DependencyNotInstalled, Error
from agon_env.types import Action, Message, NoMove, Reward

if TYPE_CHECKING:
    from datasets import Dataset

PAID = "contest_reward"
"""The column in which `rollout_func` hands the rewards on."""


class TRLContest:
    """See the module. Rewards are those of the contest's own rule; TRL leaves out completions whose reward is None."""

    def __init__(self, contest: Contest, seat: str | None, rivals: Rival | Mapping[str, Rival] | None) -> None:
        """See `to_trl`."""
        self.contest = check_contest(contest)
        self.seat, self.rivals = check_seat(contest, seat, rivals), rivals

    def prompts(self, size: int, *, seed: int = 0) -> Dataset:
        """Return `size` rows for `rollout_func`; row i stands for the contest of `seed + i`, which is all that it holds."""
        return _dataset([{"prompt": [{"role": "user", "content": str(seed + i)}]} for i in range(size)])

    def seeds(self, size: int, *, seed: int = 0) -> Dataset:
        """Return `size` rows for `environment_factory`: seeds, from which the environment makes the prompts."""
        return _dataset([{"seed": seed + i} for i in range(size)])

    def environment(self) -> TRLEnvironment:
        """Return an environment for one rollout; pass this method as `environment_factory`."""
        return TRLEnvironment(self)

    def start(self, seed: int) -> Contest:
        """Return a contest of its own that has come to the seat's turn, or that a rival has ended before."""
        contest = self.contest.fork()
        contest.reset(seed=seed)
        self.play_rivals([contest])
        return contest

    def play_rivals(self, contests: Sequence[Contest]) -> None:
        """Let the rivals play until every contest waits for the seat, or is over. They are asked together."""
        while waiting := [contest for contest in contests if not contest.done and not self._is_ours(contest)]:
            observations = [contest.observe() for contest in waiting]
            players = [rival_of(self.rivals, observation) for observation in observations]
            for player in dict.fromkeys(players):
                mine = [i for i, other in enumerate(players) if other is player]
                for i, action in zip(mine, _answers(player, [observations[i] for i in mine]), strict=True):
                    waiting[i].step(action)

    def paid(self, contest: Contest) -> Reward:
        """Return what the seat has been paid at the end."""
        assert contest.outcome is not None
        return contest.outcome.rewards[player_in(contest, self.seat)]

    def reward(
        self,
        completions: Sequence[Any],
        environments: Sequence[TRLEnvironment] | None = None,
        contest_reward: Sequence[Reward] | None = None,
        **_: Any,
    ) -> list[Reward]:
        """Return what the contests paid; the only reward function that the trainer needs."""
        if contest_reward is not None:
            return list(contest_reward)
        if environments is None:
            raise Error("the reward needs the contests: pass rollout_func= or environment_factory= to the trainer as well")
        return [env._settle(_last_text(completion)) for env, completion in zip(environments, completions, strict=True)]

    def rollout_func(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one contest for each of `prompts`, all turns, with the trainer's model in the seat.

        Args:
            prompts: rows of `prompts()`, repeated as the trainer lays them out.
            trainer: the `GRPOTrainer`.

        Returns:
            For each contest "prompt_ids" (what the model read first), "completion_ids" (all its turns, with what the
            contest said between them), "env_mask" (1 for the model's own tokens), "logprobs" (None where the trainer
            samples without them) and the reward.
        """
        seeds = [int(_last_text(prompt)) for prompt in prompts]
        begun = {seed: self.start(seed) for seed in dict.fromkeys(seeds)}
        rollouts = [Rollout(begun[seed].fork(), trainer) for seed in seeds]
        while live := [rollout for rollout in rollouts if not rollout.contest.done]:
            sampled_ids, logprobs = _sample(trainer, [rollout.token_ids for rollout in live])
            for i, rollout in enumerate(live):
                rollout.take(sampled_ids[i], None if logprobs is None else logprobs[i])
            self.play_rivals([rollout.contest for rollout in live])
            for rollout in live:
                rollout.read_on()
        known = [rollout.logprobs for rollout in rollouts]
        return {
            "prompt_ids": [rollout.prompt_ids for rollout in rollouts],
            "completion_ids": [rollout.completion_ids for rollout in rollouts],
            "env_mask": [rollout.env_mask for rollout in rollouts],
            "logprobs": None if None in known else known,
            PAID: [self.paid(rollout.contest) for rollout in rollouts],
        }

    def _is_ours(self, contest: Contest) -> bool:
        return contest.current_player == player_in(contest, self.seat)


class Rollout:
    """The tokens of one contest from the seat's point of view."""

    def __init__(self, contest: Contest, trainer: Any) -> None:
        """Begin where the contest waits for the seat; one that is over already has one token that is nobody's."""
        self.contest = contest
        self.tokenizer = trainer.processing_class
        self.template_options: dict[str, Any] = {"chat_template": trainer.chat_template, **trainer.chat_template_kwargs}
        over = contest.done
        messages = ({"role": "user", "content": contest.render()},) if over else contest.observe().messages
        self.prompt_ids = self._tokens(messages, add_generation_prompt=True)
        self.ends: frozenset[int] = frozenset(trainer.eos_token_ids)
        self.completion_ids: list[int] = [self.tokenizer.eos_token_id] if over else []
        self.env_mask: list[int] = [0] if over else []
        self.logprobs: list[float] | None = [0.0] if over else []

    @property
    def token_ids(self) -> list[int]:
        """All that the model has read and said."""
        return self.prompt_ids + self.completion_ids

    def take(self, ids: list[int], logprobs: list[float] | None) -> None:
        """Play what the model has sampled."""
        self._append(ids, logprobs, own=1)
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        self.contest.step(Action(text, truncated=not ids or ids[-1] not in self.ends))

    def read_on(self) -> None:
        """Append what the contest says before the seat's next turn, as the template writes it after an answer."""
        if self.contest.done:
            return
        if self.completion_ids[-1] not in self.ends:
            self._append([self.tokenizer.eos_token_id], None, own=0)
        before: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
        head = self._tokens(before, add_generation_prompt=False)
        # what the model ends its answers with is in the completion already; a line feed after it is not
        answered = max((place for place, token in enumerate(head) if token in self.ends), default=len(head) - 1) + 1
        # the whole prompt stands in every observation; a second system message would upset many templates
        said: Message = {"role": "user", "content": self.contest.observe().text}
        whole = self._tokens([*before, said], add_generation_prompt=True)
        if whole[:answered] != head[:answered]:
            raise Error("this chat template rewrites earlier turns; contests of several turns need one that only adds to them")
        self._append(whole[answered:], None, own=0)

    def _append(self, ids: list[int], logprobs: list[float] | None, *, own: int) -> None:
        self.completion_ids += ids
        self.env_mask += [own] * len(ids)
        if own and logprobs is None:
            self.logprobs = None
        if self.logprobs is not None:
            self.logprobs += logprobs or [0.0] * len(ids)

    def _tokens(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> list[int]:
        ids: list[int] = self.tokenizer.apply_chat_template(
            storable_messages(messages),
            add_generation_prompt=add_generation_prompt,
            tokenize=True,
            return_dict=False,
            **self.template_options,
        )
        return ids


class TRLEnvironment:
    """One seat of one contest, with the tool `move`.

    What the model says after its last tool call is its last move, so that a contest of one turn needs no tool at all. A
    contest that is not over by then is forfeited.
    """

    def __init__(self, of: TRLContest) -> None:
        """See `TRLContest.environment`."""
        self._of = of
        self._contest: Contest | None = None

    def reset(self, *, seed: int, **_: Any) -> str:
        """Start the contest of `seed` and return what the seat sees."""
        self._contest = self._of.start(seed)
        return self._seen()

    def move(self, text: str) -> str:
        """Play a move in the contest.

        Args:
            text: The move, exactly as the rules ask for it.

        Returns:
            What you see next, or how the contest has ended.
        """
        contest = self._live()
        if not contest.done:
            contest.step(text)
            self._of.play_rivals([contest])
        return self._seen()

    def _settle(self, last_text: str) -> Reward:
        contest = self._live()
        if not contest.done:
            self.move(last_text)
        if not contest.done:
            contest.step(NoMove(reason="the rollout stopped before the end"))
        return self._of.paid(contest)

    def _seen(self) -> str:
        contest = self._live()
        return (
            storable(contest.observe().text) if contest.outcome is None else f"The contest is over: {contest.outcome.reason}."
        )

    def _live(self) -> Contest:
        if self._contest is None:
            raise Error("call reset(seed=…) before a move")
        return self._contest


def to_trl(env: Contest, seat: str | None = None, rivals: Rival | Mapping[str, Rival] | None = None) -> TRLContest:
    """Return what `GRPOTrainer` needs to train a model in one seat of `env`; see `agon_env.adapters.trl`.

    Args:
        env: a contest; copies of it are played.
        seat: the player or role that is trained. Default: the first player.
        rivals: who plays the other seats, and stays as it is: agents, or functions from an observation to a text; one for
            all, or one per player or role.

    Raises:
        Error: there is no such seat, or nobody to play the others.
    """
    return TRLContest(env, seat, rivals)


def _sample(trainer: Any, prompts: list[list[int]]) -> tuple[list[list[int]], list[list[float]] | None]:
    """Return a completion for each prompt, by the trainer's own engine, and its log-probabilities if the engine gives them."""
    generate = getattr(trainer, "_generate_single_turn", None)  # what TRL's own loop over tool calls samples with
    if generate is None:
        raise Error("this version of TRL samples in another way than TRL 1.16, which rollout_func is made for")
    ids, logprobs = generate(prompts, None, {}, 1)
    return ids, logprobs


def _answers(player: Rival, observations: Sequence[Any]) -> Sequence[str | Action]:
    act: Callable[[Sequence[Any]], Sequence[str | Action]] | None = getattr(player, "act", None)
    return act(observations) if act is not None else [player(observation) for observation in observations]


def _last_text(turns: Any) -> str:
    """Return the text of a prompt or completion, or of its last message."""
    return turns if isinstance(turns, str) else str(turns[-1].get("content") or "")


def _dataset(rows: list[dict[str, Any]]) -> Dataset:
    try:
        from datasets import Dataset
    except ImportError as error:
        raise DependencyNotInstalled("TRL's data sets need the package datasets; run: pip install 'agon-env[trl]'") from error
    return Dataset.from_list(rows)
