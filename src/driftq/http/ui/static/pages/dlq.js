// The dead letters of one topic: why each was given up, its attempts, redrive and purge.

import { caller, get, may, optional, part, send, to } from "../parts/api.js";
import { action, empty, facts, heading, link, more, readOnly, state } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h, morph } from "../parts/dom.js";
import { count, moment, plural, short, when } from "../parts/format.js";
import { value } from "../parts/json.js";
import { timeline } from "../parts/timeline.js";

const PAGE = 50;
const chosen = new Set();
const histories = new Map();

export const title = ({ topic }) => `Dead letters of ${topic}`;

export async function load({ topic }, query) {
  try {
    const { messages } = await get(`/v1/dlq/${part(topic)}`, { limit: PAGE, after: query.after });
    return messages;
  } catch (error) {
    if (error.status === 404) return [];
    throw error;
  }
}

export function show(letters, { topic }, query, refresh) {
  const offsets = letters.filter((one) => chosen.has(one.offset)).map((one) => one.offset);
  return h(
    "div",
    {},
    heading(topic, {
      kicker: [link(to("dlq"), "Dead letters"), " of"],
      lead: link(to("topics", topic), `Topic ${topic}`),
      actions: letters.length > 0 && [
        action("admin", offsets.length ? `Redrive ${offsets.length}…` : "Redrive all…", () => redrive(topic, offsets, refresh), { class: "primary" }),
        action("admin", offsets.length ? `Purge ${offsets.length}…` : "Purge all…", () => purge(topic, offsets, refresh), { class: "danger" }),
      ],
    }),
    letters.length > 0 && readOnly("admin", "redrive and purge dead letters"),
    letters.length
      ? h("div", { class: "letters" }, letters.map((one) => letter(one, topic, refresh)))
      : empty(`No dead letters of ${topic}`, "When a message has used its attempts, it is kept here with the history of each."),
    more(to("dlq", topic), query, letters.length === PAGE ? String(letters.at(-1).offset) : null),
  );
}

function letter(one, topic, refresh) {
  const dlq = one.envelope?.dlq ?? {};
  const from = dlq.kind ? `${dlq.kind} ${dlq.group}` : `group ${dlq.group ?? "unknown"}`;
  const toggled = async (event) => {
    if (!event.target.open || histories.has(one.offset) || dlq.kind) return;
    const found = await optional(`/v1/messages/${part(topic)}/${dlq.original_offset}`).catch(() => null);
    histories.set(one.offset, found);
    morph(event.target.querySelector(".history"), history(one, topic));
  };
  return h(
    "div",
    { class: "letter-row", "data-key": `l${one.offset}` },
    may("admin") &&
      h("input", {
        type: "checkbox",
        "aria-label": `Select dead letter ${one.offset}`,
        checked: chosen.has(one.offset),
        disabled: Boolean(one.redriven_at),
        onchange: (event) => {
          if (event.target.checked) chosen.add(one.offset);
          else chosen.delete(one.offset);
          refresh();
        },
      }),
    h(
      "details",
      { class: "letter", ontoggle: toggled },
      h(
        "summary",
        {},
        h("span", { class: "place" }, String(one.offset)),
        h("span", { class: "key" }, one.key || "no key"),
        h("span", { class: "preview" }, short(dlq.last_error || dlq.reason || "", 110)),
        one.redriven_at ? state("redriven") : state("dead", (dlq.reason ?? "dead").replaceAll("_", " ")),
        h("span", { class: "time" }, when(dlq.at)),
      ),
      facts([
        ["Given up by", from],
        ["Reason", dlq.reason?.replaceAll("_", " ")],
        ["Attempts", dlq.attempts],
        ["At", dlq.at && moment(dlq.at)],
        ["Original message", dlq.original_offset !== undefined && link(to("messages", topic, dlq.original_offset), `${dlq.original_partition}:${dlq.original_offset}`)],
        ["Redriven", one.redriven_at && moment(one.redriven_at)],
        ["Stage", dlq.stage],
        ["Event", dlq.event_id],
      ]),
      dlq.last_error && [h("h3", {}, "Last error"), h("pre", { class: "text", tabindex: "0" }, dlq.last_error)],
      h("h3", {}, "Value"),
      value(one.value),
      history(one, topic),
    ),
  );
}

function history(one, topic) {
  const found = histories.get(one.offset);
  return h("div", { class: "history" }, found && [h("h3", {}, "History of attempts"), timeline(found.history, topic)], found === null && h("p", { class: "note" }, "The original message is no longer stored."));
}

function redrive(topic, offsets, refresh) {
  const wanted = offsets.length ? { offsets } : {};
  const path = `/v1/dlq/${part(topic)}/redrive`;
  ask({
    title: offsets.length ? `Redrive ${plural(offsets.length, "dead letter")}?` : `Redrive all dead letters of ${topic}?`,
    label: "Redrive",
    look: async () => {
      const tried = await send("POST", path, { ...wanted, dry_run: true });
      const kept = (tried.skipped ?? []).length;
      const ready = Math.max(0, tried.matched - kept);
      return {
        refused: ready === 0,
        label: `Redrive ${count(ready)}`,
        body: h(
          "div",
          {},
          h("p", {}, `A dry run found ${plural(tried.matched, "dead letter")}, of which ${count(ready)} can be redriven.`),
          kept > 0 && h("ul", {}, reasons(tried.skipped)),
          h("p", {}, "Each goes back to the group that gave it up, once, as a new message with fresh attempts. The dead letter stays, marked as redriven."),
          h("label", { class: "field" }, h("span", {}, "At most per second"), h("input", { name: "rate", type: "number", min: "1", placeholder: "no limit" })),
        ),
      };
    },
    act: async ({ rate }) => {
      const body = { ...wanted, by: caller.name || "dashboard" };
      if (rate) body.rate_per_s = Number(rate);
      const done = await send("POST", path, body);
      chosen.clear();
      histories.clear();
      return `${plural(done.redriven, "dead letter")} redriven.`;
    },
    done: refresh,
  });
}

function reasons(skipped) {
  const counted = new Map();
  for (const one of skipped) counted.set(one.reason, (counted.get(one.reason) ?? 0) + 1);
  return [...counted].map(([reason, number]) => h("li", {}, `${number} left out: ${reason.replaceAll("_", " ")}`));
}

function purge(topic, offsets, refresh) {
  const wanted = offsets.length ? { offsets } : {};
  const path = `/v1/dlq/${part(topic)}/purge`;
  ask({
    title: offsets.length ? `Purge ${plural(offsets.length, "dead letter")}?` : `Purge all dead letters of ${topic}?`,
    label: "Purge",
    danger: true,
    look: async () => {
      const tried = await send("POST", path, { ...wanted, dry_run: true });
      return {
        refused: tried.matched === 0,
        label: `Purge ${count(tried.matched)}`,
        body: h("p", {}, `${plural(tried.matched, "dead letter")} will be deleted for good. The original messages stay as long as their topic keeps them.`),
      };
    },
    act: async () => {
      const done = await send("POST", path, wanted);
      chosen.clear();
      return `${plural(done.purged, "dead letter")} purged.`;
    },
    done: refresh,
  });
}
