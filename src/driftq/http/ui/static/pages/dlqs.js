// The topics that have dead letters.

import { get, to } from "../parts/api.js";
import { empty, heading, link, table } from "../parts/blocks.js";
import { h } from "../parts/dom.js";
import { count, when } from "../parts/format.js";

export const title = () => "Dead letters";

export function load() {
  return get("/v1/dlq");
}

export function show({ dlqs }) {
  return h(
    "div",
    {},
    heading("Dead letters", { lead: "Messages that a group or handler has given up. They wait here until you redrive or purge them." }),
    dlqs.length
      ? table(
          "Topics with dead letters",
          [
            { head: "Topic", wide: true, cell: (row) => link(to("dlq", row.topic), row.topic) },
            { head: "Dead letters", number: true, cell: (row) => count(row.messages) },
            { head: "Oldest", cell: (row) => when(row.oldest_at) },
            { head: "Stored in", extra: true, cell: (row) => row.dlq_topic },
          ],
          dlqs,
          (row) => row.topic,
        )
      : empty("No dead letters", "A message becomes one when it has used its attempts, or when a consumer says that no retry can help.", "driftq nack orders 0 0 --group billing --owner me --no-retry --reason \"no such user\""),
  );
}
