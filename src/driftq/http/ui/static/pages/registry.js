// The registry: claims of the pipeline's handlers, and those whose effect nobody knows.

import { optional, send, to } from "../parts/api.js";
import { action, empty, filters, heading, link, more, readOnly, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { short, when } from "../parts/format.js";

const STATES = ["unknown", "dead", "failed", "claimed", "ready", "done", "stale"];
const MEANINGS = {
  done: "The effect happened. The handler does not run for this event again.",
  retry: "The effect did not happen. The handler runs for this event again.",
};

export const title = () => "Registry";

export function load(_, query) {
  return optional("/v1/registry", { state: query.state, handler: query.handler, after: query.after, limit: 50 });
}

export function show(found, _, query, refresh) {
  return h(
    "div",
    {},
    heading("Registry", { lead: "A claim is a handler’s exclusive right to one event. UNKNOWN means: the handler died, and nobody can tell whether its effect happened." }),
    found === null ? empty("This server has no registry", "Its release does not show the claims of handlers. The command line does:", "driftq registry list --state unknown") : claims(found, query, refresh),
  );
}

function claims(found, query, refresh) {
  return [
    filters(to("registry"), [
      { name: "state", label: "State", value: query.state, options: [["", "All open"], ...STATES.map((word) => [word, word])] },
      { name: "handler", label: "Handler", value: query.handler, hint: "billing" },
    ]),
    readOnly("admin", "resolve claims"),
    found.claims.length
      ? table(
          "Claims",
          [
            { head: "Handler", cell: (row) => row.handler },
            { head: "State", cell: (row) => state(row.state, row.state === "unknown" ? "UNKNOWN" : row.state) },
            { head: "Event", wide: true, cell: event },
            { head: "Attempts", number: true, cell: (row) => row.attempts },
            { head: "Claimed", cell: (row) => [when(row.claimed_at), row.owner && [h("br"), h("small", {}, `by ${row.owner}`)]] },
            { head: "", cell: (row) => buttons(row, refresh) },
          ],
          found.claims,
          (row) => `${row.handler}/${row.event_id}`,
        )
      : query.state || query.handler
        ? empty("No claims here", "Choose another state or handler.")
        : empty("No claims here", "Claims appear while the pipeline’s workers run.", "driftq pipeline run worker --once --app app.py"),
    more(to("registry"), query, found.next),
  ];
}

function event(row) {
  const error = row.last_error || row.reason;
  return [
    row.aggregate_type ? link(to("events", row.aggregate_type, row.aggregate_id), row.event_id) : row.event_id,
    error && [h("br"), h("small", {}, short(error, 70))],
  ];
}

function buttons(row, refresh) {
  if (!["unknown", "dead"].includes(row.state)) return null;
  const again = row.state === "dead" ? "Retry" : "It did not";
  return h(
    "div",
    { class: "actions" },
    row.state === "unknown" && action("admin", "It happened", () => resolve(row, "done", refresh), { "aria-label": `It happened: the effect of ${row.handler} on ${row.event_id}` }),
    action("admin", again, () => resolve(row, "retry", refresh), { "aria-label": `${again}: run ${row.handler} for ${row.event_id} again` }),
  );
}

function resolve(row, as, refresh) {
  ask({
    title: `Resolve ${row.event_id}?`,
    body: h("div", {}, h("p", {}, MEANINGS[as]), h("p", { class: "note" }, `Handler ${row.handler}, last held by ${row.owner || "nobody"}.`)),
    label: as === "done" ? "Mark as done" : "Run again",
    act: async () => {
      await send("POST", "/v1/registry/resolve", { handler: row.handler, event_id: row.event_id, as });
      return `${row.event_id} is resolved.`;
    },
    done: refresh,
  });
}
