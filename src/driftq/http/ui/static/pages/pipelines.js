// Pipelines: what each driver reported last.

import { optional } from "../parts/api.js";
import { empty, facts, heading, state } from "../parts/blocks.js";
import { h, live } from "../parts/dom.js";
import { count, duration, rate, when } from "../parts/format.js";

export const title = () => "Pipelines";

export function load() {
  return optional("/v1/pipelines");
}

export function show(found) {
  return h(
    "div",
    {},
    heading("Pipelines", { lead: "Jobs on Spark and relays of outboxes report what they do, and while they wait." }),
    found === null
      ? empty("This server takes no reports of pipelines", "The command line shows them:", "driftq pipeline status")
      : found.pipelines.length
        ? h("div", { class: "grid pipelines" }, found.pipelines.map(card))
        : empty("No pipeline has reported", "Start one beside the server:", "driftq pipeline run publisher projection", "driftq outbox run --database URL"),
  );
}

function card(one) {
  const isOutbox = one.kind === "outbox";
  const named = (field, text) => live(`${one.name}.${field}`, text);
  return h(
    "section",
    { class: "card", "data-key": one.name },
    h("h2", {}, one.name, " ", state(one.state)),
    h("p", { class: "note" }, `${one.kind}, reported `, when(one.reported_at)),
    one.error && h("pre", { class: "text", tabindex: "0" }, one.error),
    facts([
      ["Rows per second", one.rows_per_second !== undefined && named("rows_per_second", rate(one.rows_per_second))],
      [isOutbox ? "Rows that wait" : "Lag", named("lag", count(one.lag))],
      [isOutbox ? "Last position" : "Last batch", named("last_batch", count(one.last_batch))],
      ["Rows of the batch", one.batch_rows !== undefined && count(one.batch_rows)],
      ["Time of the batch", one.batch_ms !== undefined && duration(one.batch_ms)],
      [isOutbox ? "Rows sent" : "Rows in all", one.rows !== undefined && count(one.rows)],
      [isOutbox ? "Parked rows" : "Dead letters", one.dead_letters ? count(one.dead_letters) : null],
      ["Restarts", one.restarts ? count(one.restarts) : null],
      ["Checkpoint", one.checkpoint],
      ["Targets", one.sinks?.join(", ")],
      [isOutbox ? "Relay" : "Driver", one.driver],
    ]),
  );
}
