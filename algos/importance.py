"""Importance correction between a sampler and the learner, whose log-probabilities of one token differ a little.

Kernels, numeric types and cached prefixes differ, so what an engine sampled from is not exactly the policy that the
learner scores. The gradient is then that of the wrong policy, unless each sample counts by π_old/π_sampler. Capping
that weight trades a little bias for bounded variance (truncated importance sampling, Ionides 2008).

Dimension suffix: `T` tokens of one completion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

MAX_LOG_WEIGHT = 20.0
"""Sums of log-ratios are clamped to ± this before exp, so that no weight is infinite."""


def importance_weights(
    *,
    old_logp_T: Sequence[float],
    sampler_logp_T: Sequence[float],
    level: Literal["token", "sequence"],
    cap: float,
) -> tuple[float, ...]:
    """Return the weight of each token of one completion.

    - "token": min(π_old/π_sampler, cap) of the token itself.
    - "sequence": min(Π_t π_old/π_sampler, cap), the same for every token: unbiased but for the cap, with a variance
      that grows with the length.

    Args:
        old_logp_T: log-probabilities under the policy as the learner computes it, before the update.
        sampler_logp_T: log-probabilities that the sampler reported.
        level: see above.
        cap: the greatest weight.

    Returns:
        One positive weight for each token, constants of the loss.

    Raises:
        ValueError: the log-probabilities are not as many as each other.
    """
    if len(old_logp_T) != len(sampler_logp_T):
        raise ValueError(f"the learner scored {len(old_logp_T)} tokens, but the sampler {len(sampler_logp_T)}")
    log_ratio_T = np.subtract(old_logp_T, sampler_logp_T)
    if level == "sequence":
        log_ratio_T = np.full(len(log_ratio_T), math.fsum(log_ratio_T))
    return tuple(np.minimum(np.exp(log_ratio_T.clip(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT)), cap).tolist())
