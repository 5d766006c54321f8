import pytest

from algos.reporting.formats import estimate, plain, seconds, share, span, visible
from algos.statistics import Estimate


def test_numbers_are_written_for_people() -> None:
    assert [share(0.1234), share(None), share(-0.05, sign=True), share(0.05, sign=True)] == [
        "12.3 %",
        "–",
        "−5.0 pp",
        "+5.0 pp",
    ]
    assert [plain(value) for value in (0.12345, 12.345, 123456.7, 3.0, -0.5, None)] == [
        "0.123",
        "12.3",
        "123,457",
        "3",
        "−0.500",
        "–",
    ]
    assert [plain(value, sign=True) for value in (0.0, 9.102, -12.34, 0.1234)] == ["0", "+9.1", "−12.3", "+0.123"]
    assert [share(value, sign=True) for value in (0.0, -0.0001)] == ["0.0 pp", "0.0 pp"]
    assert [seconds(value) for value in (0.5, 59.0, 600.0, 7500.0)] == ["0.50 s", "59 s", "10 min", "2 h 5 min"]
    assert [span((3, 3)), span((3, 8))] == ["3", "3–8"]


@pytest.mark.parametrize(
    ("as_share", "sign", "expected"),
    [(True, False, "30.0 % [24.0, 36.5]"), (True, True, "+30.0 pp [+24.0, +36.5]"), (False, False, "0.300 [0.240, 0.365]")],
)
def test_an_interval_stands_behind_its_value(as_share: bool, sign: bool, expected: str) -> None:
    assert estimate(Estimate(0.3, 0.24, 0.365), as_share=as_share, sign=sign) == expected
    assert estimate(None, as_share=as_share) == "–"


def test_what_acts_is_spelled_out() -> None:
    assert visible("a\u202eb\x1b") == "a\\u202eb\\x1b"
    assert visible(3) == 3
