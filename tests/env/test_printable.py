"""Texts of others are shown, and do nothing."""

import pytest

from agon_env.printable import printable, quotation


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 3 < 4\n\tindented", "plain text, 3 < 4\n\tindented"),
        ("\x1b[2J\x1b]0;owned\x07", "\\x1b[2J\\x1b]0;owned\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten \x08", "over\\rwritten \\x08"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("a\u2028b\x85c", "a\\u2028b\\x85c"),
        ("\ud800", "\\ud800"),
        ("\u200bzero width\ufeff", "\\u200bzero width\\ufeff"),
        ("Grüße 漢字 😀 👩\u200d👩 می\u200cخواهم", "Grüße 漢字 😀 👩\u200d👩 می\u200cخواهم"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("בְּרֵאשִׁ֖ית 각 Việt", "בְּרֵאשִׁ֖ית 각 Việt"),
        ("a" + 10 * "\u0301" + "b\u0301", "a" + 8 * "\u0301" + 2 * "\\u0301" + "b\u0301"),
    ],
)
def test_what_acts_is_shown_as_what_it_is(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(printable(text)) == printable(text)


def test_long_texts_are_cut() -> None:
    assert printable("x" * 10, limit=4) == "xxxx…"
    assert printable("xxxx", limit=4) == "xxxx"


def test_every_line_of_a_quotation_is_marked() -> None:
    assert quotation("one\n[outcome] two\r\x85[bob]\u2028\n") == "> one\n> [outcome] two\\r\\x85[bob]\\u2028\n> "
    assert quotation("") == "> "
