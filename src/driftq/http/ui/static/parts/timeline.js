// What happened to a message, in order and in sentences.

import { to } from "./api.js";
import { link, state } from "./blocks.js";
import { h } from "./dom.js";
import { moment, plural } from "./format.js";

export function timeline(history, topic) {
  return h("ol", { class: "timeline" }, history.map((entry) => step(entry, topic)));
}

function step(entry, topic) {
  return h(
    "li",
    { class: entry.what },
    h("p", { class: "what" }, state(entry.what), " ", h("span", {}, sentence(entry, topic))),
    h("p", { class: "at" }, moment(entry.at)),
    (entry.reason || entry.last_error) && h("pre", { class: "text", tabindex: "0" }, entry.last_error || entry.reason),
  );
}

function sentence(entry, topic) {
  const group = entry.group && [" of group ", h("b", {}, entry.group)];
  const owner = entry.owner && h("b", {}, entry.owner);
  const attempt = entry.attempt ? `, attempt ${entry.attempt}` : "";
  switch (entry.what) {
    case "stored":
      if (entry.waits_until) return ["and durable; waits until ", moment(entry.waits_until)];
      return entry.dlq_offset === undefined ? "and durable" : `by a redrive of dead letter ${entry.dlq_offset}`;
    case "delivered":
      return ["to ", owner, group, attempt, ", lease until ", moment(entry.lease_until)];
    case "acked":
      return ["by ", owner ?? "its owner", group, attempt];
    case "nacked":
      return ["by ", owner ?? "its owner", group, attempt];
    case "expired":
      return ["at ", owner ?? "its owner", group, attempt, ": no ack before the lease ended"];
    case "dead":
      return ["after ", plural(entry.attempt ?? 0, "attempt"), group, entry.reason ? `: ${entry.reason.replaceAll("_", " ")}` : ""];
    case "redriven":
      return ["", entry.by ? ["by ", h("b", {}, entry.by)] : "", " as ", entry.new_offset === undefined ? "a new message" : link(to("messages", topic, entry.new_offset), `offset ${entry.new_offset}`)];
    case "released":
      return ["by ", owner ?? "its owner", group, attempt, ": its stream closed"];
    case "unstarted":
      return ["by ", owner ?? "its owner", group, attempt, ": returned before a handler began"];
    case "passed":
      return ["by group ", h("b", {}, entry.group), ": it is for another group"];
    default:
      return [owner, group, attempt];
  }
}
