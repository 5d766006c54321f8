"""`TrainConfig`: everything that a run depends on, and the presets."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

from agents.playing import OnFault
from algos.algorithm import Algorithm
from algos.algorithm_registry import find_algorithm
from algos.errors import ConfigError
from algos.guards.config import GuardConfig
from algos.imitation import Imitation
from algos.league import Matchmaking
from algos.learning.optim import OptimConfig
from algos.learning.tinker import check_learner
from algos.learning.values import CriticConfig
from algos.length_penalty import LengthPenalty
from algos.losses import LossConfig
from algos.parallel.ray_config import RayConfig
from algos.playing.asynchronous import check_staleness
from algos.playing.engines import check_engine
from algos.training.config_checks import check_config, check_settings
from algos.training.loggers import LoggerName
from algos.training.overlay import overlay, read_value


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    # --- what is played, and by whom ---
    env: str = "ArithmeticDuel-v0"
    """Id of the contest (see `agon envs`)."""
    env_options: tuple[str, ...] = ()
    """Options of the contest, each `name=value`, for example `difficulty=12 bonus=1.0 reveal=answer`."""
    algorithm: str = "competitive_grpo"
    """How turns become updates: a name that `agon algorithms` lists, or "module:Class" of your own."""
    algorithm_options: tuple[str, ...] = ()
    """Fields of an algorithm of your own that are none of this config, each `name=value`, for example `beta=0.3`."""
    model: str = "embedded"
    """The frozen base: "embedded", "smollm2-135m", a folder, or an id on the Hugging Face hub."""
    rival_models: tuple[str, ...] = ()
    """Bases of the second policy, the third, …: other models, with tokenizers of their own. Those that are not named
    share `model`."""
    thinking: bool | None = None
    """Whether a chat template that knows thinking turns it on; None is the template's default."""

    on_long_prompt: Literal["error", "cut"] = "cut"
    """A prompt that leaves no room for `max_tokens` in the model's context is cut in the middle of its longest
    message ("cut"), or stops the run ("error")."""

    # --- who meets whom ---
    opponent: str = "rival"
    """Who takes the rival's seat: "rival", as it is now; "base", without an adapter; "pool:uniform", "pool:recent" or
    "pool:win_rate", its past snapshots; "frozen:FOLDER", a saved adapter; "agent:ID", a player of `agents.make`."""
    on_agent_fault: OnFault = "abort"
    """What becomes of contests in which an opponent that is an agent raises, hangs, or says no text: it forfeits them
    ("forfeit"), nobody is paid ("abort"), or they are played once more first ("retry")."""
    agent_timeout: float | None = None
    """Seconds that such an agent has for the contests that wait for it; None waits for ever."""
    opponent_share: float = 1.0
    """Share of a step's problems that are played against the opponent; the rest against the live rival."""
    opponents_per_step: int = 1
    """Opponents that are drawn for each policy in one step. More give more variety, in smaller batches."""
    snapshot_every: int = 10
    """A pool takes a snapshot of every policy each so many steps, the first one before the first step."""
    pool_size: int = 16
    """Most snapshots of one policy that a pool keeps. The oldest goes first; by win rate, the most surely beaten."""
    league_size: int = 4
    """League: how many policies there are."""
    matchmaking: Matchmaking = "round_robin"
    """League: "round_robin" takes every pair in turn, "even" prefers equals by their win rates."""

    # --- one step ---
    steps: int = 60
    """Training steps. In one step every policy is updated once."""
    sample_budget: int = 0
    """Stop after the step in which so many tokens have been sampled for training, whatever `steps` says; 0: never."""
    problems: int = 8
    """Problems per step."""
    group_size: int = 8
    """Drafts per problem (G)."""
    answers: int = 1
    """Answers to each draft (K): 1 plays pairs; `group_size=1` with K > 1 shares one draft; both > 1 nest."""
    max_tokens: int = 96
    """Most tokens of one completion."""
    temperature: float = 1.0
    """Sampling temperature, in training and in evaluation."""

    engine: str = "torch"
    """What generates tokens: "torch", in this process; "vllm", beside it; "vllm:URL", a server (see docs/scaling.md). vLLM's
    log-probabilities are not quite the learner's, so there `loss.sampler_correction` is "token" unless it is set."""
    max_rows: int | None = None
    """Most rows that are sampled at once; it bounds the memory of their caches. None: all of a step."""

    # --- how it learns ---
    normalize: Literal["std", "mean"] = "std"
    """Advantages: "std" divides by the group's standard deviation, "mean" only centres."""
    group_by: Literal["problem", "position"] = "problem"
    """Compare a turn with its role's turns on the problem, or with those made in the same position (one draft)."""
    update: Literal["all", "last"] = "all"
    """Which turns train: those of all roles, or of the last one only (the challenger)."""
    swap_roles: bool = True
    """Competitive and cooperative algorithms: rotate the seats every step. With all: rotate them for the judge too."""
    discount: float = 1.0
    """REINFORCE: what a reward is worth one turn of the player earlier."""
    baseline_decay: float = 0.9
    """REINFORCE: how much of a role's baseline stays at each step."""
    gamma: float = 1.0
    """PPO: what a reward is worth one token earlier."""
    lam: float = 1.0
    """PPO: λ of generalised advantage estimation. 1 takes what was paid, less what the critic expected; lower values trust
    the critic more, which has to be good for it: at 0.95 a token hears little of what is paid 60 tokens later."""
    whiten: bool = True
    """PPO: scale the advantages of all tokens that a policy said in a step to mean 0 and standard deviation 1."""
    critic: CriticConfig = field(default_factory=CriticConfig)
    length_penalty: LengthPenalty = field(default_factory=LengthPenalty)
    imitation: Imitation = field(default_factory=Imitation)
    lora_rank: int = 32
    """Rank of the adapters."""
    lora_alpha: int = 32
    """Scale of the adapters: their output is multiplied by alpha / rank."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    loss: LossConfig = field(default_factory=LossConfig)

    learner: str = "local"
    """Who updates the policies: "local", this process; "tinker" or "tinker:URL", a Tinker service, which samples as well, by
    the key in $TINKER_API_KEY (see docs/scaling.md)."""

    # --- how it is judged ---
    eval_problems: int = 512
    """Held-out problems, before and after; 0 evaluates nothing."""
    eval_every: int = 0
    """Evaluate every so many steps as well; 0: never."""

    # --- the run ---
    seed: int = 0
    """The same seed gives the same run on a CPU."""
    output_dir: str = "runs"
    """Where run folders are made."""
    log: tuple[LoggerName, ...] = ("tensorboard",)
    """Where metrics are shown beside `metrics.jsonl`: "tensorboard", "wandb", "trackio"."""
    name: str = ""
    """Name of the run folder; empty: made of contest, algorithm and seed."""
    checkpoint_every: int = 20
    """Save what is needed to go on every so many steps."""
    keep_checkpoints: int = 2
    """How many checkpoints are kept, the newest ones; the best one by held-out problems stays as well (`eval_every`)."""
    guards: GuardConfig = field(default_factory=GuardConfig)
    keep_transcripts: int = 1
    """Write the training contests of every so many steps to `contests.jsonl`; 0: none."""
    threads: int = 0
    """CPU threads of torch; 0 leaves the choice to torch. A model of a million parameters is fastest on one: the
    others would wait for it, and on a busy machine it for them."""
    device: str = "auto"
    """"auto" takes a GPU if there is one."""
    ray: RayConfig = field(default_factory=RayConfig)
    staleness: int = 0
    """With Ray: 1 plays the contests of the next step while this one's are learned from, with policies one step old, and
    corrects for that; 0 waits."""
    ranks: int = 1
    """Processes on this machine that play and learn side by side, each with a copy of the base. For several machines, or to
    start them otherwise, run the same command under torchrun."""

    def __post_init__(self) -> None:
        check_config(self)
        algorithm = find_algorithm(self.algorithm)
        if algorithm.compares and self.group_size * self.answers < 2:
            raise ConfigError("a group needs two turns to compare: raise group_size or answers")
        check_settings(self, algorithm)
        check_engine(self.engine)
        check_staleness(self)
        self.contest_options()
        try:
            self.make_algorithm()
        except ValueError as error:
            raise ConfigError(str(error)) from error
        check_learner(self)

    def contest_options(self) -> dict[str, Any]:
        """Return `env_options` as keyword arguments of `agon_env.make`.

        Raises:
            ConfigError: an option is not `name=value`.
        """
        return read_options(self.env_options)

    def run_name(self) -> str:
        """Return the name of the run folder."""
        return self.name or f"{self.env.replace('/', '_').replace(':', '_')}-{self.algorithm}-seed{self.seed}"

    def make_algorithm(self) -> Algorithm:
        """Return the algorithm with the fields of this config that it has, and with its own options.

        Raises:
            ConfigError: it has no such option, or of another type.
        """
        cls, common = find_algorithm(self.algorithm), {field.name for field in fields(self)}
        taken = [field.name for field in fields(cls) if field.init]
        own = [name for name in taken if name not in common]
        options = read_options(self.algorithm_options, what="an option of an algorithm", example="beta=0.3")
        if unknown := [name for name in options if name not in own]:
            advice = "it is a setting of the run itself" if unknown[0] in common else f"it has {', '.join(own) or 'none'}"
            raise ConfigError(f"algorithm_options: {self.algorithm} has no option {unknown[0]!r} of its own; {advice}")
        hints = get_type_hints(cls) if options else {}
        chosen = {name: read_value(hints[name], value, f"algorithm_options: {name}") for name, value in options.items()}
        return cls(**{name: getattr(self, name) for name in taken if name in common}, **chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain JSON values."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TrainConfig:
        """Return the config that `to_dict` wrote.

        Raises:
            ConfigError: there is a field that this version does not know, or one has another type.
        """
        return overlay(cls(), record)


def read_options(texts: Iterable[str], *, what: str = "a contest option", example: str = "difficulty=12") -> dict[str, Any]:
    """Return options, each `name=value`, as keyword arguments: of a contest those of `agon_env.make`.

    Args:
        texts: the options.
        what: what an error calls one of them.
        example: one that an error shows.

    Raises:
        ConfigError: one is not `name=value`.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"{what} is name=value, for example {example}; {text!r} is not")
        found[name] = _plain(value)
    return found


