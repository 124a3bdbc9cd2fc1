// The pieces that pages share: headings, tables, states, empty lists.

import { caller, may, withQuery } from "./api.js";
import { h } from "./dom.js";

const TONES = {
  ready: "calm",
  waiting: "calm",
  scheduled: "calm",
  blocked: "calm",
  claimed: "busy",
  in_flight: "busy",
  running: "busy",
  delivered: "busy",
  stored: "calm",
  done: "good",
  acked: "good",
  succeeded: "good",
  settled: "good",
  redriven: "good",
  ended: "calm",
  active: "good",
  nacked: "warn",
  expired: "warn",
  failed: "warn",
  stalled: "warn",
  paused: "warn",
  silent: "bad",
  target_away: "warn",
  stale: "calm",
  unknown: "bad",
  dead: "bad",
};

/** Tables with more columns than this become lists on a narrow screen. */
const STACKED_ABOVE = 5;

/** A state: a word with a colour, so that the colour alone says nothing. */
export function state(word, text) {
  return h("span", { class: `state ${TONES[word] ?? "calm"}` }, text ?? word.replaceAll("_", " "));
}

/** The one heading of a page, what it is, and what can be done here. */
export function heading(title, { kicker, lead, actions, badge } = {}) {
  return h(
    "div",
    { class: "heading" },
    h(
      "div",
      {},
      kicker && h("p", { class: "kicker" }, kicker),
      h("h1", { tabindex: "-1", id: "title" }, title, badge && " ", badge),
      lead && h("p", { class: "lead" }, lead),
    ),
    actions && h("div", { class: "actions" }, actions),
  );
}

export function link(href, text, attributes) {
  return h("a", { href, ...attributes }, text);
}

/** `columns`: {head, cell(row), number, wide, extra: not on a narrow screen}; `key(row)` keeps a row's identity over refreshes. */
export function table(label, columns, rows, key) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      { class: columns.length > STACKED_ABOVE ? "stacked" : null, role: "table" }, // The roles outlive a display of blocks.
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((one) => h("th", { scope: "col", role: "columnheader", class: kind(one) }, one.head)))),
      h(
        "tbody",
        { role: "rowgroup" },
        rows.map((row) =>
          h(
            "tr",
            { "data-key": key ? key(row) : null, role: "row" },
            columns.map((one) => h("td", { class: kind(one), "data-head": one.head, role: "cell" }, one.cell(row))),
          ),
        ),
      ),
    ),
  );
}

function kind(column) {
  return [column.number && "number", column.wide && "grow", column.extra && "extra"].filter(Boolean).join(" ") || null;
}

/** Names and values. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== false)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

export function section(title, ...children) {
  return h("section", { class: "card", "data-key": title }, h("h2", {}, title), children);
}

/** Nothing to show: why, and the next command to type. */
export function empty(title, text, ...commands) {
  return h(
    "div",
    { class: "empty" },
    h("p", { class: "empty-title" }, title),
    text && h("p", {}, text),
    commands.map((command) => h("pre", { class: "command", tabindex: "0" }, command)),
  );
}

export function more(path, query, after) {
  if (!after && !query.after) return null;
  return h(
    "p",
    { class: "pager" },
    query.after && link(withQuery(path, { ...query, after: undefined }), "First page"),
    after && link(withQuery(path, { ...query, after }), "Next page"),
  );
}

/** A form whose fields go into the address. */
export function filters(path, fields, submit = "Filter") {
  return h(
    "form",
    { class: "filters", method: "get", action: path, "data-filters": true },
    fields.map(({ name, label, value, options, hint, type }) =>
      h(
        "label",
        {},
        h("span", {}, label),
        options
          ? h(
              "select",
              { name },
              options.map(([word, text]) => h("option", { value: word, selected: word === (value ?? "") }, text)),
            )
          : h("input", { name, type: type ?? "text", value: value ?? "", placeholder: hint, autocomplete: "off", spellcheck: "false" }),
      ),
    ),
    h("button", { type: "submit" }, submit),
  );
}

/** A button for those who may; nothing for the others. */
export function action(role, text, onclick, attributes) {
  return may(role) ? h("button", { type: "button", onclick, ...attributes }, text) : null;
}

/** Why there are no buttons. */
export function readOnly(role, deeds) {
  if (may(role)) return null;
  return h("p", { class: "note", "data-read-only": true }, `Read only: the key “${caller.name}” lacks the role ${role}, which may ${deeds}.`);
}
