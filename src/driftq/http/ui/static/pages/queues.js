// Queues of jobs: how full, how old, their limits, pause and resume.

import { optional, part, send, to } from "../parts/api.js";
import { action, empty, heading, link, readOnly, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { count, duration } from "../parts/format.js";

export const title = () => "Queues";

export function load() {
  return optional("/v1/queues");
}

export function show(found, _, __, refresh) {
  return h(
    "div",
    {},
    heading("Queues", { lead: "Where jobs wait for workers." }),
    found === null
      ? empty("This server has no queue limits", "Its jobs are listed by queue all the same.", `${location.origin}${to("jobs")}`)
      : found.queues.length
        ? [readOnly("admin", "pause queues"), list(found.queues, refresh)]
        : empty("No queues yet", "A queue exists from its first job on.", "driftq job enqueue mail send '{\"to\": \"ada@example.com\"}'"),
  );
}

function list(queues, refresh) {
  return table(
    "Queues",
    [
      { head: "Queue", wide: true, cell: (row) => link(`${to("jobs")}?queue=${part(row.queue)}`, row.queue) },
      { head: "State", cell: (row) => state(row.paused ? "paused" : "active") },
      { head: "Ready", number: true, cell: (row) => count(row.ready) },
      { head: "Scheduled", number: true, cell: (row) => count(row.scheduled) },
      { head: "In flight", number: true, cell: (row) => count(row.in_flight) },
      { head: "Dead", number: true, cell: (row) => (row.dead ? link(`${to("jobs")}?queue=${part(row.queue)}&state=dead`, count(row.dead)) : "0") },
      { head: "Oldest", number: true, cell: (row) => duration(row.oldest_age_ms) },
      { head: "Limits", wide: true, cell: (row) => limits(row.limits) },
      { head: "", cell: (row) => action("admin", row.paused ? "Resume" : "Pause", () => toggle(row, refresh), { "aria-label": `${row.paused ? "Resume" : "Pause"} ${row.queue}` }) },
    ],
    queues,
    (row) => row.queue,
  );
}

function limits(given) {
  if (!given) return "none";
  const said = [
    given.concurrency && `${count(given.concurrency)} at once`,
    given.rate && `${count(given.rate.count)} per ${duration(given.rate.per_ms)}`,
    given.per_key?.concurrency && `${count(given.per_key.concurrency)} at once per key`,
    given.per_key?.rate && `${count(given.per_key.rate.count)} per ${duration(given.per_key.rate.per_ms)} and key`,
  ].filter(Boolean);
  return said.length ? said.map((text, place) => [place > 0 && h("br"), text]) : "none";
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
