// Topics by name, with their load.

import { get, to } from "../parts/api.js";
import { empty, filters, heading, link, more, table } from "../parts/blocks.js";
import { h } from "../parts/dom.js";
import { bytes, count } from "../parts/format.js";

export const title = () => "Topics";

export function load(_, query) {
  return get("/v1/ui/view/topics", query);
}

export function show({ topics, after }, _, query) {
  return h(
    "div",
    {},
    heading("Topics", { lead: "What producers write to and groups read from." }),
    filters(to("topics"), [{ name: "match", label: "Name contains", value: query.match, hint: "orders" }]),
    topics.length
      ? table(
          "Topics",
          [
            { head: "Topic", wide: true, cell: (row) => link(to("topics", row.topic), row.topic) },
            { head: "Partitions", number: true, cell: (row) => count(row.partitions) },
            { head: "Messages", number: true, cell: (row) => count(row.messages) },
            { head: "Size", number: true, cell: (row) => bytes(row.bytes) },
            { head: "Groups", number: true, cell: (row) => count(row.groups) },
            { head: "Streams", number: true, cell: (row) => count(row.streams) },
            { head: "In flight", number: true, cell: (row) => count(row.in_flight) },
            { head: "Lag", number: true, cell: (row) => count(row.lag) },
            { head: "Dead letters", number: true, cell: (row) => (row.dead_letters ? link(to("dlq", row.topic), count(row.dead_letters)) : "0") },
          ],
          topics,
          (row) => row.topic,
        )
      : nothing(query),
    more(to("topics"), query, after),
  );
}

function nothing(query) {
  if (query.match) return empty(`No topic contains “${query.match}”`);
  return empty("No topics yet", "A topic has partitions, and keeps its messages for a week by default.", "driftq topic create orders --partitions 3");
}
