"use strict";
// The browser of contests: filters, a list of which the page holds only the rows that are seen, and one contest, whole.

const ROW = 46; // height of a row in pixels, as in page.css
const MANY = 200; // turns and seats of one contest that are shown before somebody asks for more
const SIGNS = { true: "✓ right", false: "✗ wrong" };

function startBrowser({ texts, contests, kinds, seats }) {
  const at = (id) => document.getElementById(id);
  const list = at("list");
  const rows = at("rows");
  const boxes = [...document.querySelectorAll("#kinds input")];
  let lowered = null; // contest → all that can be searched, made when somebody searches
  let found = contests.map((_, index) => index);
  let chosen = 0; // place in `found`
  let highlight = true;

  // Prompts of one task often begin alike: a row of the list shows what tells them apart.
  const alike = commonStart(contests.map((contest) => (contest.prompt === null ? "" : texts[contest.prompt])));

  // --- filters ---

  function matches() {
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => kinds[box.value][0]));
    const from = Number(at("from").value || 0);
    const to = Number(at("to").value || Infinity);
    const [policy, role] = seats[at("seat").value] || [null, null];
    const query = at("query").value.toLowerCase();
    if (query && !lowered) lowered = contests.map(searchable);
    return (contest, index) =>
      (!wanted.size || wanted.has(contest.kind)) &&
      contest.step >= from &&
      contest.step <= to &&
      (role === null || contest.seats.some((seat) => seat.role === role && seat.policy === policy)) &&
      (!query || lowered[index].includes(query));
  }

  function searchable(contest) {
    const said = contest.turns.map((turn) => texts[turn.text]);
    const read = contest.seats.map((seat) => seat.read || "");
    const parts = [contest.problem, contest.prompt === null ? "" : texts[contest.prompt], contest.gold || "", ...read, ...said];
    return parts.join("\n").toLowerCase();
  }

  function filter() {
    const current = found[chosen];
    const matching = matches();
    found = [];
    contests.forEach((contest, index) => matching(contest, index) && found.push(index));
    at("count").textContent = `${found.length.toLocaleString("en")} of ${contests.length.toLocaleString("en")} shown`;
    rows.style.height = `${found.length * ROW}px`;
    choose(Math.max(0, found.indexOf(current)), { scroll: true });
  }

  function clear() {
    at("filters").reset();
    filter();
  }

  function only(kind) {
    const box = boxes.find((one) => kinds[one.value][0] === kind);
    if (!box) return;
    const alone = box.checked && boxes.filter((one) => one.checked).length === 1;
    boxes.forEach((one) => (one.checked = one === box && !alone));
    filter();
  }

  // --- the list ---

  function drawRows() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    const shown = [];
    for (let place = first; place < last; place++) shown.push(row(place));
    rows.replaceChildren(...shown);
    const inside = chosen >= first && chosen < last && found.length;
    if (inside) list.setAttribute("aria-activedescendant", `row-${chosen}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function row(place) {
    const contest = contests[found[place]];
    const prompt = contest.prompt === null ? contest.problem : texts[contest.prompt].slice(alike) || texts[contest.prompt];
    const made = element(
      "div",
      {
        role: "option",
        id: `row-${place}`,
        class: "row",
        "aria-selected": String(place === chosen),
        "aria-setsize": found.length,
        "aria-posinset": place + 1,
        onclick: () => choose(place, { reveal: true }),
      },
      element(
        "div",
        { class: "row-head" },
        element("span", { class: "step" }, `step ${contest.step}`),
        badge(contest.kind),
        element("span", { class: "who" }, brief(contest.seats.map((seat) => seat.policy).join(" → "))),
      ),
      element("div", { class: "row-text" }, visible(prompt.slice(0, 120).replace(/\s+/g, " "))),
    );
    made.style.top = `${place * ROW}px`;
    return made;
  }

  function badge(kind) {
    return element("span", { class: "badge", "data-kind": kind }, brief(kind));
  }

  function choose(place, { scroll = false, reveal = false } = {}) {
    chosen = Math.min(Math.max(0, place), Math.max(0, found.length - 1));
    const top = chosen * ROW;
    if (top < list.scrollTop || scroll) list.scrollTop = Math.max(0, top - (scroll ? ROW : 0));
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    drawRows();
    show(reveal);
  }

  // --- one contest ---

  function show(reveal) {
    const target = at("contest");
    if (!found.length) {
      target.replaceChildren(element("p", { class: "note" }, "No contest is like that."));
      return;
    }
    const contest = contests[found[chosen]];
    const step = (by) => element("button", { type: "button", onclick: () => choose(chosen + by) }, by < 0 ? "← Previous" : "Next →");
    const head = element(
      "div",
      { class: "contest-head" },
      element("h3", {}, `Step ${contest.step} `, badge(contest.kind)),
      element("div", { class: "walk" }, step(-1), step(+1)),
    );
    const about = [...contest.about, `problem ${contest.problem}`, `seed ${contest.seed}`, contest.reason || ""].filter(Boolean);
    const prompt = contest.prompt === null ? null : panel("Prompt", [], whole(texts[contest.prompt]), "prompt");
    target.replaceChildren(
      head,
      element("p", { class: "note" }, about.map(brief).join(" · ")),
      ...[prompt, contest.gold === null ? null : expected(contest.gold)].filter(Boolean),
      contest.seats.length === 2 && contest.turns.length === 2 ? sideBySide(contest) : inTurns(contest),
    );
    target.scrollTop = 0;
    history.replaceState(null, "", `#contest-${found[chosen]}`);
    if (reveal && matchMedia("(max-width: 760px)").matches) target.scrollIntoView();
  }

  function whole(text) {
    return textBlock([{ text, tag: null }]);
  }

  function expected(gold) {
    if (gold.length > BRIEF) return panel("Expected", [], whole(gold), "gold");
    return element("p", { class: "gold" }, element("span", { class: "label" }, "Expected: "), visible(gold));
  }

  function panel(title, lines, body, kind) {
    return element("section", { class: `panel ${kind || ""}` }, element("h4", {}, brief(title)), ...lines, body);
  }

  function sideBySide(contest) {
    const [one, other] = contest.turns.map((turn) => texts[turn.text]);
    const compared = highlight && one !== other ? changes(one, other) : null;
    const blocks = compared ? compared.map((parts) => textBlock(parts)) : [whole(one), whole(other)];
    const said = !highlight ? null : one === other ? "The two texts are the same." : compared ? null : "Too different to be compared.";
    const panels = contest.turns.map((turn, place) => turnPanel(contest, turn, blocks[place], true));
    return element("div", {}, element("div", { class: "sides" }, ...panels), said && element("p", { class: "note" }, said));
  }

  function inTurns(contest) {
    const results = contest.seats.slice(0, MANY).map((seat) =>
      element("li", {}, element("strong", {}, brief(`${seat.policy}, ${seat.role}`)), " ", ...verdict(seat)),
    );
    const several = contest.seats.length > 1 || contest.turns.length > 1;
    const panels = (turns) => turns.map((turn) => turnPanel(contest, turn, whole(texts[turn.text]), !several));
    const more = element("button", { type: "button", class: "more", onclick: () => more.replaceWith(...panels(contest.turns.slice(MANY))) });
    more.textContent = `Show all ${contest.turns.length.toLocaleString("en")} turns`;
    return element(
      "div",
      {},
      several ? element("ul", { class: "results" }, ...results) : null,
      ...panels(contest.turns.slice(0, MANY)),
      contest.turns.length > MANY ? more : null,
    );
  }

  function turnPanel(contest, turn, body, withVerdict) {
    const seat = contest.seats[turn.seat];
    const lines = [];
    if (withVerdict) lines.push(element("p", { class: "verdict" }, ...verdict(seat)));
    const remarks = [
      turn.tokens === null ? null : `${turn.tokens} tokens`,
      turn.cut ? "cut off" : null,
      turn.invalid === null ? null : `refused: ${turn.invalid}`,
    ].filter(Boolean);
    if (remarks.length) lines.push(element("p", { class: "note" }, remarks.map(brief).join(" · ")));
    return panel(`${seat.role}: ${seat.policy}`, lines, body, "turn");
  }

  function verdict(seat) {
    const known = seat.score !== null;
    const right = known && (seat.score === 1 || seat.score === 0) ? SIGNS[seat.score === 1] : null;
    const score = !known ? "unscored" : right || `score ${written(seat.score, "number")}`;
    const sum = Object.entries(seat.parts).map(([name, part]) => `${name} ${written(part, "number")}`);
    const paid = seat.reward === null ? "not paid" : `paid ${written(seat.reward, "number")}`;
    return [
      element("span", { class: "score", "data-right": known ? String(seat.score === 1) : "unknown" }, score),
      seat.read === null ? null : element("span", {}, ` · read as ${brief(seat.read)}`),
      seat.why === null ? null : element("span", {}, ` · ${brief(seat.why)}`),
      element("span", {}, ` · ${paid}${sum.length > 1 ? " = " + sum.map(brief).join(" + ") : ""}`),
    ];
  }

  // --- keyboard ---

  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity };
  const dialog = at("keys");
  const letters = {
    j: () => choose(chosen + 1),
    k: () => choose(chosen - 1),
    g: () => choose(0),
    G: () => choose(found.length - 1),
    "/": () => at("query").focus(),
    f: () => only("fix"),
    b: () => only("break"),
    r: () => only("both right"),
    w: () => only("both wrong"),
    u: () => only("unscored"),
    a: clear,
    d: () => at("highlight").click(),
    "?": () => dialog.showModal(),
  };

  list.addEventListener("keydown", (event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(moves[event.key] === Infinity ? found.length - 1 : Math.max(0, chosen + moves[event.key]));
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.id === "query") return list.focus();
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea") || dialog.open;
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !at("letters").checked || !Object.hasOwn(letters, event.key)) return;
    event.preventDefault();
    letters[event.key]();
  });

  // --- what is done with the mouse ---

  let waiting = 0;
  at("filters").addEventListener("input", (event) => {
    clearTimeout(waiting);
    if (event.target.id === "highlight") return;
    if (event.target.id === "query") waiting = setTimeout(filter, 120);
    else filter();
  });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("clear").addEventListener("click", clear);
  at("highlight").addEventListener("change", (event) => {
    highlight = event.target.checked;
    show();
  });
  at("help").addEventListener("click", () => dialog.showModal());
  list.addEventListener("scroll", () => requestAnimationFrame(drawRows));
  new ResizeObserver(drawRows).observe(list);

  const linked = /^#contest-(\d+)$/.exec(location.hash);
  if (linked && Number(linked[1]) < contests.length) chosen = Number(linked[1]);
  filter();

  return function showSteps(first, last) {
    at("from").value = first;
    at("to").value = last;
    filter();
    at("contests").scrollIntoView();
  };
}
