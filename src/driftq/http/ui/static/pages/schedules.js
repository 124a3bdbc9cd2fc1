// Schedules: when each fires next, pause, resume and run now.

import { optional, part, send } from "../parts/api.js";
import { action, empty, heading, readOnly, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { moment, when } from "../parts/format.js";

export const title = () => "Schedules";

export function load() {
  return optional("/v1/schedules");
}

export function show(found, _, __, refresh) {
  return h(
    "div",
    {},
    heading("Schedules", { lead: "Jobs that are enqueued by the clock. Next and last are in your time zone." }),
    found === null
      ? empty("This server has no schedules", "Its release cannot run jobs by the clock yet. A delay is possible:", "driftq job enqueue mail digest --delay 60")
      : found.schedules.length
        ? [readOnly("admin", "pause and resume schedules"), list(found.schedules, refresh)]
        : empty("No schedules yet", "A schedule enqueues a job at the times of its cron expression.", "driftq schedule add nightly '30 2 * * *' reports build --timezone Europe/Berlin"),
  );
}

function list(schedules, refresh) {
  return table(
    "Schedules",
    [
      { head: "Schedule", wide: true, cell: (row) => row.name },
      { head: "State", cell: (row) => state(row.paused ? "paused" : "active") },
      { head: "Cron", cell: (row) => h("code", {}, row.cron) },
      { head: "Time zone", cell: (row) => row.timezone },
      { head: "Next", cell: (row) => (row.next_at ? [when(row.next_at), h("br"), h("small", {}, moment(row.next_at))] : "–") },
      { head: "Last", cell: (row) => (row.last_at ? when(row.last_at) : "never") },
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
      await send("POST", `/v1/schedules/${part(row.name)}/${verb}`);
      return `${row.name}: ${verb} done.`;
    },
    done: refresh,
  });
}
