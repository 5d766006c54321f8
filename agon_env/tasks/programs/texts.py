"""Kinds of problem about texts."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from random import Random
from string import ascii_lowercase

from agon_env.tasks.programs.kind import Draft, Type, kind, words

TEXT: tuple[tuple[str, Type], ...] = (("text", "text"),)


@kind("texts")
def shift_letters(rng: Random) -> Draft:
    """A cipher that depends on the position."""
    a, b = rng.randint(1, 9), rng.randint(1, 5)
    return Draft(
        f"the text (lower-case letters a to z and blanks) with each letter moved on in the alphabet by {a} + {b}*i "
        f"places, where i is its "
        "position in the text, counted from 0 with the blanks; after z comes a. Blanks stay",
        TEXT,
        "text",
        '    moved = ""\n    for i, c in enumerate(text):\n'
        f'        moved += c if c == " " else chr((ord(c) - 97 + {a} + {b} * i) % 26 + 97)\n    return moved\n',
        lambda text: "".join(
            c if c == " " else (ascii_lowercase * 2)[ascii_lowercase.index(c) + (a + b * i) % 26] for i, c in enumerate(text)
        ),
        [("a",), ("zebra",), *((f"x{word}y",) for word in words(rng, (4, 8, 15, 30), ascii_lowercase + "  "))],
        2,
    )


@kind("texts")
def run_lengths(rng: Random) -> Draft:
    """Run-length encoding with a threshold."""
    least = rng.randint(2, 4)
    return Draft(
        f"the text (lower-case letters) in which every longest run of {least} or more equal letters is replaced by "
        f"its length followed by the "
        "letter; shorter runs stay as they are",
        TEXT,
        "text",
        '    out, i = "", 0\n    while i < len(text):\n        j = i\n        while j < len(text) and text[j] == text[i]:\n'
        f"            j += 1\n        out += str(j - i) + text[i] if j - i >= {least} else text[i:j]\n        i = j\n"
        f"    return out\n",
        lambda text: re.sub(rf"(.)\1{{{least - 1},}}", lambda run: f"{len(run[0])}{run[1]}", text),
        [("a",), ("aabbb",), ("abcabc",), *((word,) for word in words(rng, (6, 12, 25, 60), "ab"))],
        2,
    )


@kind("texts")
def bracket_depth(rng: Random) -> Draft:
    """Brackets: depth or the first mistake."""
    pair, limit = rng.choice(["()", "[]", "{}", "<>"]), rng.randint(2, 5)
    opening, closing = pair[0], pair[1]

    def check(text: str) -> int:
        depths = list(itertools.accumulate((c == opening) - (c == closing) for c in text))
        if any(depth < 0 for depth in depths) or (depths and depths[-1] != 0):
            return -1
        return sum(c == opening and depth > limit for c, depth in zip(text, depths, strict=True))

    return Draft(
        f"how many of the brackets {opening} in the text (which consists of {opening} and {closing}) are inside of at "
        f"least {limit} others; "
        "-1 if the brackets do not match. An empty text has the result 0",
        TEXT,
        "int",
        f"    depth = deep = 0\n    for c in text:\n        if c == {opening!r}:\n            depth += 1\n"
        f"            deep += depth > {limit}\n"
        "        else:\n            depth -= 1\n            if depth < 0:\n                return -1\n"
        "    return deep if depth == 0 else -1\n",
        check,
        [
            (pair,),
            (opening,),
            (closing + opening,),
            (opening * limit + closing * limit,),
            (opening * (limit + 1) + pair * 3 + closing * (limit + 1),),
            (pair * 3 + opening * (limit + 2) + closing * (limit + 2),),
            *((word,) for word in words(rng, (6, 10), pair)),
        ],
        2,
    )


@kind("texts")
def most_common(rng: Random) -> Draft:
    """The k-th most frequent letter, ties by alphabet."""
    rank = rng.randint(1, 4)
    ordinal = {1: "most", 2: "second most", 3: "third most", 4: "fourth most"}[rank]
    return Draft(
        f"the {ordinal} frequent letter of the text (lower-case letters); of letters that are equally frequent the "
        f"one that comes first in "
        f"the alphabet goes first. If the text has fewer than {rank} different letters, the result is the text -",
        TEXT,
        "text",
        f"    order = sorted(set(text), key=lambda c: (-text.count(c), c))\n"
        f'    return order[{rank - 1}] if len(order) >= {rank} else "-"\n',
        lambda text: [*sorted(Counter(text), key=lambda c: (-Counter(text)[c], c)), *["-"] * rank][rank - 1],
        [("z",), ("banana",), ("ccbbaa",), *((word,) for word in words(rng, (6, 12, 25, 60), "abcdefg"))],
        1.5,
    )


@kind("texts")
def edit_cost(rng: Random) -> Draft:
    """Edit distance with a price for replacing."""
    cost = rng.randint(1, 4)

    def check(first: str, second: str) -> int:
        table = {(i, j): i + j for i in range(len(first) + 1) for j in range(len(second) + 1) if not (i and j)}
        for i, j in itertools.product(range(1, len(first) + 1), range(1, len(second) + 1)):
            swap = table[i - 1, j - 1] + cost * (first[i - 1] != second[j - 1])
            table[i, j] = min(swap, table[i - 1, j] + 1, table[i, j - 1] + 1)
        return table[len(first), len(second)]

    return Draft(
        f"the least cost of turning the text first into the text second, where inserting or deleting a letter costs 1 "
        f"and replacing a letter by "
        f"another one costs {cost}",
        (("first", "text"), ("second", "text")),
        "int",
        "    row = list(range(len(second) + 1))\n    for i, a in enumerate(first, 1):\n        new = [i]\n"
        "        for j, b in enumerate(second, 1):\n"
        f"            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + {cost} * (a != b)))\n        row = new\n"
        f"    return row[-1]\n",
        check,
        [
            ("a", "a"),
            ("a", "b"),
            ("kitten", "sitting"),
            *zip(words(rng, (5, 8, 12, 20), "abc"), words(rng, (4, 9, 12, 25), "abc"), strict=True),
        ],
        4,
    )


@kind("texts")
def palindromes(rng: Random) -> Draft:
    """Palindromic substrings of some length."""
    least = rng.randint(2, 5)
    return Draft(
        f"the number of substrings of the text (lower-case letters) that have at least {least} letters and read the "
        f"same backwards; substrings "
        "at different places count separately",
        TEXT,
        "int",
        "    count = 0\n    for i in range(len(text)):\n"
        f"        for j in range(i + {least}, len(text) + 1):\n            part = text[i:j]\n"
        f"            count += part == part[::-1]\n"
        "    return count\n",
        lambda text: sum(
            right - left + 1 >= least
            for middle in range(2 * len(text) - 1)
            for left, right in itertools.takewhile(
                lambda ends: ends[0] >= 0 and ends[1] < len(text) and text[ends[0]] == text[ends[1]],
                ((middle // 2 - k, (middle + 1) // 2 + k) for k in range(len(text))),
            )
        ),
        [("a",), ("aaaa",), ("abba",), *((word,) for word in words(rng, (6, 12, 25, 40), "ab"))],
        2.5,
    )


@kind("texts")
def evaluate(rng: Random) -> Draft:
    """A little calculator with its own precedence."""
    first = rng.choice(["+", "*"])
    rule = {
        "+": "additions are done before multiplications, so that 2*3+4 is 14",
        "*": "there is no precedence: operations are done from left to right, so that 2+3*4 is 20",
    }[first]
    modulus = rng.choice([1000, 997, 10007])

    def check(text: str) -> int:
        if first == "+":
            value = 1
            for part in text.split("*"):
                value *= sum(map(int, part.split("+")))
            return value % modulus
        tokens = re.findall(r"\d+|[+*]", text)
        value = int(tokens[0])
        for operator, number in zip(tokens[1::2], tokens[2::2], strict=True):
            value = value + int(number) if operator == "+" else value * int(number)
        return value % modulus

    body = {
        "+": "    value, total, number = 1, 0, 0\n    for c in text + '*':\n        if c.isdigit():\n"
        "            number = 10 * number + int(c)\n"
        "        else:\n            total, number = total + number, 0\n            if c == '*':\n"
        "                value, total = value * total, 0\n"
        f"    return value % {modulus}\n",
        "*": "    value, number, before = 0, 0, '+'\n    for c in text + '+':\n        if c.isdigit():\n"
        "            number = 10 * number + int(c)\n"
        "        else:\n            value = value + number if before == '+' else value * number\n"
        "            number, before = 0, c\n"
        f"    return value % {modulus}\n",
    }
    tests = [
        "".join(f"{rng.randint(1, 30)}{rng.choice('+*')}" for _ in range(size)) + str(rng.randint(1, 9))
        for size in (1, 2, 3, 5, 8, 12)
    ]
    return Draft(
        f"the value of the expression in the text modulo {modulus}. The expression consists of positive integers and "
        f"the signs + and *; {rule}",
        TEXT,
        "int",
        body[first],
        check,
        [("7",), *((test,) for test in tests)],
        3,
    )


@kind("texts")
def is_made_of(rng: Random) -> Draft:
    """Whether a text can be cut into given words."""
    parts = rng.choice(
        [
            ("ab", "ba", "aab"),
            ("a", "bb", "abc"),
            ("ab", "abc", "cd"),
            ("aa", "aaa", "b"),
            ("xy", "yx", "x"),
            ("no", "on", "noon"),
        ]
    )
    letters = "".join(sorted(set("".join(parts))))
    shown = ", ".join(parts)
    good = ["".join(rng.choice(parts) for _ in range(size)) for size in (1, 3, 6, 12)]
    return Draft(
        f"whether the text can be cut into pieces each of which is one of {shown}; a piece may occur any number of times",
        TEXT,
        "bool",
        "    reached = [True] + [False] * len(text)\n    for end in range(1, len(text) + 1):\n"
        f"        reached[end] = any(reached[end - len(p)] for p in {parts!r} if text[:end].endswith(p) and len(p) <= end)\n"
        "    return reached[-1]\n",
        lambda text: re.fullmatch("(?:" + "|".join(parts) + ")*", text) is not None,
        [(letters,), (parts[0],), *((word,) for word in good), *((word,) for word in words(rng, (3, 6, 9, 12), letters))],
        3,
    )
