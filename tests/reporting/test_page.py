"""The pages as files: whatever a run holds is shown as text, and nothing but the page's own script can run."""

import base64
import hashlib
import importlib
import json
import re
import shutil
import time
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from made_run import duel, duels, evaluation, make_run, metrics, write_json, write_lines

from algos.cli import run as agon
from algos.errors import ConfigError
from algos.reporting import report_run, report_runs

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>--></style><style>*{display:none}",
    '" onmouseover="alert(1)" x="',
    "' autofocus onfocus='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }} {% raw %} ${7 * 7}",
    "\x1b[31mred\x1b]0;title\x07\x00\x9b",
    "\u202eevil\u202c\u2066\u200f\u061c",
    "lone \ud800 and \udc00",
    "a\u2028b\u2029c\x85d\r\ne",
    "&lt;b&gt;&amp;",
    "<meta http-equiv=refresh content='0;url=https://evil.example'><base href=https://evil.example>",
    "__proto__",
)
_MEANT = """
html head meta title style body a header h1 h2 h3 dl div dt dd nav ul li main section table caption thead tr th td tbody span
svg line circle rect p figure figcaption details summary label select option form fieldset legend input button article dialog
kbd footer noscript script
"""
MEANT = frozenset(_MEANT.split())
"""Every element that a page is made of."""


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and the contents of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self._inside: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in self.raw else None
        if self._inside:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data
        else:
            self.words.append(data)

    @property
    def data(self) -> dict:
        return json.loads(self.raw["script"][0])


def hostile_run(folder: Path) -> Path:
    """Return a run in which every text that can be is hostile."""
    lines = []
    for number, text in enumerate(HOSTILE):
        line = duel(0, number, prompt=text, draft=text, answer=text + text, problem=text, gold=text)
        line["policies"] = dict(zip(line["roles"], (text, "bob"), strict=True))
        line["roles"] = dict(zip(line["roles"], (f"drafter {text}", f"challenger {text}"), strict=True))
        line["duel"] = None if number % 2 else text
        line["details"]["topic"] = line["outcome"]["reason"] = text
        line["outcome"]["components"]["alice"][text] = 0.5
        line["outcome"]["details"][f"drafter {text}"] = {"extracted": text, "reason": text}
        line["events"][0]["invalid"] = text
        lines.append(line)
    run = make_run(
        folder, lines, steps=1, config={f"x{text}": text for text in HOSTILE} | {"env": HOSTILE[1], "model": HOSTILE[0]}
    )
    figures = {"n": "<b>", "mean_tokens": float("nan"), "answer_pass1": 0.5, "draft_pass1": "<i>", "fix_rate": 0.1}
    figures["ci95"] = {"answer_pass1": ["<b>", 1], "draft_pass1": [0, 1], "fix_rate": [0.0, float("inf")], "break_rate": {}}
    write_json(run / "summary.json", {"before": figures, "after": evaluation(0.5)})
    write_lines(run / "metrics.jsonl", [{"step": 0} | {f"{text}/reward": 1.0 for text in HOSTILE} | {"time/step": 1.0}])
    return run


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("runs")
    good, bad = make_run(folder / "good", duels(64, steps=8), steps=8), hostile_run(folder / HOSTILE[4])
    return [report_run(good), report_run(bad), report_runs([good, bad]), report_runs([bad, good])]


def test_no_text_becomes_an_element_or_an_attribute(pages: list[str]) -> None:
    for text in pages:
        page = Page(text)
        assert {tag for tag, _ in page.elements} <= MEANT
        assert len(page.raw["script"]) == 2
        assert len(page.raw["style"]) == 1
        names = {name for _, attributes in page.elements for name in attributes}
        assert not [name for name in names if name.startswith("on") or name in ("style", "src", "srcdoc", "autofocus")]
        assert "alert(1)" not in page.raw["script"][1]


def test_the_page_asks_nothing_of_a_network(pages: list[str]) -> None:
    for text in pages:
        links = [
            value for _, attributes in Page(text).elements for name, value in attributes.items() if name in ("href", "action")
        ]
        assert links
        assert all(link is not None and link.startswith("#") for link in links)
        assert ("meta", {"name": "referrer", "content": "no-referrer"}) in Page(text).elements
        assert not re.search(r"@import|url\(", Page(text).raw["style"][0])


