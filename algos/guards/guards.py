"""`Guards`: what watches a run while it trains. Each finding is an event of the run, or stops it."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from algos.errors import Diverged, SamplerMismatch
from algos.events import Event, Kind
from algos.guards.collapse import CollapseWatch
from algos.guards.config import GuardConfig
from algos.guards.saved_batch import save_batch
from algos.guards.weights import FrozenBases, IdleWatch
from algos.learning.optim import UnsoundUpdate
from algos.types import Batch, Row, Stats, ValueRow

if TYPE_CHECKING:
    from torch import Tensor

    from agents.policy import LLMPolicy
    from algos.learner import Learner
    from algos.learning.values import Critic

SKIPPED = "skipped"
"""Folder in that of the run, for batches that could not be learned from."""


class Mismatch(UnsoundUpdate):
    """What sampled a batch is not the policy that would learn from it."""


class Guards:
    """Watches the numbers and the weights of a run."""

    def __init__(
        self,
        config: GuardConfig,
        policies: Mapping[str, LLMPolicy],
        learners: Mapping[str, Learner],
        *,
        critics: Mapping[str, Critic] | None = None,
        eval_problems: int = 0,
    ) -> None:
        """Begin to watch; the weights of the bases are looked at once.

        Args:
            config: the bounds.
            policies: those that learn, by name.
            learners: policy → what updates it.
            critics: policy → its critic.
            eval_problems: how many held-out problems the run is judged on; 0 where that measures no progress.
        """
        self.config, self.folder, self.step = config, None, 0
        self.bases = FrozenBases({id(policy.base): policy.base for policy in policies.values()}.values())
        self._policies, self._learners = policies, learners
        self._idle = IdleWatch(
            {name: (name, own) for name, policy in policies.items() if (own := policy.parameters())}
            | {_critic_of(name): (name, critic.parameters()) for name, critic in (critics or {}).items()}
        )
        self._collapse = CollapseWatch(config.collapse_window, eval_problems=eval_problems)
        self._skipped_in_a_row: Counter[str] = Counter()
        self._events: list[Event] = []
        self._disk_is_low = False
        self._budgets = {learner.budget: learner.budget.tokens for learner in learners.values()}

    folder: Path | None
    """Where batches that could not be learned from are saved; None saves none."""
    step: int
    """The step that the run is at, counted from 0."""

    # --- before and after an update ------------------------------------------------------------------

    def sound_rows(self, policy: LLMPolicy, rows: Sequence[Row]) -> list[Row]:
        """Return the rows whose numbers are finite; the others are left out, told and saved."""
        bad = [index for index, row in enumerate(rows) if not _finite(row)]
        if bad:
            cause = (
                "A reward, or the critic, is not finite"
                if all(math.isfinite(sum(rows[index].old_logprobs)) for index in bad)
                else "The engine that sampled them computes wrongly"
            )
            self.tell(
                "row_not_finite",
                f"{len(bad)} of {len(rows)} rows of {policy.name} hold log-probabilities or advantages that are not finite; "
                f"they were left out. {cause}",
                policy=policy.name,
                rows=tuple(bad),
                file=self._save(policy.name, rows, error="not finite"),
            )
        return [row for index, row in enumerate(rows) if index not in set(bad)]

    def check_sampler(self, policy: LLMPolicy, rows: Sequence[Row], *, mismatch: float | None, temperature: float) -> None:
        """Check, before the first update of a batch, that the policy that sampled it is the one that learns.

        Args:
            policy: who learns.
            rows: the batch, with the log-probabilities of the sampler.
            mismatch: KL(sampler ‖ learner) per token, in nats; None where it is not known.
            temperature: the batch was sampled at it.

        Raises:
            Mismatch: it is not, by the bound of the config.
            SamplerMismatch: it is not, and it is plain who sampled instead.
        """
        bound = self._bound(policy)
        if mismatch is None or not bound or mismatch <= bound:
            return
        found = f"sampler and learner differ by {mismatch:.2g} nats per token on what {policy.name} said"
        for name, who in self._suspects(policy).items():
            if _divergence(self._learners[policy.name], who, rows, temperature=temperature) <= min(bound, mismatch / 10):
                raise SamplerMismatch(
                    f"{found}, and it was {name} that sampled it: the adapter of {policy.name} did not arrive where the "
                    "tokens are sampled, or another one was served. Everything sampled since the last good step is wrong; go "
                    "on from the last checkpoint"
                )
        raise Mismatch(
            f"{found} (at most {bound:.2g} is allowed: guards.mismatch). The sampler has an older version of the adapter, "
            "another temperature, or computes in another precision; for the last, set loss.sampler_correction"
        )

    def skipped(self, policy: LLMPolicy, batch: Batch, error: UnsoundUpdate) -> None:
        """Tell that an update was left out, and keep its batch.

        Raises:
            Diverged, SamplerMismatch: it is not the first in a row, and once too many; or it can't get better.
        """
        kind: Kind = "logprob_mismatch" if isinstance(error, Mismatch) else "update_not_finite"
        rows = self._guilty(policy, batch) if kind == "update_not_finite" else ()
        file = self._save(policy.name, batch.rows, error=str(error), temperature=batch.temperature)
        self.tell(kind, f"an update of {policy.name} was left out: {error}", policy=policy.name, rows=rows, file=file)
        self._left_out(policy.name, policy.parameters(), error, file=file)

    def critic_skipped(self, critic: Critic, rows: Sequence[ValueRow], error: UnsoundUpdate) -> None:
        """Tell that an update of a critic was left out, and keep its batch.

        Raises:
            Diverged: it is not the first in a row, and once too many; or it can't get better.
        """
        name, who = critic.policy.name, _critic_of(critic.policy.name)
        file = self._save(critic.adapter, rows, error=str(error))
        guilty = _guilty_of_critic(critic, rows)
        self.tell("update_not_finite", f"an update of {who} was left out: {error}", policy=name, rows=guilty, file=file)
        self._left_out(who, critic.parameters(), error, file=file)

    def updated(self, policy: LLMPolicy, stats: Stats) -> None:
        """Look around after a policy and its critic were updated.

        Raises:
            IdlePolicyMoved: somebody else has moved.
        """
        if stats.get("rows_computed") and not stats.get("skipped"):
            self._skipped_in_a_row.pop(policy.name, None)
        if "value_loss" in stats and not stats.get("value_skipped"):
            self._skipped_in_a_row.pop(_critic_of(policy.name), None)
        self._idle.updated(policy.name)
        budget = self._learners[policy.name].budget  # the same for all policies on one base
        before, self._budgets[budget] = self._budgets[budget], budget.tokens
        if budget.tokens < before:
            self.tell(
                "out_of_memory",
                f"there was no memory for micro-batches of {before} tokens, so they have {budget.tokens} from now on; the "
                "gradient is the same. Set optim.token_budget to that, or optim.recompute",
                policy=policy.name,
            )

    # --- the whole run ------------------------------------------------------------------------------

    def observe(self, stats: Stats) -> None:
        """Look for signs of a collapse in the metrics of the step."""
        self._events += self._collapse.observe(self.step, stats)

    def begin(self, step: int, *, folder: Path | None) -> None:
        """Take the weights as they are now for right, before the first step.

        Args:
            step: where the run begins, or goes on.
            folder: that of the run, for batches that could not be learned from; None saves none.
        """
        self.step, self.folder = step, folder
        self.bases.check()
        self._idle.look()

    def check_disk(self, folder: Path) -> None:
        """Warn when the disk gets nearly full: a checkpoint needs room beside the ones that are kept."""
        free = shutil.disk_usage(folder).free / 1e9
        before, self._disk_is_low = self._disk_is_low, free < self.config.min_free_gb
        if self._disk_is_low and not before:
            self.tell(
                "disk_nearly_full",
                f"{free:.2f} GB are free in {folder}: make room (older runs, skipped/, contests.jsonl), before a checkpoint "
                "fails",
            )

    def tell(
        self, kind: Kind, message: str, *, policy: str | None = None, rows: tuple[int, ...] = (), file: str | None = None
    ) -> None:
        """Add an event of the step; the arguments are the fields of `Event`."""
        self._events.append(Event(self.step, kind, message, policy, rows, file))

    def drain(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def state(self) -> dict[str, Any]:
        """Return what the guards keep from step to step, as plain JSON values."""
        return {
            "bases": dict(self.bases.checksums),
            "collapse": self._collapse.state(),
            "skipped_in_a_row": dict(self._skipped_in_a_row),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned; weights are loaded afterwards, see `loaded`.

        Raises:
            BaseChanged: the base is another model than then.
        """
        self.bases.require(state["bases"])
        self._collapse.restore(state["collapse"])
        self._skipped_in_a_row = Counter(state["skipped_in_a_row"])

    def loaded(self) -> None:
        """Take the weights of the policies as they are now for right."""
        self._idle.look()

    # --- how it works -------------------------------------------------------------------------------

    def _bound(self, policy: LLMPolicy) -> float:
        if self.config.mismatch is not None:
            return self.config.mismatch
        if self._learners[policy.name].loss.sampler_correction != "none":
            return 0.5
        return 1e-4 if policy.base.dtype == torch.float32 else 0.05

    def _suspects(self, policy: LLMPolicy) -> dict[str, LLMPolicy | None]:
        """Return who else may have sampled a batch of the policy: nobody can be told where its rows were corrected."""
        if self._learners[policy.name].loss.sampler_correction != "none":
            return {}
        others = {name: one for name, one in self._policies.items() if one is not policy and one.base is policy.base}
        return {"the bare base": None, **others}

    def _left_out(self, who: str, parameters: Sequence[Tensor], error: UnsoundUpdate, *, file: str | None) -> None:
        """Count the updates of a policy or a critic that were left out in a row; end the run where it can't go on."""
        self._skipped_in_a_row[who] += 1
        saved = f" The batch is in {file}." if file else ""
        if not all(bool(parameter.isfinite().all()) for parameter in parameters):
            raise Diverged(
                f"the weights of {who} are not finite, so nothing can be learned any more.{saved} Go on from the last "
                "checkpoint with a lower learning rate (it can be changed in a new run from its adapters)"
            )
        if self._skipped_in_a_row[who] >= self.config.most_skipped:
            stop = SamplerMismatch if isinstance(error, Mismatch) else Diverged
            raise stop(
                f"{self._skipped_in_a_row[who]} updates of {who} in a row were left out, the last because {error}.{saved} "
                "Lower the learning rate, or look at the batch: algos.guards.load_batch reads it"
            )

    def _guilty(self, policy: LLMPolicy, batch: Batch) -> tuple[int, ...]:
        """Return which rows alone have log-probabilities that are not finite."""
        scored = self._learners[policy.name].logprobs(policy, batch.rows, temperature=batch.temperature)
        return tuple(index for index, logprobs in enumerate(scored) if not math.isfinite(sum(logprobs)))

    def _save(self, who: str, rows: Sequence[Row] | Sequence[ValueRow], *, error: str, temperature: float = 1.0) -> str | None:
        if self.folder is None:
            return None
        stem = f"{SKIPPED}/step-{self.step}-{who}"
        earlier = sum((event.file or "").startswith(f"{stem}.") for event in self._events)
        name = f"{stem}.{earlier + 1}.safetensors" if earlier else f"{stem}.safetensors"
        save_batch(self.folder / name, rows, temperature=temperature, error=error)
        return name


