"""What the guards of a run allow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GuardConfig:
    """Bounds beyond which a run warns, leaves a step out, or stops; see docs/trust.md."""

    mismatch: float | None = None
    """Most KL, in nats per token, between what sampled a batch and the learner before its first update. A batch beyond it is
    left out. None: 1e-4 in float32, where both compute the same, 0.05 in other types, and 0.5 where `loss.sampler_correction`
    says that they differ; 0 never looks."""
    most_skipped: int = 3
    """A policy that can't be updated so many times in a row stops the run."""
    collapse_window: int = 10
    """Steps over which signs of a collapse are averaged; 0 looks for none."""
    min_free_gb: float = 1.0
    """Warn when less of the disk is free, in GB."""

    def __post_init__(self) -> None:
        if self.mismatch is not None and not self.mismatch >= 0:
            raise ValueError(f"mismatch must be at least 0, or None to choose it by the precision, not {self.mismatch}")
        if self.most_skipped < 1:
            raise ValueError(f"most_skipped must be at least 1, not {self.most_skipped}")
        if self.collapse_window < 0:
            raise ValueError(f"collapse_window must be at least 0, not {self.collapse_window}")
        if not self.min_free_gb >= 0:
            raise ValueError(f"min_free_gb must be at least 0, not {self.min_free_gb}")
