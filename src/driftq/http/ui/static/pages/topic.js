// One topic: partitions, groups, streams, who holds what, settings, and its messages.

import { get, lines, optional, part, to, withQuery } from "../parts/api.js";
import { empty, facts, filters, heading, link, section, state, table } from "../parts/blocks.js";
import { h } from "../parts/dom.js";
import { bytes, count, duration, exact, moment, short, when } from "../parts/format.js";
import { value } from "../parts/json.js";

const PAGE = 25;

export const title = ({ topic }) => `Topic ${topic}`;

export async function load({ topic }, query) {
  const [view, held] = await Promise.all([
    get(`/v1/topics/${part(topic)}`),
    get("/v1/ui/view/leases", { topic, limit: 50 }),
  ]);
  return { view, held, found: await messages(topic, view, query) };
}

/** By key, run or time the server's index answers; by offset, and without a filter, the log itself. */
async function messages(topic, view, query) {
  const next = Math.max(view.start_offset, ...view.partitions.map((one) => one.next_offset));
  if (query.key || query.run_id || query.since) {
    const { key, run_id, since, after } = query;
    const time = since ? new Date(since).toISOString() : undefined;
    const page = await optional(`/v1/topics/${part(topic)}/messages`, { key, run_id, since: time, after, limit: PAGE });
    return page === null ? { missing: true, rows: [] } : { rows: page.messages, after: page.next ?? page.after };
  }
  const from = query.offset ? Number(query.offset) || 0 : Math.max(view.start_offset, next - PAGE);
  const rows = await lines(`/v1/topics/${part(topic)}/records`, { from, to: from + PAGE });
  rows.sort((one, other) => other.offset - one.offset);
  return { rows, from, older: from > view.start_offset ? Math.max(view.start_offset, from - PAGE) : null, newer: query.offset && from + PAGE < next ? from + PAGE : null };
}

export function show({ view, held, found }, { topic }, query) {
  const total = view.partitions.reduce((sum, one) => sum + one.messages, 0);
  const size = view.partitions.reduce((sum, one) => sum + one.bytes, 0);
  return h(
    "div",
    {},
    heading(topic, { kicker: "Topic", lead: [`${count(total)} messages · ${bytes(size)} · `, link(to("dlq", topic), "dead letters")] }),
    h("div", { class: "columns even" }, section("Groups", groups(view.groups, topic)), section("Partitions", partitions(view.partitions))),
    section("Deliveries under lease", leases(held, topic)),
    view.streams.length > 0 && section("Open streams", streams(view.streams)),
    view.readers.length > 0 && section("Readers", readers(view.readers)),
    messageList(found, topic, query),
    section(
      "Settings",
      facts([
        ["Partitions", count(view.partitions.length)],
        ["Retention", held.retention_ms ? duration(held.retention_ms) : "none"],
        ["Retention by size", held.retention_bytes === null ? "none" : bytes(held.retention_bytes)],
        ["Created", Date.parse(held.created_at) ? moment(held.created_at) : null],
        ["First offset", count(view.start_offset)],
        ["Identity", view.id || null],
      ]),
    ),
  );
}

function groups(rows, topic) {
  if (!rows.length) return empty("No group reads this topic", null, `driftq consume ${topic} --group billing --max 1`);
  return table(
    "Groups of this topic",
    [
      { head: "Group", wide: true, cell: (row) => row.group },
      { head: "Partition", number: true, cell: (row) => row.partition },
      { head: "Settled below", number: true, cell: (row) => count(row.floor) },
      { head: "In flight", number: true, cell: (row) => count(row.in_flight) },
      { head: "Lag", number: true, cell: (row) => count(row.lag) },
    ],
    rows,
    (row) => `${row.group}/${row.partition}`,
  );
}

function partitions(rows) {
  return table(
    "Partitions",
    [
      { head: "Partition", cell: (row) => row.partition },
      { head: "Offsets", number: true, cell: (row) => (row.messages ? `${count(row.first_offset)}–${count(row.next_offset - 1)}` : "–") },
      { head: "Messages", number: true, cell: (row) => count(row.messages) },
      { head: "Size", number: true, cell: (row) => bytes(row.bytes) },
    ],
    rows,
    (row) => `p${row.partition}`,
  );
}

