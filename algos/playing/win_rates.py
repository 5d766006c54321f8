"""How often each policy beats whom it meets, as the run goes on; and how opponents are weighed by it.

The weights are those of prioritised fictitious self-play (AlphaStar: Vinyals et al. 2019, "Grandmaster level in
StarCraft II", Methods).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Weighting = Literal["uniform", "recent", "hard", "even"]
"""How opponents are weighed. "uniform": alike. "recent": the newest of n counts n times as much as the oldest. "hard":
(1 − p)², p being one's win rate, so that those who are beaten surely are not met. "even": p·(1 − p), one's equals."""

KEPT = 0.5
"""What of an earlier record counts beside a new one: both sides have learned since, or one of them."""


class WinRates:
    """Policy × whom it met → share of the contests that it won; a draw is half a win."""

    def __init__(self) -> None:
        """Begin without a record."""
        self._records: dict[str, dict[str, tuple[float, float]]] = {}

    def record(self, policy: str, met: str, results: Sequence[float]) -> None:
        """Add the results of contests that were played together: 1 won, 0.5 drawn, 0 lost."""
        if results:
            wins, games = self._records.setdefault(policy, {}).get(met, (0.0, 0.0))
            self._records[policy][met] = (KEPT * wins + sum(results), KEPT * games + len(results))

    def rate(self, policy: str, met: str) -> float:
        """Return how often `policy` beats `met`: 1/2 if they never met, and near it if they hardly did."""
        wins, games = self._records.get(policy, {}).get(met, (0.0, 0.0))
        return (wins + 0.5) / (games + 1)

    def forget(self, met: str) -> None:
        """Drop what is known of an opponent that is gone."""
        for record in self._records.values():
            record.pop(met, None)

    def state(self) -> dict[str, Any]:
        """Return the records as plain JSON values."""
        return {policy: {met: list(record) for met, record in records.items()} for policy, records in self._records.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._records = {
            policy: {met: (wins, games) for met, (wins, games) in records.items()} for policy, records in state.items()
        }


def chances(weighting: Weighting, rates: Sequence[float]) -> NDArray[np.float64]:
    """Return the chance of each opponent to be met.

    Args:
        weighting: see `Weighting`.
        rates: one's win rate against each, the oldest opponent first.

    Returns:
        Chances that add up to 1, shape (N,); all alike where every weight is 0.
    """
    p = np.asarray(rates, dtype=np.float64)
    weights = {
        "uniform": np.ones(len(p)),
        "recent": np.arange(1.0, len(p) + 1),
        "hard": (1 - p) ** 2,
        "even": p * (1 - p),
    }[weighting]
    return weights / weights.sum() if weights.sum() > 0 else np.full(len(p), 1 / len(p))
