// A value as text that folds: objects and lists open and close, strings are never more than text.

import { h } from "./dom.js";
import { plural } from "./format.js";

const SHOWN = 100;
const TEXT_MAX = 20_000;

/** What a message or job carries: JSON where it is JSON, else the text itself. */
export function value(given) {
  if (typeof given !== "string") return h("div", { class: "json" }, tree(given, 0));
  const parsed = parse(given);
  if (parsed !== undefined && typeof parsed === "object" && parsed !== null) {
    return h("div", { class: "json" }, tree(parsed, 0));
  }
  return h("pre", { class: "text", tabindex: "0" }, given === "" ? "(empty)" : cut(given));
}

function parse(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function cut(text) {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}… (${text.length} characters)` : text;
}

function tree(given, depth, name) {
  const label = name === undefined ? null : h("span", { class: "name" }, `${name}: `);
  if (given === null || typeof given !== "object") {
    const kind = given === null ? "null" : typeof given;
    return h("div", { class: "leaf" }, label, h("span", { class: kind }, cut(JSON.stringify(given))));
  }
  const isList = Array.isArray(given);
  const entries = Object.entries(given);
  const size = isList ? plural(entries.length, "entry", "entries") : plural(entries.length, "field");
  return h(
    "details",
    { open: depth < 2 && entries.length <= 20 },
    h("summary", {}, label, h("span", { class: "size" }, `${isList ? "list" : "object"}, ${size}`)),
    entries.slice(0, SHOWN).map(([key, inner]) => tree(inner, depth + 1, key)),
    entries.length > SHOWN && h("div", { class: "leaf" }, `… ${entries.length - SHOWN} more`),
  );
}
