"""The course through a task: everything once before anything twice, mixed, and the same for the same seed."""

from hypothesis import given
from hypothesis import strategies as st

from algos.playing.problem_order import problem_index


@given(size=st.integers(1, 50), seed=st.integers(0, 5), epoch=st.integers(0, 3))
def test_a_data_set_is_gone_through_once_before_anything_is_repeated(size: int, seed: int, epoch: int) -> None:
    course = [problem_index(position, size=size, seed=seed) for position in range(epoch * size, (epoch + 1) * size)]
    assert sorted(course) == list(range(size))


def test_epochs_and_seeds_differ_and_a_sorted_file_is_mixed() -> None:
    def course(seed: int, epoch: int) -> list[int]:
        return [problem_index(position, size=100, seed=seed) for position in range(100 * epoch, 100 * (epoch + 1))]

    assert course(0, 0) == course(0, 0)
    assert course(0, 0) != course(0, 1) != course(1, 1)
    assert 30 < sum(course(0, 0)[:10]) / 10 < 70


def test_runs_on_an_endless_task_do_not_share_problems() -> None:
    courses = [{problem_index(position, size=None, seed=seed) for position in range(10_000)} for seed in range(3)]
    assert all(a.isdisjoint(b) for i, a in enumerate(courses) for b in courses[:i])
    assert problem_index(7, size=None, seed=0) == 7
