"use strict";
// Texts of models are hostile until shown otherwise. They reach the page as text nodes alone, and what an eye
// would not see, or would see in another order, is spelled out.

// Control and format characters (bidirectional marks, zero widths), lone surrogates, private use, separators of lines; but for
// line feeds, tabs, and the joiners that words of some scripts and emoji are written with. And marks on a character that
// has eight: a pile of them covers what stands above. As in agon_env/printable.py.
const UNSEEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]|(?<=[\p{Mn}\p{Me}]{8})[\p{Mn}\p{Me}]/gu;
const FOLD = 6000; // characters of one text that are shown before somebody asks for more
const BRIEF = 300; // characters of an answer or a name
const PIECE = 8000; // characters that a browser lays out at once; it skips pieces that are not in view

function codeOf(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** Return the text with unseen characters spelled out. */
function visible(text) {
  return text.replace(UNSEEN, (character) => "⟨" + codeOf(character) + "⟩");
}

/** Return the beginning of a text that should be short, such as an answer or a name. */
function brief(text) {
  return visible(text.length > BRIEF ? text.slice(0, BRIEF) + "…" : text);
}

/** Return a new element; strings among its children become text. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function appendVisible(parent, text) {
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    parent.append(text.slice(end, match.index), element("span", { class: "unseen" }, codeOf(match[0])));
    end = match.index + match[0].length;
  }
  parent.append(text.slice(end));
}

/** Return where to cut a text that may have so many characters: after a line if there is one, never within a character. */
function cutBefore(text, most) {
  const line = text.lastIndexOf("\n", most - 1) + 1;
  const pair = /[\ud800-\udbff]/.test(text.charAt(most - 1)) && /[\udc00-\udfff]/.test(text.charAt(most));
  return line > most / 2 ? line : most - (pair ? 1 : 0);
}

/** Return parts as pieces of a bounded size: [[part, …], …]. */
function piecesOf(parts) {
  const pieces = [[]];
  let room = PIECE;
  for (const { text, tag } of parts) {
    let rest = text;
    while (rest.length > room) {
      const cut = room > 1 ? cutBefore(rest, room) : 0;
      pieces.at(-1).push({ text: rest.slice(0, cut), tag });
      pieces.push([]);
      rest = rest.slice(cut);
      room = PIECE;
    }
    pieces.at(-1).push({ text: rest, tag });
    room -= rest.length;
  }
  return pieces;
}

function fold(parts, most) {
  const kept = [];
  for (const part of parts) {
    const left = most - kept.reduce((sum, one) => sum + one.text.length, 0);
    if (part.text.length > left) return left > 1 ? [...kept, { ...part, text: part.text.slice(0, cutBefore(part.text, left)) }] : kept;
    kept.push(part);
  }
  return kept;
}

/**
 * Return an element that shows a text, folded where it is long.
 * parts: the text as [{text, tag}]; a part with a tag ("ins", "del") is wrapped in it.
 */
function textBlock(parts, unfolded = false) {
  const total = parts.reduce((sum, part) => sum + part.text.length, 0);
  const folded = !unfolded && total > FOLD;
  const block = element("div", { class: "text", dir: "auto" });
  const pieces = piecesOf(folded ? fold(parts, FOLD) : parts);
  for (const piece of pieces) {
    const target = element("div", { class: pieces.length > 1 ? "piece of-many" : "piece" });
    for (const { text, tag } of piece) {
      const inner = tag ? target.appendChild(element(tag)) : target;
      appendVisible(inner, text);
    }
    block.append(target);
  }
  if (!total) block.append(element("span", { class: "empty" }, "(nothing)"));
  if (!folded) return block;
  const unfold = () => wrapper.replaceWith(textBlock(parts, true));
  const label = `Show all ${total.toLocaleString("en")} characters`;
  const wrapper = element("div", {}, block, element("button", { type: "button", class: "more", onclick: unfold }, label));
  return wrapper;
}

/**
 * Return [parts of one, parts of other] with what is in one alone as "del" and what is in the other alone as "ins";
 * null where the two are too long, or too different, to be compared while somebody waits.
 */
function changes(one, other) {
  const found = Diff.diffWordsWithSpace(one, other, { timeout: 250 });
  if (!found) return null;
  const side = (tag, left) =>
    found.filter((part) => !part[left]).map((part) => ({ text: part.value, tag: part.added || part.removed ? tag : null }));
  return [side("del", "added"), side("ins", "removed")];
}

/** Return how many characters all texts begin with, up to the end of a word; 0 where that is little. */
function commonStart(all) {
  let [start = ""] = all;
  for (const text of all) {
    let same = 0;
    while (same < start.length && text[same] === start[same]) same++;
    start = start.slice(0, same);
  }
  const word = start.search(/\S*$/);
  return word > 20 && new Set(all).size > 1 ? word : 0;
}
