// Events: the newest of the log, and the history of one aggregate.

import { get, lines, to } from "../parts/api.js";
import { empty, filters, heading, link, state, table } from "../parts/blocks.js";
import { h } from "../parts/dom.js";
import { count, exact, plural, when } from "../parts/format.js";
import { value } from "../parts/json.js";

const PAGE = 50;

export const title = ({ type, id }) => (type ? `${type} ${id}` : "Events");

export async function load({ type, id }, query) {
  if (type) return get("/v1/events", { aggregate_type: type, aggregate_id: id, from_seq: query.from_seq, limit: PAGE });
  const { position } = await get("/v1/events/log/end");
  const events = position ? await lines("/v1/events/log", { from: Math.max(1, position - PAGE + 1), limit: PAGE }) : [];
  return { events: events.reverse(), position };
}

export function show(found, { type, id }, query) {
  return type ? aggregate(found, type, id, query) : newest(found);
}

function newest({ events, position }) {
  return h(
    "div",
    {},
    heading("Events", { lead: `${plural(position, "event")} in the log, the newest first.` }),
    filters(to("events"), [{ name: "type", label: "Aggregate type", hint: "order" }, { name: "id", label: "Aggregate id", hint: "o-1" }], "Show"),
    events.length
      ? table(
          "Newest events",
          [
            { head: "Position", number: true, cell: (row) => count(row.position) },
            { head: "Aggregate", wide: true, cell: (row) => link(to("events", row.aggregate_type, row.aggregate_id), `${row.aggregate_type} ${row.aggregate_id}`) },
            { head: "Sequence", number: true, cell: (row) => row.sequence_number },
            { head: "Event", wide: true, cell: (row) => row.event_type },
            { head: "Operation", cell: (row) => row.operation },
            { head: "Occurred", cell: (row) => when(row.occurred_at) },
          ],
          events,
          (row) => row.event_id,
        )
      : empty("No events yet", "An event belongs to an aggregate and has a place in its sequence.", "driftq event append order o-1 order.opened '{\"total\": 12}' --operation create"),
  );
}

function aggregate({ events, next_seq }, type, id, query) {
  return h(
    "div",
    {},
    heading(`${type} ${id}`, { kicker: [link(to("events"), "Events"), " of aggregate"], lead: events.length ? `Sequence ${events[0].sequence_number} to ${events.at(-1).sequence_number}` : null }),
    events.length
      ? h("ol", { class: "timeline card" }, events.map((event) => one(event)))
      : empty("This aggregate has no events", null, `driftq event append ${type} ${id} ${type}.opened '{}' --operation create`),
    (next_seq || query.from_seq) &&
      h("p", { class: "pager" }, query.from_seq && link(to("events", type, id), "From the first"), next_seq && link(`${to("events", type, id)}?from_seq=${next_seq}`, "Later events")),
  );
}

function one(event) {
  return h(
    "li",
    { class: event.operation, "data-key": event.event_id },
    h("p", { class: "what" }, state("stored", `#${event.sequence_number}`), " ", h("b", {}, event.event_type), h("span", { class: "note" }, ` ${event.operation}`)),
    h("p", { class: "at" }, exact(event.occurred_at), ` · ${event.event_id}`),
    value(event.payload),
    Object.keys(event.metadata ?? {}).length > 0 && h("details", {}, h("summary", {}, "Metadata"), value(event.metadata)),
  );
}
