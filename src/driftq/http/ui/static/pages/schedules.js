// Schedules: when each fires next, pause, resume and run now.

import { optional, part, send, to } from "../parts/api.js";
import { action, empty, heading, link, more, readOnly, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { count, minute, when } from "../parts/format.js";

export const title = () => "Schedules";

export function load(_, query) {
  return optional("/v1/schedules", { after: query.after, limit: 100 });
}

export function show(found, _, query, refresh) {
  return h(
    "div",
    {},
    heading("Schedules", { lead: "Jobs that are enqueued by the clock. Next and last are in your time zone." }),
    found === null
      ? empty("This server has no schedules", "It is of an earlier release. A delay is possible:", "driftq job enqueue mail digest --delay 60")
      : found.schedules.length
        ? [readOnly("admin", "pause and resume schedules"), list(found.schedules, refresh), more(to("schedules"), query, found.after)]
        : empty("No schedules yet", "In Python, decorate a task with @jobs.periodic. Or add one by hand:", "driftq schedule add nightly \"30 2 * * *\" reports build"),
  );
}

const MISSED = { skip: "missed fires are skipped", last: "the last missed fire counts", all: "all missed fires count" };

function list(schedules, refresh) {
  return table(
    "Schedules",
    [
      { head: "Schedule", wide: true, cell: (row) => [row.name, h("br"), h("small", {}, MISSED[row.missed])] },
      { head: "State", cell: (row) => state(row.paused ? "paused" : "active") },
      { head: "Cron", cell: (row) => [h("code", {}, row.cron), h("br"), h("small", {}, row.timezone)] },
      { head: "Job", cell: (row) => [row.task, h("br"), h("small", {}, link(`${to("jobs")}?queue=${part(row.queue)}`, row.queue))] },
      { head: "Next", cell: (row) => (row.next_at ? [when(row.next_at), h("br"), h("small", {}, minute(row.next_at))] : "–") },
      { head: "Last", cell: (row) => (row.last_at ? [when(row.last_at), row.last_job_id && [h("br"), h("small", {}, link(to("jobs", row.last_job_id), row.last_job_id))]] : "never") },
      { head: "Fired", number: true, cell: (row) => count(row.fired) },
      { head: "", cell: (row) => buttons(row, refresh) },
    ],
    schedules,
    (row) => row.name,
  );
}

function buttons(row, refresh) {
  const verb = row.paused ? "resume" : "pause";
  return h(
    "div",
    { class: "actions" },
    action("produce", "Run now", () => change(row, "run", "Run", "It fires once more, now. Its next regular time stays.", refresh), { "aria-label": `Run now: ${row.name}` }),
    action("admin", row.paused ? "Resume" : "Pause", () => change(row, verb, row.paused ? "Resume" : "Pause", row.paused ? "It fires again from its next time on." : "It does not fire until it is resumed. Jobs that it has made stay.", refresh), { "aria-label": `${row.paused ? "Resume" : "Pause"} ${row.name}` }),
  );
}

function change(row, verb, label, text, refresh) {
  ask({
    title: `${label} ${row.name}?`,
    body: h("p", {}, text),
    label,
    act: async () => {
      const answer = await send("POST", `/v1/schedules/${part(row.name)}/${verb}`);
      return verb === "run" ? `${answer.job_id} of ${row.name} is ${answer.state}.` : `${row.name} is ${answer.paused ? "paused" : "active"}.`;
    },
    done: refresh,
  });
}
