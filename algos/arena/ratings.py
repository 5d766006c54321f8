"""Ratings of players: Bradley–Terry for a finished tournament, Elo while it runs. Pure functions of results.

Both say that a player with the rating r beats one with the rating s with the chance 1 / (1 + 10^((s − r) / 400)). A draw is
half a win (Bradley & Terry 1952; Elo 1978). A contest of n players counts as the n(n − 1)/2 comparisons of its placement,
each with the weight 2/n, so that it weighs as much as n − 1 contests of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from algos.statistics import Z95, Estimate

MEAN = 1500.0
"""The mean rating of the players."""
SCALE = 400 / math.log(10)
"""Rating points for one unit of log odds."""
PRIOR_SD = 700.0
"""Standard deviation of the normal prior of a rating. Without one, who won always would be infinitely strong."""


@dataclass(frozen=True)
class Comparison:
    """How one player did against another."""

    player: str
    rival: str
    result: float
    """1 won, 0.5 drawn, 0 lost."""
    weight: float = 1.0
    block: int | None = None
    """Comparisons of one block, such as those on one problem, may depend on each other."""


def comparisons(rewards: Mapping[str, float], *, block: int | None = None) -> list[Comparison]:
    """Return the comparisons that one contest comes to: who was paid more has won against the other.

    Args:
        rewards: player → reward, of two players or more.
        block: see `Comparison`.
    """
    weight = 2 / len(rewards)
    return [
        Comparison(one, other, (1 + (rewards[one] > rewards[other]) - (rewards[one] < rewards[other])) / 2, weight, block)
        for one, other in combinations(rewards, 2)
    ]


def bradley_terry(players: Sequence[str], results: Iterable[Comparison], *, prior_sd: float = PRIOR_SD) -> dict[str, Estimate]:
    """Return the most likely rating of each player, with its 95 % interval.

    The maximum of the posterior by Newton's method; intervals, of the distance from the mean of all, from the curvature H
    there and the variance V of its gradient, as H⁻¹VH⁻¹ (Huber 1967). V is that of independent comparisons, of which a draw
    varies less than a win or a loss (where the share d is drawn, by d/4), or the one that the blocks show, each taken as a
    whole (Liang & Zeger 1986): of the two the one that makes the wider interval.

    Args:
        players: those to rate.
        results: comparisons between them, in any order.
        prior_sd: standard deviation of the normal prior, in rating points.

    Returns:
        Player → rating in Elo points; the ratings have the mean `MEAN`.
    """
    place = {player: index for index, player in enumerate(players)}
    results, precision = list(results), (SCALE / prior_sd) ** 2
    won_NN, drawn_NN = np.zeros((2, len(place), len(place)))
    for one in results:
        i, j = place[one.player], place[one.rival]
        won_NN[i, j] += one.weight * one.result
        won_NN[j, i] += one.weight * (1 - one.result)
        if one.result == 0.5:
            drawn_NN[[i, j], [j, i]] += one.weight
    strength_N, games_NN = _fit(won_NN, precision=precision), won_NN + won_NN.T
    chance_NN = _chances(strength_N)
    information_NN = games_NN * chance_NN * (1 - chance_NN)
    # A few draws out of few games do not make one sure: some of the variance of wins and losses stays.
    independent_NN = np.maximum(information_NN - drawn_NN / 4, information_NN / (games_NN + 1))
    centre_NN = np.eye(len(place)) - 1 / max(len(place), 1)
    effect_NN = centre_NN @ np.linalg.inv(_curvature(information_NN, precision))
    variances = [_curvature(independent_NN, precision), _of_blocks(results, place, chance_NN, precision)]
    variance_N = np.max([np.diag(effect_NN @ variance_NN @ effect_NN.T) for variance_NN in variances], axis=0)
    ratings_N, half_N = MEAN + SCALE * (centre_NN @ strength_N), Z95 * SCALE * np.sqrt(variance_N)
    return {
        player: Estimate(float(ratings_N[i]), float(ratings_N[i] - half_N[i]), float(ratings_N[i] + half_N[i]))
        for player, i in place.items()
    }


def _fit(won_NN: NDArray[np.float64], *, precision: float) -> NDArray[np.float64]:
    """Return the strengths that maximise the log posterior.

    Args:
        won_NN: how often each player beat each other, draws halved.
        precision: of the normal prior of each strength.
    """
    games_NN = won_NN + won_NN.T
    strength_N = np.zeros(len(won_NN))
    value = _log_posterior(strength_N, won_NN, precision)
    while True:
        chance_NN = _chances(strength_N)
        gradient_N = (won_NN - games_NN * chance_NN).sum(1) - precision * strength_N
        step_N = np.linalg.solve(_curvature(games_NN * chance_NN * (1 - chance_NN), precision), gradient_N)
        gain = float(gradient_N @ step_N)
        if gain < 1e-9:  # of the log posterior: what is left is rounding
            return strength_N
        size = 1.0
        while (new := _log_posterior(strength_N + size * step_N, won_NN, precision)) < value and size > 1e-6:
            size /= 2  # far from the maximum a whole step may overshoot it
        strength_N, value = strength_N + size * step_N, new


def _of_blocks(
    results: Sequence[Comparison], place: Mapping[str, int], chance_NN: NDArray[np.float64], precision: float
) -> NDArray[np.float64]:
    """Return the variance of the gradient that the blocks show, with the prior's; of one block it can't be told."""
    blocks = {
        block: number for number, block in enumerate(dict.fromkeys(one.block for one in results if one.block is not None))
    }
    gradient_GN = np.zeros((len(blocks), len(place)))
    for one in results:
        if one.block is not None:
            i, j = place[one.player], place[one.rival]
            error = one.weight * (one.result - chance_NN[i, j])
            gradient_GN[blocks[one.block], [i, j]] += error, -error
    variance_NN: NDArray[np.float64] = precision * np.eye(len(place))
    if len(blocks) > 1:
        variance_NN = variance_NN + len(blocks) / (len(blocks) - 1) * gradient_GN.T @ gradient_GN
    return variance_NN


def _chances(strength_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how likely each beats each other."""
    chance_NN: NDArray[np.float64] = 1 / (1 + np.exp(strength_N[None, :] - strength_N[:, None]))
    return chance_NN


