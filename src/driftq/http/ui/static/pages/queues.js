// Queues of jobs: how full, how old, their limits, pause and resume.

import { optional, part, send, to } from "../parts/api.js";
import { action, empty, heading, link, more, readOnly, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { count, duration } from "../parts/format.js";

export const title = () => "Queues";

export function load(_, query) {
  return optional("/v1/queues", { after: query.after, limit: 100 });
}

export function show(found, _, query, refresh) {
  return h(
    "div",
    {},
    heading("Queues", { lead: "Where jobs wait for workers." }),
    found === null
      ? empty("This server has no queue limits", "Its jobs are listed by queue all the same.", `${location.origin}${to("jobs")}`)
      : found.queues.length
        ? [readOnly("admin", "limit and pause queues"), list(found.queues, refresh), more(to("queues"), query, found.after)]
        : empty("No queues yet", "A queue exists from its first job on.", "driftq job enqueue mail send '{\"to\": \"ada@example.com\"}'"),
  );
}

function list(queues, refresh) {
  return table(
    "Queues",
    [
      { head: "Queue", wide: true, cell: (row) => link(`${to("jobs")}?queue=${part(row.queue)}`, row.queue) },
      { head: "State", cell: (row) => state(row.paused ? "paused" : "active") },
      { head: "Limits", cell: (row) => lines(row.limits) },
      { head: "Ready", number: true, cell: (row) => count(row.ready) },
      { head: "Scheduled", number: true, cell: (row) => count(row.scheduled) },
      { head: "Blocked", number: true, cell: (row) => (row.blocked ? link(`${to("jobs")}?queue=${part(row.queue)}&state=blocked`, count(row.blocked)) : "0") },
      { head: "In flight", number: true, cell: (row) => count(row.in_flight) },
      { head: "Dead", number: true, cell: (row) => (row.dead ? link(`${to("jobs")}?queue=${part(row.queue)}&state=dead`, count(row.dead)) : "0") },
      { head: "Oldest", number: true, cell: (row) => duration(row.oldest_age_ms) },
      { head: "", cell: (row) => buttons(row, refresh) },
    ],
    queues,
    (row) => row.queue,
  );
}

function buttons(row, refresh) {
  return h(
    "div",
    { class: "actions" },
    action("admin", "Limit", () => limit(row, refresh), { "aria-label": `Limit ${row.queue}` }),
    action("admin", row.paused ? "Resume" : "Pause", () => toggle(row, refresh), { "aria-label": `${row.paused ? "Resume" : "Pause"} ${row.queue}` }),
  );
}

function lines(given) {
  const said = words(given);
  return said.length ? said.map((text, number) => h("small", {}, number ? h("br") : null, text)) : "–";
}

function limits(given) {
  const said = words(given);
  return said.length ? said.join(", ") : "none";
}

function words(given) {
  return [
    given.concurrency && `${count(given.concurrency)} at once`,
    given.rate && `${count(given.rate.count)} per ${duration(given.rate.per_ms)}`,
    given.per_key?.concurrency && `${count(given.per_key.concurrency)} at once per key`,
    given.per_key?.rate && `${count(given.per_key.rate.count)} per ${duration(given.per_key.rate.per_ms)} and key`,
  ].filter(Boolean);
}

function toggle(row, refresh) {
  const verb = row.paused ? "resume" : "pause";
  ask({
    title: row.paused ? `Resume ${row.queue}?` : `Pause ${row.queue}?`,
    body: h("p", {}, row.paused ? `Workers get its ${count(row.ready)} ready jobs again.` : "Workers get no more jobs of it. Jobs in flight go on, new ones are stored, nothing is lost."),
    label: row.paused ? "Resume" : "Pause",
    act: async () => {
      await send("POST", `/v1/queues/${part(row.queue)}/${verb}`);
      return `${row.queue} is ${row.paused ? "resumed" : "paused"}.`;
    },
    done: refresh,
  });
}

/** The form has all limits; an empty field is none. */
function limit(row, refresh) {
  const { concurrency, rate, per_key } = row.limits;
  ask({
    title: `Limit ${row.queue}`,
    body: h(
      "div",
      { class: "fields" },
      h("p", {}, "The server keeps the limits over all workers. Jobs in flight go on. An empty field is no limit."),
      field("concurrency", "Jobs at once", concurrency),
      field("key_concurrency", "Jobs at once, of one limit key", per_key?.concurrency),
      field("rate_count", "Claims", rate?.count),
      field("rate_s", "in any window of seconds", rate && rate.per_ms / 1000),
      field("key_rate_count", "Claims, of one limit key", per_key?.rate?.count),
      field("key_rate_s", "in any window of seconds", per_key?.rate && per_key.rate.per_ms / 1000),
    ),
    label: "Set the limits",
    act: async (given) => {
      const key = bounds(given.key_concurrency, given.key_rate_count, given.key_rate_s);
      const wanted = bounds(given.concurrency, given.rate_count, given.rate_s);
      if (Object.keys(key).length) wanted.per_key = key;
      const { limits: kept } = await send("PUT", `/v1/queues/${part(row.queue)}/limits`, wanted);
      return `${row.queue}: ${limits(kept) === "none" ? "no limits" : limits(kept)}.`;
    },
    done: refresh,
  });
}

function field(name, label, value) {
  return h("label", {}, h("span", {}, label), h("input", { name, type: "number", min: "0.001", step: "any", value: value ?? "" }));
}

function bounds(concurrency, claims, seconds) {
  const wanted = {};
  if (concurrency) wanted.concurrency = Number(concurrency);
  if (claims || seconds) wanted.rate = { count: Number(claims), per_ms: Math.round(Number(seconds) * 1000) };
  return wanted;
}