def test_only_the_own_script_and_style_may_run(pages: list[str]) -> None:
    def digest(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    for text in pages:
        page = Page(text)
        (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
        assert policy is not None
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert rules["script-src"] == f"'{digest(page.raw['script'][1])}'"
        assert rules["style-src"] == f"'{digest(page.raw['style'][0])}'"
        assert "unsafe" not in policy


def test_every_text_reaches_the_browser_verbatim(pages: list[str]) -> None:
    browser = Page(pages[1]).data["browser"]
    for contest, text in zip(browser["contests"], HOSTILE, strict=True):
        assert contest["step"] == 1  # people count from 1
        said = [browser["texts"][turn["text"]] for turn in contest["turns"]]
        assert said == [text, text + text]
        assert browser["texts"][contest["prompt"]] == contest["gold"] == contest["seats"][0]["read"] == text
        assert contest["turns"][0]["invalid"] == contest["seats"][0]["policy"] == text


def test_what_acts_instead_of_showing_is_spelled_out_in_the_tables(pages: list[str]) -> None:
    for text in pages:
        words = "".join(Page(text).words)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", words)
        text.encode("utf-8")
    assert "\\u202eevil" in "".join(Page(pages[1]).words)


def test_the_script_spells_out_what_the_tables_spell_out() -> None:
    printable = importlib.import_module("agon_env.printable")
    text = (files("algos.reporting") / "static" / "text.js").read_text(encoding="utf-8")
    (unseen,) = re.findall(r"^const UNSEEN = (.*);$", text, re.MULTILINE)
    acting, stacking = (set(re.findall(r"\\p\{(\w+)\}", part)) for part in unseen.split("|"))
    assert (acting, stacking) == (printable._ACTING, printable._STACKING)
    assert set(re.findall(r"\{(\d+)\}", unseen)) == {str(printable._MOST_MARKS)}


def test_a_megabyte_in_one_line_is_held_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [duel(0, 0, draft="A" * 2**20)], steps=1)
    assert "A" * 2**20 in Page(report_run(run)).data["browser"]["texts"]


def test_a_setting_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [], config={"model": "M" * 2**20})
    assert len(report_run(run)) < 2**19


@pytest.mark.parametrize("huge", [1.7e308, -1.7e308, 9e99, 10**300, 10**400])
def test_numbers_that_can_not_be_counted_with_are_left_out(tmp_path: Path, huge: float) -> None:
    lines = duels(32, steps=4)
    for line in lines:
        for part in ("rewards", "scores"):
            line["outcome"][part] = dict.fromkeys(line["outcome"][part], huge)
        line["outcome"]["components"] = {player: {"outcome": huge} for player in line["roles"]}
        for event in line["events"]:
            event["tokens"] = huge
    run, other = make_run(tmp_path / "run", lines), make_run(tmp_path / "other")
    figures = evaluation(0.5) | {"ci95": {"answer_pass1": [huge, huge]}, "mean_tokens": huge, "n": huge}
    write_json(run / "summary.json", {"before": figures, "after": figures})
    names = [name for name in metrics(2, steps=4) if name != "step"]
    write_lines(run / "metrics.jsonl", [{"step": step} | dict.fromkeys(names, huge) for step in range(4)])
    assert Page(report_run(run)).data["browser"]["contests"]
    assert Page(report_runs([run, other])).data["charts"]


def test_a_folder_with_names_without_number_has_a_page_of_bounded_size(tmp_path: Path) -> None:
    lines = duels(400, steps=4)
    for number, line in enumerate(lines):
        line["roles"] = {player: f"{role} {number}" for player, role in line["roles"].items()}
        line["policies"] = {player: f"{player} {number}" for player in line["roles"]}
        line["outcome"]["components"] = {player: {f"part {number}": 1.0} for player in line["roles"]}
    run = make_run(tmp_path / "run", lines, config={f"setting {number}": number for number in range(1000)})
    record = {f"p{number}/reward": 1.0 for number in range(300)} | {f"p1/reward_{number}": 1.0 for number in range(300)}
    record |= {f"pair/kl_p{one}_p{other}": 1.0 for one in range(20) for other in range(20)}
    record |= {f"metric {number}": 1.0 for number in range(5000)}
    write_lines(run / "metrics.jsonl", [{"step": step} | record for step in range(4)])
    text = report_run(run)
    page, words = Page(text), "".join(Page(text).words)
    assert len(text) < 2**21
    assert max(len(chart["series"]) for chart in page.data["charts"].values()) == 40
    assert "The first 40 curves." in words
    assert "No more than 40 of each are shown." in words
    assert "Metric (of which 4,000 more are in metrics.jsonl)" in words
    text = report_runs([make_run(tmp_path / "other"), run])
    assert len(text) < 2**19
    assert "800 more differ." in "".join(Page(text).words)