def _curvature(information_NN: NDArray[np.float64], precision: float) -> NDArray[np.float64]:
    """Return the matrix of a quadratic form of differences, with the precision of the prior on its diagonal."""
    curvature_NN: NDArray[np.float64] = np.diag(information_NN.sum(1) + precision) - information_NN
    return curvature_NN


def _log_posterior(strength_N: NDArray[np.float64], won_NN: NDArray[np.float64], precision: float) -> float:
    log_chance_NN = -np.logaddexp(0.0, strength_N[None, :] - strength_N[:, None])
    return float((won_NN * log_chance_NN).sum() - precision / 2 * (strength_N @ strength_N))


def expected(rating: float, rival: float) -> float:
    """Return the chance that the player with the first rating beats the one with the second."""
    return 1 / (1 + math.exp((rival - rating) / SCALE))


class Elo:
    """Ratings that follow contest by contest; for show while a tournament runs, as they depend on its order."""

    def __init__(self, *, k: float = 16.0) -> None:
        """Begin without a record.

        Args:
            k: most points that one contest of two moves.
        """
        self.k = k
        self._ratings: dict[str, float] = {}

    def rating(self, player: str) -> float:
        """Return the rating of a player; `MEAN` before its first contest."""
        return self._ratings.get(player, MEAN)

    def update(self, results: Iterable[Comparison]) -> None:
        """Count the comparisons of one contest, all against the ratings before it."""
        before = dict(self._ratings)
        for one in results:
            won = one.result - expected(before.get(one.player, MEAN), before.get(one.rival, MEAN))
            for player, sign in ((one.player, 1), (one.rival, -1)):
                self._ratings[player] = self.rating(player) + sign * self.k * one.weight * won

    @property
    def leader(self) -> str | None:
        """The player with the highest rating, if there is any."""
        return max(self._ratings, key=lambda player: self._ratings[player], default=None)
