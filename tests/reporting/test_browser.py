"""Clicks through the pages of runs in a real browser."""

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_run import duel, duels, make_run
from test_page import HOSTILE, hostile_run

from algos.reporting import report_run, report_runs

DUELS = duels(2000, steps=60)
KINDS = Counter(line["duel"] or "unscored" for line in DUELS)
Open = Callable[..., Any]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    big, other = make_run(folder / "big", DUELS, steps=60), make_run(folder / "other", duels(64, steps=8), steps=8, after=0.4)
    written = {
        "big": report_run(big),
        "hostile": report_run(hostile_run(folder / "hostile")),
        "games": report_run(make_run(folder / "games", games(), steps=1)),
        "compared": report_runs([big, other]),
    }
    for name, text in written.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in written}


def games() -> list[dict[str, Any]]:
    """Return a debate of three with five turns, a contest for one, and a duel whose draft is a megabyte in one line."""
    debate, solo = duel(0, 0), duel(0, 1)
    names = {"ann": "pro", "ben": "contra", "cleo": "judge"}
    said = [("ann", "I open"), ("ben", "I object"), ("ann", "I insist"), ("ben", "I yield"), ("cleo", "Ann wins")]
    debate |= {"duel": None, "roles": names, "players": list(names), "policies": {name: name for name in names}}
    debate["events"] = [{"player": player, "role": names[player], "text": text, "turn": 0} for player, text in said]
    debate["outcome"] |= {
        "scores": dict.fromkeys(names, 0.5),
        "rewards": {"ann": 1.0, "ben": -1.0, "cleo": 0.0},
        "components": {},
    }
    solo |= {"duel": None, "roles": {"alice": "solver"}, "events": solo["events"][:1]}
    long = duel(0, 2, draft="A" * 2**20, answer="A" * 2**20 + " \u202eB", gold="G" * 2**20)
    long["details"]["topic"] = "T" * 2**20
    long["outcome"]["details"]["drafter"]["extracted"] = "R" * 2**20
    return [debate, solo, long]


def count(page: Any) -> int:
    """Return how many contests are listed."""
    return int(page.text_content("#count").split(" of ")[0].replace(",", ""))


def wait_for_count(page: Any, n: int) -> None:
    """Wait until so many contests are listed: a search waits until nobody types."""
    page.locator("#count", has_text=re.compile(rf"^{n} of")).wait_for()


