"""Word problems for grade schools, in the manner of GSM8K. Arithmetic, checked by counting step by step."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from fractions import Fraction
from random import Random

from agon_env.tasks.sample.template import Draft, template

WORDS = template("Word problem", sample="gsm8k")

_NAMES = ("Mara", "Tomas", "Ines", "Jonah", "Leila", "Oskar", "Priya", "Samir", "Wanda", "Yusuf")


def _two(rng: Random) -> tuple[str, str]:
    first, second = rng.sample(_NAMES, 2)
    return first, second


@WORDS
def bakery_takings(rng: Random) -> Draft:
    name, _ = _two(rng)
    trays, rolls, kept, price = rng.randint(4, 12), rng.randint(6, 15), rng.randint(3, 20), rng.randint(2, 5)
    count = sum(1 for _ in range(trays) for _ in range(rolls)) - kept
    question = (
        f"{name} bakes {trays} trays with {rolls} rolls each. {kept} rolls are kept for the family and the rest are sold for "
        f"${price} each. How many dollars does {name} take in?"
    )
    return Draft(question, (trays * rolls - kept) * price, sum(price for _ in range(count)), 2)


@WORDS
def saving_for_a_bicycle(rng: Random) -> Draft:
    name, _ = _two(rng)
    week, start = rng.randint(7, 25), rng.randint(10, 60)
    weeks = rng.randint(6, 18)
    cost = start + week * weeks - rng.randint(0, week - 1)
    money, needed = start, 0
    while money < cost:
        money, needed = money + week, needed + 1
    question = (
        f"A bicycle costs ${cost}. {name} has ${start} and saves ${week} every week. After how many weeks can {name} buy the "
        "bicycle?"
    )
    return Draft(question, -((start - cost) // week), needed, 2)


@WORDS
def ages(rng: Random) -> Draft:
    first, second = _two(rng)
    older, times, years = rng.randint(2, 5), rng.randint(2, 4), rng.randint(3, 9)
    young = older * 2 + rng.randint(1, 8)
    question = (
        f"{first} is {times} times as old as {second}, who is {young}. How old will {first} be in {years} years, and how old "
        f"will {second} be then, added together?"
    )
    return Draft(question, (times + 1) * young + 2 * years, (times * young + years) + (young + years), 2)


@WORDS
def marbles_given_away(rng: Random) -> Draft:
    first, second = _two(rng)
    part, bags, each = rng.choice([2, 3, 4, 5]), rng.randint(3, 8), rng.randint(2, 9) * 60
    marbles = bags * each
    left = marbles - marbles // part
    extra = rng.randint(10, 50)
    question = (
        f"{first} has {bags} bags of {each} marbles each. {first} gives one {_ordinal(part)} of all the marbles to {second} "
        f"and then finds {extra} more. How many marbles does {first} have now?"
    )
    return Draft(question, left + extra, Fraction(marbles * (part - 1), part) + extra, 2)


def _ordinal(part: int) -> str:
    return {2: "half", 3: "third", 4: "fourth", 5: "fifth"}[part]


@WORDS
def trip_with_a_break(rng: Random) -> Draft:
    name, _ = _two(rng)
    speed, hours, slower, more = rng.randint(40, 70), rng.randint(2, 5), rng.randint(5, 20), rng.randint(1, 4)
    distance = 0
    for hour in range(hours + more):
        distance += speed if hour < hours else speed - slower
    question = (
        f"{name} drives {hours} hours at {speed} miles per hour. After a break, {name} drives {more} more hours, {slower} "
        "miles per hour slower than before. How many miles is the whole trip?"
    )
    return Draft(question, speed * hours + (speed - slower) * more, distance, 2)


@WORDS
def discount(rng: Random) -> Draft:
    name, _ = _two(rng)
    price, percent, count = rng.randint(2, 20) * 10, rng.choice([10, 20, 30, 40, 50]), rng.randint(2, 6)
    coupon = rng.randint(1, 9)
    question = (
        f"A jacket costs ${price}. This week everything is {percent}% off. {name} buys {count} jackets and has a coupon that "
        f"takes another ${coupon} off the total. How many dollars does {name} pay?"
    )
    total = sum(Fraction(price * (100 - percent), 100) for _ in range(count)) - coupon
    return Draft(question, price * count - price * count * percent // 100 - coupon, total, 3)


@WORDS
def two_animals(rng: Random) -> Draft:
    hens, goats = rng.randint(5, 40), rng.randint(5, 40)
    heads, legs = hens + goats, 2 * hens + 4 * goats
    found = next(g for g in range(heads + 1) if 4 * g + 2 * (heads - g) == legs)
    question = f"A farm has hens and goats: {heads} heads and {legs} legs in all. How many goats are there?"
    return Draft(question, (legs - 2 * heads) // 2, found, 3)


@WORDS
def filling_a_tank(rng: Random) -> Draft:
    inflow, outflow, minutes = rng.randint(12, 30), rng.randint(2, 9), rng.randint(10, 40)
    start = rng.randint(5, 50)
    size = start + (inflow - outflow) * minutes
    water, passed = start, 0
    while water < size:
        water, passed = water + inflow - outflow, passed + 1
    question = (
        f"A tank holds {size} liters and has {start} liters in it. Every minute {inflow} liters flow in and {outflow} liters "
        "leak out. In how many minutes will the tank be full?"
    )
    return Draft(question, (size - start) // (inflow - outflow), passed, 3)


@WORDS
def overtime(rng: Random) -> Draft:
    name, _ = _two(rng)
    wage, base, over = 2 * rng.randint(5, 15), rng.choice([30, 35, 40]), rng.randint(2, 12)
    pay = sum(wage if hour < base else 3 * wage // 2 for hour in range(base + over))
    question = (
        f"{name} earns ${wage} an hour. Hours beyond {base} in a week are paid one and a half times as much. How many dollars "
        f"does {name} earn in a week of {base + over} hours?"
    )
    return Draft(question, wage * base + over * wage * 3 // 2, pay, 3)


@WORDS
def reading_a_book(rng: Random) -> Draft:
    name, _ = _two(rng)
    first, growth, days = rng.randint(8, 25), rng.randint(2, 6), rng.randint(4, 9)
    rest = rng.randint(10, 90)
    question = (
        f"{name} reads {first} pages of a book on the first day, and on each day after that {growth} pages more than on the "
        f"day before. After {days} days, {rest} pages are left. How many pages has the book?"
    )
    pages = days * first + growth * days * (days - 1) // 2 + rest
    return Draft(question, pages, sum(first + growth * day for day in range(days)) + rest, 3)


@WORDS
def sharing_costs(rng: Random) -> Draft:
    friends, pizzas, drinks = rng.randint(3, 8), rng.randint(2, 6), rng.randint(3, 10)
    drink = rng.randint(1, 4)
    pizza = next(p for p in range(9, 40) if (pizzas * p + drinks * drink) % friends == 0)
    bill, shares = pizzas * pizza + drinks * drink, 0
    while shares * friends < bill:
        shares += 1
    question = (
        f"{friends} friends buy {pizzas} pizzas at ${pizza} each and {drinks} drinks at ${drink} each, and share the bill "
        "equally. How many dollars does each friend pay?"
    )
    return Draft(question, Fraction(bill, friends), shares, 3)


@WORDS
def fence_posts(rng: Random) -> Draft:
    gap, long, wide = rng.randint(2, 5), rng.randint(5, 20), rng.randint(5, 20)
    length, width = gap * long, gap * wide
    corners = [(x, y) for x in range(0, length + 1, gap) for y in range(0, width + 1, gap)]
    posts = [(x, y) for x, y in corners if x in (0, length) or y in (0, width)]
    question = (
        f"A rectangular garden of {length} by {width} feet gets a fence with a post in each corner and every {gap} feet along "
        "the sides. How many posts are needed?"
    )
    return Draft(question, 2 * (length + width) // gap, len(posts), 4)