def _plain(value: str) -> Any:
    for read in (json.loads, ast.literal_eval):  # true and null as JSON has them, True, None and .5 as Python has them
        try:
            return read(value)
        except (ValueError, SyntaxError):
            pass
    return value


TINY = TrainConfig(lora_rank=8, lora_alpha=8, threads=1)

CHAIN_SEARCH = replace(
    TINY,
    env="ChainSearchDuel-v0",
    max_tokens=100,
    lora_alpha=16,
)

SMOLLM2 = replace(
    TINY,
    model="smollm2-135m",
    threads=0,
    lora_rank=32,
    lora_alpha=32,
    env_options=("difficulty=2",),
    steps=100,
    problems=4,
    max_tokens=96,
    eval_problems=100,
    optim=replace(TINY.optim, learning_rate=1e-4, warmup_steps=5),
)

QWEN3_DEEPMATH = replace(
    TINY,
    model="Qwen/Qwen3-1.7B",
    threads=0,
    thinking=True,
    env="DeepMathDuel-v0",
    env_options=("hub_id=zwhe99/DeepMath-103K", "difficulty=[7, 10]", "drop_guessable=true"),
    steps=200,
    problems=32,
    max_tokens=8192,
    max_rows=64,
    lora_rank=32,
    lora_alpha=32,
    eval_problems=500,
    eval_every=50,
    optim=replace(TINY.optim, learning_rate=2e-5, warmup_steps=10),
)

PRESETS: dict[str, TrainConfig] = {
    "tiny": TINY,
    "chain-search": CHAIN_SEARCH,
    "smollm2": SMOLLM2,
    "qwen3-1.7b-deepmath": QWEN3_DEEPMATH,
}
"""Name → a complete config: the embedded model on arithmetic, and where a draft is easier to check than to find (both
on a CPU, in minutes); a real small model; the paper's setting."""


def load_config(run: str | Path) -> TrainConfig:
    """Return the config of a run folder.

    Raises:
        FileNotFoundError: the folder holds no run.
        ConfigError: the config can't be read, or was written by another version.
    """
    file = Path(run) / "config.json"
    if not file.exists():
        raise FileNotFoundError(f"{run} is not the folder of a run: it has no config.json")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not JSON: {error}") from error
    return TrainConfig.from_dict(record)
