// One message: what it holds, where each group stands with it, and everything that happened to it.

import { get, part, to } from "../parts/api.js";
import { empty, facts, heading, link, section, state, table } from "../parts/blocks.js";
import { h } from "../parts/dom.js";
import { moment } from "../parts/format.js";
import { value } from "../parts/json.js";
import { timeline } from "../parts/timeline.js";

export const title = ({ topic, offset }) => `Message ${offset} of ${topic}`;

export function load({ topic, offset }) {
  return get(`/v1/messages/${part(topic)}/${part(offset.split(":").at(-1))}`);
}

export function show(message) {
  const { topic, envelope, routing } = message;
  return h(
    "div",
    {},
    heading(`${topic} / ${message.offset}`, { kicker: ["Message of ", link(to("topics", topic), topic)], lead: ["Partition ", String(message.partition), ", stored ", moment(message.produced_at)] }),
    h(
      "div",
      { class: "columns" },
      section("What happened", timeline(message.history, topic)),
      h(
        "div",
        { class: "stack" },
        section("Groups", groups(message.groups, topic)),
        section("Value", message.key !== "" && facts([["Key", message.key]]), value(message.value)),
        envelope && section("Envelope", envelope.run_id && h("p", {}, link(to("runs", envelope.run_id), `Run ${envelope.run_id}`)), value(envelope)),
        routing && section("Routing", value(routing)),
      ),
    ),
  );
}

function groups(rows, topic) {
  if (!rows.length) return empty("No group reads this topic", "The message waits for the first one.", `driftq consume ${topic} --group billing --max 1`);
  return [
    table(
      "Groups",
      [
        { head: "Group", wide: true, cell: (row) => row.group },
        { head: "State", cell: (row) => state(row.state) },
        { head: "Attempts", number: true, cell: (row) => row.attempts },
      ],
      rows,
      (row) => row.group,
    ),
    rows.filter((row) => row.last_error).map((row) => h("div", {}, h("h3", {}, `Last error of ${row.group}`), h("pre", { class: "text", tabindex: "0" }, row.last_error))),
    rows.some((row) => row.state === "dead") && h("p", { class: "pager" }, link(to("dlq", topic), "To its dead letter")),
  ];
}