def test_a_contest_of_very_many_is_read_in_time(tmp_path: Path) -> None:
    """In time that grows with their number, and not with its square."""
    line, players = duel(0, 0), [f"p{number}" for number in range(20_000)]
    line["roles"] = {player: f"role of {player}" for player in players}
    line["events"] = [{"player": player, "text": "said"} for player in players]
    run, begun = make_run(tmp_path / "run", [line], steps=1), time.process_time()
    (contest,) = Page(report_run(run)).data["browser"]["contests"]
    assert [turn["seat"] for turn in contest["turns"]] == list(range(20_000))
    assert time.process_time() - begun < 15


def test_a_long_run_of_which_no_role_is_known_has_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [])
    write_lines(run / "metrics.jsonl", [{"step": step, "alice/reward": 0.5} for step in range(100)])
    assert Page(report_run(run)).data["charts"]
    assert Page(report_runs([run, make_run(tmp_path / "other")])).data["charts"]


def test_the_page_is_the_same_for_the_same_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert report_run(run) == report_run(run)


def test_libraries_bring_their_licences(pages: list[str]) -> None:
    script = Page(pages[0]).raw["script"][1]
    vendor = files("algos.reporting") / "static" / "vendor"
    for name in ("uPlot", "diff"):
        assert (vendor / f"{name}.LICENSE").read_text(encoding="utf-8") in script


def test_scripts_and_styles_can_stand_in_a_page(pages: list[str]) -> None:
    for raw in Page(pages[0]).raw.values():
        assert not re.search(r"</(script|style)|<!--|\r", raw[-1], re.IGNORECASE)
        assert not re.search(r"\binnerHTML\b|\beval\(|new Function|document\.write|insertAdjacentHTML", raw[-1])


def test_a_run_of_which_little_is_there_has_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for name in ("summary.json", "contests.jsonl", "metrics.jsonl"):
        (run / name).unlink()
        page = Page(report_run(run))
        assert ("This run kept no contests." in "".join(page.words)) == (not (run / "contests.jsonl").exists())
    bare = Path(shutil.copytree(run, tmp_path / "bare"))
    assert "On held-out problems" not in "".join(Page(report_runs([run, bare])).words)


def test_figures_count_all_contests_where_the_page_shows_some(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", duels(64, steps=8), steps=8)
    whole, part = Page(report_run(run)), Page(report_run(run, contests=16))
    assert len(part.data["browser"]["contests"]) == 16
    assert "16 of 64 training contests, evenly." in "".join(part.words)
    assert part.data["charts"] == whole.data["charts"]


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, other = make_run(tmp_path / "one"), make_run(tmp_path / "two")
    assert agon(["report", str(run)]) == 0
    assert "<title>one</title>" in (run / "report.html").read_text(encoding="utf-8")
    assert (run / "report.html").stat().st_mode & 0o777 == 0o644  # it is written aside, where it is for its owner alone
    assert str(run / "report.html") in capsys.readouterr().out
    assert agon(["report", str(run), str(other), "--out", str(tmp_path / "both.html")]) == 0
    assert "<title>2 runs compared</title>" in (tmp_path / "both.html").read_text(encoding="utf-8")
    assert agon(["report", str(run), str(other)]) == 0
    assert (tmp_path / "comparison.html").is_file()


def test_a_link_in_the_place_of_the_page_is_not_followed(tmp_path: Path) -> None:
    run, victim = make_run(tmp_path / "run"), tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (run / "report.html").symlink_to(victim)
    assert agon(["report", str(run)]) == 0
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not (run / "report.html").is_symlink()
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["report", str(tmp_path)], ["report"], ["report", str(make_run(tmp_path / "run")), "--contests", "0"]):
        assert agon(args) == 2
        assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        report_run(tmp_path)
    with pytest.raises(ConfigError, match="two runs"):
        report_runs([tmp_path])
    with pytest.raises(ConfigError, match="itself"):
        report_runs([tmp_path / "run", tmp_path / "run"])


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    page = report_runs([make_run(tmp_path / "a" / "run"), make_run(tmp_path / "b" / "run")])
    assert [chart["series"][0]["name"] for chart in Page(page).data["charts"].values()][:1] == ["a/run"]