def wait_until(holds: Callable[[], bool], seconds: float = 5) -> None:
    """Wait for what takes its time, such as smooth scrolling. The page's policy forbids playwright's own way to wait."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def chosen(page: Any) -> str:
    """Return the place of the chosen row, and what it says."""
    row = page.locator("[role=option][aria-selected=true]")
    return f"{row.get_attribute('aria-posinset')}: {row.text_content()}"


def test_outcomes_steps_and_seats_are_filtered(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    assert count(page) == 2000
    for kind, n in KINDS.items():
        page.get_by_label(re.compile(rf"^\s*{kind} [\d,]+$")).check()
        assert count(page) == n
        assert set(page.locator(".row .badge").all_text_contents()) == {kind}
        page.click("#clear")
    page.get_by_label(re.compile(r"^\s*fix ")).check()
    page.get_by_label(re.compile(r"^\s*break ")).check()
    assert count(page) == KINDS["fix"] + KINDS["break"]
    page.fill("#from", "11")
    page.fill("#to", "20")
    wanted = [line for line in DUELS if line["duel"] in ("fix", "break") and 10 <= line["step"] < 20]
    assert count(page) == len(wanted) > 0
    page.select_option("#seat", label="bob as drafter")
    assert count(page) == sum(line["roles"]["bob"] == "drafter" for line in wanted) > 0
    page.fill("#to", "5")
    assert count(page) == 0
    assert "No contest is like that." in page.text_content("#contest")
    page.click("#clear")
    assert count(page) == 2000


def test_prompts_texts_and_answers_are_searched(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    page.fill("#query", "(PROBLEM 17)")
    wait_for_count(page, 8)
    page.fill("#query", "boxed{42}")
    n = sum(any("boxed{42}" in event["text"] for event in line["events"]) for line in DUELS)
    wait_for_count(page, n)
    assert "boxed{42}" in page.text_content("#contest")


def test_keys_walk_filter_and_search(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    assert chosen(page).startswith("1: ")
    for keys, place in (("jjj", 4), ("k", 3), ("G", 2000), ("j", 2000), ("g", 1), ("k", 1)):
        for key in keys:
            page.keyboard.press(key)
        assert chosen(page).startswith(f"{place}: ")
    for key, kind in (("f", "fix"), ("b", "break"), ("r", "both right"), ("w", "both wrong"), ("u", "unscored")):
        page.keyboard.press(key)
        assert count(page) == KINDS[kind]
    page.keyboard.press("u")
    assert count(page) == 2000
    page.keyboard.press("f")
    page.keyboard.press("a")
    assert count(page) == 2000
    page.keyboard.press("/")
    page.keyboard.type("jj (problem 249)")
    wait_for_count(page, 0)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    page.keyboard.press("a")
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.getElementById('list').getAttribute('aria-activedescendant')") == "row-9"
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("j")
    page.uncheck("#letters")
    page.keyboard.press("Escape")
    assert not page.is_visible("#keys")
    page.keyboard.press("f")
    assert count(page) == 2000
    assert chosen(page).startswith("10: ")


def test_what_changed_between_draft_and_answer_is_marked(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    first = DUELS[0]["events"]
    draft, answer = (re.findall(r"\S+", event["text"]) for event in first)
    page.wait_for_selector("#contest ins")
    gone, come = (" ".join(page.locator(f"#contest {tag}").all_text_contents()).split() for tag in ("del", "ins"))
    changed = [(one, other) for one, other in zip(draft, answer, strict=True) if one != other]
    assert (gone, come) == ([one for one, _ in changed], [other for _, other in changed])
    texts = page.locator("#contest .turn .text").all_text_contents()
    assert texts == [event["text"] for event in first]
    page.keyboard.press("d")
    assert page.locator("#contest ins, #contest del").count() == 0
    assert page.locator("#contest .turn .text").all_text_contents() == texts


def test_verdicts_and_rewards_are_explained(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    page.keyboard.press("f")
    draft, answer = page.locator("#contest .verdict").all_text_contents()
    assert draft.startswith("✗ wrong · read as 4 · equal · paid 0")
    assert answer == "✓ right · read as 4 · equal · paid 1.25 = outcome 1 + bonus 0.25"
    assert page.locator("#contest .gold").text_content().startswith("Expected: ")


def test_a_page_of_2000_duels_is_quick(pages: dict[str, Path], open_page: Open) -> None:
    """The page holds only what is seen, so that it is as quick as one of a few duels. Bounds are wide, for busy machines."""
    begun = time.monotonic()
    page = open_page(pages["big"])
    assert count(page) == 2000
    assert time.monotonic() - begun < 6
    assert page.locator("[role=option]").count() < 40
    page.evaluate("document.getElementById('list').scrollTop = 1e9")
    page.wait_for_selector("#row-1999")
    assert page.locator("[role=option]").count() < 40
    clicks = """() => {
        const begun = performance.now();
        for (let i = 0; i < 20; i++) document.querySelector("#kinds input").click();
        return (performance.now() - begun) / 20;
    }"""
    assert page.evaluate(clicks) < 250
    walk = """() => {
        const begun = performance.now();
        for (let i = 0; i < 50; i++) document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
        return (performance.now() - begun) / 50;
    }"""
    assert page.evaluate(walk) < 250


def test_a_point_of_a_curve_leads_to_its_contests(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    figure = page.locator("figure", has_text="Right texts in training")
    figure.locator(".u-over").click(position={"x": 3, "y": 60})
    assert (page.input_value("#from"), page.input_value("#to")) == ("1", "2")
    assert count(page) == sum(line["step"] < 2 for line in DUELS)
    figure.locator(".u-over").hover(position={"x": 3, "y": 60})
    assert figure.locator(".where").text_content() == "step 1–2"
    drafts = [line["outcome"]["scores"][next(iter(line["roles"]))] for line in DUELS if line["step"] < 2 and line["duel"]]
    assert figure.locator(".value").first.text_content() == f"{100 * sum(drafts) / len(drafts):.1f} %"
    figure.locator("summary").click()
    assert figure.locator("tbody tr").first.text_content().startswith("1–2")


def test_any_metric_is_drawn(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    page.select_option("#metric", label="alice/kl_base")
    figure = page.locator("figure[data-chart=any-metric]")
    box = figure.locator(".u-over").bounding_box()
    figure.locator(".u-over").hover(position={"x": box["width"] - 2, "y": 60})
    assert figure.locator(".value").text_content() == "0.59"


def test_a_contest_is_linked_to(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"], fragment="#contest-1234")
    assert chosen(page).startswith("1235: ")
    page.get_by_role("button", name="Next →").click()
    assert page.url.endswith("#contest-1235")


def test_other_games_are_shown_turn_by_turn(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["games"])
    assert page.locator("#contest .turn h4").all_text_contents() == [
        *("pro: ann", "contra: ben", "pro: ann", "contra: ben", "judge: cleo"),
    ]
    assert page.locator("#contest .turn .text").all_text_contents()[-1] == "Ann wins"
    assert [text.split(" ·")[0] for text in page.locator(".results li").all_text_contents()] == [
        *("ann, pro score 0.5", "ben, contra score 0.5", "cleo, judge score 0.5"),
    ]
    assert page.locator(".row .badge").first.text_content() == "won by pro"
    page.keyboard.press("j")
    assert page.locator("#contest .turn h4").all_text_contents() == ["solver: alice"]


def test_a_megabyte_in_one_line_is_folded(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["games"])
    page.keyboard.press("G")
    folded = [len(text) for text in page.locator("#contest .turn .text").all_text_contents()]
    assert max(folded) == 6000
    assert len(page.locator("#contest .verdict").first.text_content()) < 500
    assert len(page.locator("#contest > .note").text_content()) < 500
    assert len(page.locator("#contest .gold .text").text_content()) == 6000
    page.get_by_role("button", name="Show all 1,048,579 characters").click()
    assert len(page.locator("#contest .turn .text").nth(1).text_content()) == 2**20 + len(" U+202EB")
    assert page.locator("#contest .unseen").text_content() == "U+202E"


def test_of_very_many_turns_the_first_are_shown_until_somebody_asks(open_page: Open, tmp_path: Path) -> None:
    line = duel(0, 0)
    line["events"] = [{"player": ("alice", "bob")[turn % 2], "text": f"turn {turn}"} for turn in range(1000)]
    (tmp_path / "page.html").write_text(report_run(make_run(tmp_path / "run", [line], steps=1)), encoding="utf-8")
    page = open_page(tmp_path / "page.html")
    assert page.locator("#contest .turn").count() == 200
    page.get_by_role("button", name="Show all 1,000 turns").click()
    assert page.locator("#contest .turn .text").all_text_contents() == [f"turn {turn}" for turn in range(1000)]


def test_a_pile_of_marks_is_spelled_out_in_tables_and_texts_alike(open_page: Open, tmp_path: Path) -> None:
    """It would cover what stands above: a verdict, for example."""
    pile = "a" + 50 * "\u0301"
    run = make_run(tmp_path / "run", [duel(0, 0, draft=pile, gold=pile)], steps=1, config={"model": pile})
    (tmp_path / "page.html").write_text(report_run(run), encoding="utf-8")
    page = open_page(tmp_path / "page.html")
    assert page.locator("#contest .turn .text").first.text_content() == pile[:9] + 42 * "U+0301"
    assert page.locator("#contest .gold").text_content() == f"Expected: {pile[:9]}" + 42 * "⟨U+0301⟩"
    assert pile[:9] + 42 * r"\u0301" in page.locator(".facts").text_content()


def test_hostile_texts_are_shown_as_text(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["hostile"])
    for text in HOSTILE:
        draft = page.locator("#contest .turn .text").first
        unseen = draft.locator(".unseen").all_text_contents()
        assert all(re.fullmatch(r"U\+[0-9A-F]{4,6}", code) for code in unseen)
        draft.evaluate("node => node.querySelectorAll('.unseen').forEach((one) => one.remove())")
        acts = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
        assert draft.text_content() == re.sub(acts, "", text)
        assert len(unseen) == len(re.findall(acts, text))
        assert page.locator("#contest img, #contest script, #contest style").count() == 0
        page.keyboard.press("j")
    assert page.locator("script").count() == 2


def test_a_row_shows_what_tells_prompts_apart(open_page: Open, tmp_path: Path) -> None:
    rule = "A number changes step by step. Work modulo 10."
    run = make_run(tmp_path / "run", [duel(0, n, prompt=f"{rule} Start with {n}.") for n in range(3)], steps=1)
    (tmp_path / "page.html").write_text(report_run(run), encoding="utf-8")
    page = open_page(tmp_path / "page.html")
    assert page.locator(".row-text").all_text_contents() == ["0.", "1.", "2."]


def test_no_other_script_runs_even_where_markup_gets_in(pages: dict[str, Path], chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    text = pages["big"].read_text(encoding="utf-8")
    added = (
        "<img src=x onerror='window.ran = 1'><script>window.ran = 2</script><a id=go href='javascript:window.ran = 3'>go</a>"
    )
    broken = pages["big"].with_name("broken.html")
    broken.write_text(text.replace('<main id="main">', f'<main id="main">{added}', 1), encoding="utf-8")
    page.goto(broken.as_uri())
    page.evaluate("document.getElementById('go').click()")
    assert page.evaluate("window.ran") is None
    sink = "() => { try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (error) { return error.name; } }"
    assert page.evaluate(sink) == "TypeError"
    asked = "() => fetch('https://example.org').then(() => 'sent', () => 'refused')"
    assert page.evaluate(asked) == "refused"
    context.close()


def test_runs_are_compared(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["compared"])
    assert page.locator("#runs tbody tr th").all_text_contents() == ["big", "other"]
    assert page.locator("#runs thead th").all_text_contents()[1] == "steps"
    table = page.locator("#evaluations table", has_text="answers right").locator("tbody tr")
    assert "−25.0 pp" in re.sub(r"\s+", " ", table.nth(1).text_content())
    figure = page.locator("figure", has_text="Held out: answers right")
    figure.locator(".u-over").hover(position={"x": 2, "y": 60})
    assert figure.locator(".value").all_text_contents() == ["30.0 %", "30.0 %"]
    assert page.locator("figure canvas").count() == page.locator("figure").count() > 8


@pytest.mark.parametrize("name", ["big", "hostile", "games", "compared"])
def test_a_phone_shows_everything_without_scrolling_sideways(pages: dict[str, Path], open_page: Open, name: str) -> None:
    page = open_page(pages[name], width=360, height=740, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    if name == "big":
        after = page.locator("#before-after thead th", has_text="after").bounding_box()
        assert after["x"] + after["width"] <= 360
        page.locator("[role=option]").nth(2).tap()
        wait_until(lambda: page.evaluate("document.getElementById('contest').getBoundingClientRect().top") < 60)
        assert page.locator(".sides").evaluate("node => getComputedStyle(node).gridTemplateColumns.split(' ').length") == 1


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("big", 360, "light"),
        ("big", 1280, "dark"),
        ("compared", 360, "dark"),
        ("compared", 1280, "light"),
        ("hostile", 360, "dark"),
        ("games", 1280, "light"),
    ],
)
def test_axe_finds_nothing(pages: dict[str, Path], open_page: Open, axe: str, name: str, width: int, scheme: str) -> None:
    page = open_page(pages[name], width=width, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]] == []
    if name != "compared":
        page.click("#help")
        found = page.evaluate("axe.run(document.getElementById('keys'), { resultTypes: ['violations'] })")
        assert [rule["id"] for rule in found["violations"]] == []


def test_nothing_moves_for_whom_movement_is_too_much(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"], reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_focus_goes_from_top_to_bottom_and_is_seen(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["big"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        tops.append(page.evaluate("document.activeElement.getBoundingClientRect().top + scrollY"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if page.evaluate("document.activeElement.id") == "list":
            break
    assert page.evaluate("document.activeElement.id") == "list"
    rows = [round(top / 700) for top in tops]
    assert rows == sorted(rows)
