"use strict";
// Texts of models are hostile until shown otherwise. They reach the page as text nodes alone, and what an eye
// would not see, or would see in another order, is spelled out.

// Control and format characters (bidirectional marks, zero widths), lone surrogates, private use, separators of lines; but for
// line feeds, tabs, and the joiners that words of some scripts and emoji are written with. As in agon_env/printable.py.
const UNSEEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
const FOLD = 6000; // characters of one text that are shown before somebody asks for more
const MOST_MARKS = 5000; // elements for unseen characters in one text; further ones are spelled out as plain text

function codeOf(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** Return the text with unseen characters spelled out. */
function visible(text) {
  return text.replace(UNSEEN, (character) => "⟨" + codeOf(character) + "⟩");
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
  let marks = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (++marks > MOST_MARKS) break;
    parent.append(text.slice(end, match.index), element("span", { class: "unseen" }, codeOf(match[0])));
    end = match.index + match[0].length;
  }
  parent.append(marks > MOST_MARKS ? visible(text.slice(end)) : text.slice(end));
}

/**
 * Show a text that was cut into parts, folded where it is long.
 * parts: [{text, tag}]; a part with a tag ("ins", "del") is wrapped in it.
 */
function textBlock(parts, unfolded) {
  const block = element("div", { class: "text", dir: "auto" });
  const total = parts.reduce((sum, part) => sum + part.text.length, 0);
  let left = unfolded || total <= FOLD ? Infinity : FOLD;
  for (const part of parts) {
    if (left <= 0) break;
    const shown = part.text.slice(0, left);
    left -= shown.length;
    const target = part.tag ? element(part.tag) : block;
    appendVisible(target, shown);
    if (part.tag) block.append(target);
  }
  if (!total) block.append(element("span", { class: "empty" }, "(nothing)"));
  if (left > 0) return block;
  const more = element(
    "button",
    { type: "button", class: "more", onclick: () => wrapper.replaceWith(textBlock(parts, true)) },
    `Show all ${total.toLocaleString("en")} characters`,
  );
  const wrapper = element("div", {}, block, more);
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
