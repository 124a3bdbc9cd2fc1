// Jobs, oldest first, by state and queue.

import { get, to } from "../parts/api.js";
import { empty, filters, heading, link, more, state, table } from "../parts/blocks.js";
import { h, live } from "../parts/dom.js";
import { count, short, when } from "../parts/format.js";
import { feed } from "../parts/live.js";

const STATES = [["", "Any state"], ["ready", "Ready"], ["scheduled", "Scheduled"], ["blocked", "Blocked"], ["in_flight", "In flight"], ["succeeded", "Succeeded"], ["dead", "Dead"]];

export const title = (_, query) => (query.state ? `Jobs: ${query.state.replace("_", " ")}` : "Jobs");

export function load(_, query) {
  const { queue, state: wanted, after } = query;
  return get("/v1/jobs", { queue, state: wanted, after, limit: 50 });
}

export function show({ jobs, after }, _, query) {
  return h(
    "div",
    {},
    heading("Jobs", { lead: counts() }),
    filters(to("jobs"), [
      { name: "state", label: "State", value: query.state, options: STATES },
      { name: "queue", label: "Queue", value: query.queue, hint: "mail" },
    ]),
    jobs.length ? list(jobs) : nothing(query),
    more(to("jobs"), query, after),
  );
}

function counts() {
  const now = feed.now?.jobs;
  if (!now) return "Work that runs once its time has come, and again until it succeeds.";
  const named = [["ready", "ready"], ["scheduled", "scheduled"], ["blocked", "blocked"], ["in_flight", "in flight"], ["dead", "dead"]];
  return named.flatMap(([name, text], number) => [number ? " · " : "", live(`jobs_${name}`, count(now[name])), ` ${text}`]);
}

function list(jobs) {
  return table(
    "Jobs",
    [
      { head: "Job", cell: (row) => link(to("jobs", row.job_id), row.job_id) },
      { head: "State", cell: (row) => state(row.state) },
      { head: "Queue", cell: (row) => row.queue },
      { head: "Task", wide: true, cell: (row) => row.task },
      { head: "Attempts", number: true, cell: (row) => row.attempts },
      { head: "Due", cell: (row) => when(row.run_at) },
      { head: "Last error", wide: true, cell: (row) => short(row.last_error, 60) },
    ],
    jobs,
    (row) => row.job_id,
  );
}

function nothing(query) {
  if (query.state || query.queue) return empty("No job matches", "Choose another state or queue.");
  return empty("No jobs yet", "A queue exists from its first job on.", "driftq job enqueue mail send '{\"to\": \"ada@example.com\"}'");
}