def _critic_of(name: str) -> str:
    return f"the critic of {name}"


def _guilty_of_critic(critic: Critic, rows: Sequence[ValueRow]) -> tuple[int, ...]:
    """Return which rows hold numbers, or are valued by numbers, that are not finite."""
    valued = critic.values(
        [row.prompt_ids for row in rows],
        [row.completion_ids for row in rows],
        after=[len(row.returns) > len(row.completion_ids) for row in rows],
    )
    return tuple(
        index
        for index, (row, values) in enumerate(zip(rows, valued, strict=True))
        if not math.isfinite(sum(row.values) + sum(row.returns) + sum(values))
    )


def _finite(row: Row) -> bool:
    # A sum of finite numbers is finite, at these sizes, and one of any other is not.
    return math.isfinite(sum(row.old_logprobs) + row.advantage + sum(row.advantages or ()))


def _divergence(learner: Learner, who: LLMPolicy | None, rows: Sequence[Row], *, temperature: float) -> float:
    """Return KL(sampler ‖ who) per token, k3 estimate, in nats."""
    scored = learner.logprobs(who, rows, temperature=temperature)
    gaps = [
        new - old
        for row, logprobs in zip(rows, scored, strict=True)
        for new, old in zip(logprobs, row.old_logprobs, strict=True)
    ]
    return sum(math.expm1(min(gap, 50.0)) - gap for gap in gaps) / max(1, len(gaps))