export function leases(held, topic, isOneGroup) {
  if (!held.leases.length) return h("p", { class: "calm-note" }, "Nobody holds a message of this topic.");
  return [
    table(
      "Deliveries under lease",
      [
        { head: "Offset", cell: (row) => link(to("messages", topic, row.offset), count(row.offset)) },
        !isOneGroup && { head: "Group", cell: (row) => row.group },
        { head: "Owner", wide: true, cell: (row) => row.owner },
        { head: "Attempt", number: true, cell: (row) => row.attempt },
        { head: "Lease ends", cell: (row) => when(row.lease_until) },
      ].filter(Boolean),
      held.leases,
      (row) => `${row.group}/${row.offset}`,
    ),
    held.in_flight > held.leases.length && h("p", { class: "note" }, `The first ${held.leases.length} of ${count(held.in_flight)} that end.`),
  ];
}

function streams(rows) {
  return table(
    "Open streams",
    [
      { head: "Owner", wide: true, cell: (row) => row.owner },
      { head: "Group", cell: (row) => row.group },
      { head: "In flight", number: true, cell: (row) => count(row.in_flight) },
      { head: "State", cell: (row) => state(row.stalled ? "stalled" : "active") },
    ],
    rows,
  );
}

function readers(rows) {
  return table(
    "Readers",
    [
      { head: "Reader", wide: true, cell: (row) => row.reader },
      { head: "Partition", number: true, cell: (row) => row.partition },
      { head: "Next offset", number: true, cell: (row) => count(row.next_offset) },
      { head: "Lag", number: true, cell: (row) => count(row.lag) },
    ],
    rows,
  );
}

function messageList(found, topic, query) {
  const path = to("topics", topic);
  const tenant = query.tenant ?? "";
  const rows = found.rows.filter((row) => !tenant || row.envelope?.tenant_id === tenant);
  return section(
    "Messages",
    filters(path, [
      { name: "key", label: "Key", value: query.key, hint: "user:1" },
      { name: "run_id", label: "Run", value: query.run_id, hint: "nightly-7" },
      { name: "tenant", label: "Tenant", value: query.tenant, hint: "acme" },
      { name: "offset", label: "From offset", value: query.offset, hint: "0" },
      { name: "since", label: "Since", value: query.since, type: "datetime-local" },
    ], "Find"),
    found.missing
      ? empty("This server has no index of messages", "It finds messages by offset only.")
      : rows.length
        ? h("div", { class: "letters" }, rows.map((row) => message(row, topic)))
        : empty("No messages here", null, `driftq produce ${topic} "two coffees" --key user:1`),
    h(
      "p",
      { class: "pager" },
      found.older !== null && found.older !== undefined && link(withQuery(path, { ...query, offset: String(found.older) }), "Older"),
      found.newer && link(withQuery(path, { ...query, offset: String(found.newer) }), "Newer"),
      query.offset && link(withQuery(path, { ...query, offset: undefined }), "Newest"),
      found.after && link(withQuery(path, { ...query, after: found.after }), "Next page"),
    ),
  );
}

function message(row, topic) {
  return h(
    "details",
    { class: "letter", "data-key": `m${row.offset}` },
    h(
      "summary",
      {},
      h("span", { class: "place" }, `${row.partition}:${row.offset}`),
      h("span", { class: "key" }, row.key || "no key"),
      h("span", { class: "preview" }, short(row.value, 120)),
      h("span", { class: "time", title: row.timestamp }, exact(row.timestamp).slice(11, 19)),
    ),
    value(row.value),
    row.envelope && h("div", {}, h("h3", {}, "Envelope"), value(row.envelope)),
    h("p", { class: "pager" }, link(to("messages", topic, row.offset), "Explain this message"), row.envelope?.run_id && link(to("runs", row.envelope.run_id), `Run ${row.envelope.run_id}`)),
  );
}
