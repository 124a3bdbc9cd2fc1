// The overview: what the server does now, and what needs a person.

import { optional, to } from "../parts/api.js";
import { empty, heading, link, section, table } from "../parts/blocks.js";
import { chart } from "../parts/charts.js";
import { h, live } from "../parts/dom.js";
import { count, duration, plural, rate } from "../parts/format.js";
import { feed } from "../parts/live.js";

const SELDOM_MS = 5_000;
let seldom = { at: 0, claims: [], pipelines: [] };

export const title = () => "Overview";

export function load() {
  if (Date.now() - seldom.at > SELDOM_MS) look();
  return { now: feed.now, points: feed.points, ...seldom };
}

/** The page does not wait for these: they come with a later tick. */
async function look() {
  seldom.at = Date.now();
  const [claims, pipelines] = await Promise.all([
    optional("/v1/registry", { state: "unknown", limit: 100 }).catch(() => null),
    optional("/v1/pipelines").catch(() => null),
  ]);
  seldom = { at: Date.now(), claims: claims?.claims ?? [], pipelines: pipelines?.pipelines ?? [] };
}

export function show({ now, points, claims, pipelines }) {
  if (now === null) return h("div", {}, heading("Overview"), h("p", { class: "note" }, "Waiting for the first numbers…"));
  const end = Date.parse(now.at);
  return h(
    "div",
    {},
    heading("Overview", { lead: summary(now) }),
    now.topics === 0 && now.jobs?.ready === 0 && welcome(),
    h(
      "div",
      { class: "grid" },
      chart({
        title: "Throughput",
        note: "messages per second",
        wide: true,
        points,
        end,
        series: [
          { name: "produced_per_s", label: "Produced", value: (point) => point.produced, text: rate },
          { name: "acked_per_s", label: "Acked", value: (point) => point.acked, text: rate },
        ],
      }),
      chart({ title: "Latency", note: "of the broker’s answers", points, end, series: [{ name: "answer_ms", label: "Answer", value: (point) => point.answer_ms, text: duration }] }),
      chart({ title: "Lag", note: "messages not yet settled", points, end, series: [{ name: "lag", label: "Lag", value: (point) => point.lag, text: count }] }),
      chart({ title: "In flight", note: "deliveries under lease", points, end, series: [{ name: "in_flight", label: "In flight", value: (point) => point.in_flight, text: count }] }),
      chart({ title: "Dead letters", note: "waiting for a decision", points, end, series: [{ name: "dead_letters", label: "Dead letters", value: (point) => point.dead_letters, text: count }] }),
    ),
    h("div", { class: "columns" }, section("What needs attention", attention(now, claims, pipelines)), h("div", { class: "stack" }, jobs(now.jobs), section("Largest lag", slowest(now.slowest)))),
  );
}

function summary(now) {
  return [
    live("topics", plural(now.topics, "topic")),
    " · ",
    live("messages", plural(now.messages, "message")),
    " · ",
    live("groups", plural(now.groups, "group")),
    " · ",
    live("streams", plural(now.streams, "open stream")),
  ];
}

function welcome() {
  return h(
    "section",
    { class: "card", "data-key": "welcome" },
    h("h2", {}, "Start here"),
    empty(
      "This server has no topics yet",
      "Create one, send a message and read it. This page shows each step as it happens.",
      "driftq topic create orders --partitions 3",
      "driftq produce orders \"two coffees\" --key user:1",
      "driftq consume orders --group billing --max 1",
    ),
  );
}

const TROUBLES = { silent: "does not report", failed: "has failed", target_away: "waits for a target that is away" };

function attention(now, claims, pipelines) {
  const found = [
    ...claims.map((claim) => ["unknown", to("registry"), `The effect of ${claim.handler} on event ${claim.event_id} is unknown`, "Resolve it"]),
    ...(now.unknown_steps ? [["unknown", to("runs"), `${plural(now.unknown_steps, "step")} of runs ${now.unknown_steps === 1 ? "has" : "have"} an unknown outcome`, "Resolve"]] : []),
    ...now.dead_letter_topics.map((one) => ["dead", to("dlq", one.topic), `${plural(one.messages, "dead letter")} of ${one.topic}`, "Redrive or purge"]),
    ...(now.jobs?.dead ? [["dead", `${to("jobs")}?state=dead`, `${plural(now.jobs.dead, "dead job")}`, "Retry or leave"]] : []),
    ...pipelines.filter((one) => one.state in TROUBLES).map((one) => [one.state, to("pipelines"), `${one.kind === "outbox" ? "The relay of" : "The pipeline"} ${one.name} ${TROUBLES[one.state]}`, "See its last report"]),
    ...pipelines.filter((one) => one.kind === "outbox" && one.dead_letters).map((one) => ["dead", to("pipelines"), `${plural(one.dead_letters, "row")} of ${one.name} ${one.dead_letters === 1 ? "is" : "are"} parked`, "See the relay"]),
    ...now.stalled.map((one) => ["stalled", to("topics", one.topic), `${one.owner} of ${one.group} lets leases on ${one.topic} expire`, "See its leases"]),
    ...now.unread.map((one) => ["waiting", to("topics", one.topic), `${plural(one.lag, "message")} of ${one.topic} wait for ${one.group}, which has no consumer`, "See the group"]),
  ];
  if (!found.length) return h("p", { class: "calm-note" }, "Nothing. No dead letters, no stalled consumers, no unread groups.");
  return h(
    "ul",
    { class: "attention" },
    found.map(([tone, href, text, deed]) =>
      h("li", { class: tone, "data-key": href + text.replaceAll(/[\d,]+/g, "") }, h("span", {}, text), link(href, deed, { "aria-label": `${deed}: ${text}` })),
    ),
  );
}

function jobs(now) {
  if (!now) return null;
  const states = [["ready", "Ready"], ["scheduled", "Scheduled"], ["blocked", "Blocked"], ["in_flight", "In flight"], ["dead", "Dead"]];
  return section(
    "Jobs",
    h(
      "dl",
      { class: "counts" },
      states.map(([name, label]) =>
        h("div", {}, h("dt", {}, link(`${to("jobs")}?state=${name}`, label)), h("dd", {}, live(`jobs_${name}`, count(now[name])))),
      ),
    ),
  );
}

function slowest(rows) {
  if (!rows.length) return h("p", { class: "calm-note" }, "Every group has settled everything.");
  return table(
    "Topics with the largest lag",
    [
      { head: "Topic", wide: true, cell: (row) => link(to("topics", row.topic), row.topic) },
      { head: "In flight", number: true, cell: (row) => count(row.in_flight) },
      { head: "Lag", number: true, cell: (row) => count(row.lag) },
    ],
    rows.slice(0, 8),
    (row) => row.topic,
  );
}
