// Groups of all topics: how far behind, and who holds what until when.

import { get, to } from "../parts/api.js";
import { empty, filters, heading, link, more, state } from "../parts/blocks.js";
import { h, morph } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { leases } from "./topic.js";

const open = new Map();

export const title = () => "Groups";

export async function load(_, query) {
  const page = await get("/v1/ui/view/groups", query);
  for (const key of open.keys()) {
    const [topic, group] = JSON.parse(key);
    open.set(key, await get("/v1/ui/view/leases", { topic, group, limit: 50 }).catch(() => null));
  }
  return page;
}

export function show({ groups, after }, _, query) {
  return h(
    "div",
    {},
    heading("Groups", { lead: "Each group gets every message of its topic. Open a row to see who holds what until when." }),
    filters(to("groups"), [{ name: "match", label: "Topic or group contains", value: query.match, hint: "billing" }]),
    groups.length
      ? h("div", { class: "letters" }, groups.map(row))
      : empty("No groups yet", "A group exists from its first consumer on.", "driftq consume orders --group billing --max 1"),
    more(to("groups"), query, after),
  );
}

function row(group) {
  const key = JSON.stringify([group.topic, group.group]);
  const held = open.get(key);
  const inside = holders(held, group.topic);
  const toggled = async (event) => {
    if (!event.target.open) {
      open.delete(key);
      return;
    }
    if (open.has(key)) return;
    const found = await get("/v1/ui/view/leases", { topic: group.topic, group: group.group, limit: 50 });
    open.set(key, found);
    morph(event.target.querySelector(".inside"), holders(found, group.topic));
  };
  return h(
    "details",
    { class: "letter group", "data-key": key, ontoggle: toggled },
    h(
      "summary",
      {},
      h("span", { class: "grow" }, h("b", {}, group.group), " reads ", group.topic),
      h("span", { class: "figure" }, `lag ${count(group.lag)}`),
      h("span", { class: "figure" }, `${count(group.in_flight)} in flight`),
      group.stalled ? state("stalled", `${group.stalled} stalled`) : group.streams ? state("active", `${group.streams} reading`) : state("waiting", "no consumer"),
    ),
    inside,
  );
}


function holders(held, topic) {
  return h(
    "div",
    { class: "inside" },
    held ? leases(held, topic, true) : h("p", { class: "note" }, "Looking…"),
    h("p", { class: "pager" }, link(to("topics", topic), `Topic ${topic}`)),
  );
}
