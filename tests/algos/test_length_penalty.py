"""What the length of a completion costs."""

import pytest

from agents.sampling import Completion
from algos.length_penalty import LengthPenalty, penalise_length
from algos.types import Turn


def turn(tokens: int | None, reward: float | None = 1.0) -> Turn:
    completion = None if tokens is None else Completion((1,) * tokens, (-1.0,) * tokens, "stop")
    return Turn("alice", "alice", "solver", 0, (0,), (1,), completion, "", reward, {"outcome": reward}, reward)


@pytest.mark.parametrize(("tokens", "price"), [(0, 0), (60, 0), (80, 0), (85, -0.25), (90, -0.5), (100, -1), (120, -1)])
def test_overlong_rises_over_the_buffer(tokens: int, price: float) -> None:
    assert LengthPenalty("overlong")(tokens, max_tokens=100) == pytest.approx(price)  # the buffer is a fifth
    assert LengthPenalty("overlong", cost=0.5, buffer=20)(tokens, max_tokens=100) == pytest.approx(price / 2)


def test_linear_prices_every_token() -> None:
    assert LengthPenalty("linear", cost=0.01)(30, max_tokens=100) == pytest.approx(-0.3)


def test_the_price_is_a_component_of_the_reward_and_not_of_the_score() -> None:
    cheap, dear = penalise_length([turn(10), turn(100)], LengthPenalty("overlong", cost=0.5), max_tokens=100)
    assert (cheap.reward, cheap.components["length"]) == (1.0, 0.0)
    assert dear.reward == pytest.approx(0.5)
    assert dear.components == {"outcome": 1.0, "length": -0.5}
    assert dear.score == 1.0


def test_what_has_no_price_stays_as_it_is() -> None:
    turns = [turn(None), turn(50, reward=None)]
    assert penalise_length(turns, LengthPenalty("linear"), max_tokens=100) == turns
    assert penalise_length([turn(50)], LengthPenalty(), max_tokens=100) == [turn(50)]


@pytest.mark.parametrize("bad", [{"kind": "soft"}, {"cost": -1.0}, {"buffer": 0}])
def test_the_config_is_checked(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        LengthPenalty(**bad)
