// Runs: finding one, and showing its steps as a tree.

import { get, optional, part, send, to } from "../parts/api.js";
import { action, empty, facts, filters, heading, link, readOnly, section, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { plural, when } from "../parts/format.js";
import { value } from "../parts/json.js";

const DEEPEST = 10;

export const title = ({ run }) => (run ? `Run ${run}` : "Runs");

export function load({ run }) {
  return run ? get(`/v1/runs/${part(run)}`) : optional("/v1/ui/view/steps");
}

export function show(found, { run }, _, refresh) {
  if (!run) {
    return h(
      "div",
      {},
      heading("Runs", { lead: "Messages and steps that share a run_id are one run; step_id and parent_step_id make its tree." }),
      filters(to("runs"), [{ name: "go", label: "Run id", hint: "nightly-7" }], "Show"),
      found?.steps.length
        ? section("Steps that are not done", unfinished(found.steps))
        : empty("Every step is done", "Give messages a run in their envelope, or make steps with driftq.steps:", "driftq produce orders \"two coffees\" --run-id nightly-7 --step-id brew"),
    );
  }
  const isUnknown = found.steps.some((step) => step.effects.some((effect) => effect.state === "unknown"));
  return h(
    "div",
    {},
    heading(found.run_id, { kicker: "Run", badge: state(found.state), lead: plural(found.steps.length, "step") }),
    isUnknown && readOnly("admin", "resolve steps"),
    h("div", { class: "card tree-card" }, branch(found.steps, { run: found.run_id, refresh })),
  );
}

function unfinished(steps) {
  return table(
    "Steps that are not done",
    [
      { head: "Run", wide: true, cell: (row) => link(to("runs", row.run_id), row.run_id) },
      { head: "Step", cell: (row) => row.step_id },
      { head: "State", cell: (row) => state(row.state, row.state === "unknown" ? "UNKNOWN" : null) },
      { head: "Group", cell: (row) => row.group },
      { head: "Attempts", number: true, cell: (row) => row.attempts },
      { head: "Owner", cell: (row) => row.owner },
      { head: "Lease ends", cell: (row) => when(row.lease_until) },
    ],
    steps,
    (row) => `${row.tenant_id}/${row.group}/${row.run_id}/${row.step_id}`,
  );
}

/** The list has each step after its parent, with its depth. */
function branch(steps, context) {
  const root = h("ul", { class: "tree" });
  const levels = [root];
  for (const step of steps) {
    const depth = Math.min(step.depth, levels.length - 1, DEEPEST);
    levels.length = depth + 1;
    const inner = h("ul", { class: "tree" });
    levels[depth].append(h("li", { "data-key": step.step_id ?? step.messages[0]?.offset }, node(step, context), inner));
    levels.push(inner);
  }
  for (const list of root.querySelectorAll("ul:empty")) list.remove();
  return root;
}

function node(step, context) {
  return h(
    "div",
    { class: "step" },
    h("p", {}, h("b", {}, step.step_id ?? "(no step id)"), " ", state(step.state), h("span", { class: "note" }, ` ${plural(step.attempts, "attempt")}`)),
    h("p", { class: "note" }, step.messages.map((one, number) => [number ? ", " : "", link(to("messages", one.topic, one.offset), `${one.topic}/${one.offset}`)])),
    step.effects.map((effect) => outcome(step, effect, context)),
    step.last_error && h("pre", { class: "text", tabindex: "0" }, step.last_error),
  );
}

/** What `driftq.steps` knows of a step: its result, or who holds it, or that nobody knows. */
function outcome(step, effect, context) {
  const isOpen = effect.state === "in_flight" || effect.state === "unknown";
  return h(
    "div",
    { class: "effect" },
    facts([
      ["Group", effect.group],
      ["Tenant", effect.tenant_id || null],
      [isOpen ? "Held by" : "Run by", effect.owner || null],
      [effect.state === "unknown" ? "Lease ended" : "Lease ends", isOpen ? when(effect.lease_until) : null],
      [effect.state === "done" ? "Done" : "Failed", isOpen ? null : when(effect.at)],
    ]),
    effect.state === "done" && effect.result !== undefined && h("details", {}, h("summary", {}, "Result"), value(effect.result)),
    effect.state === "unknown" &&
      h(
        "div",
        { class: "actions" },
        action("admin", "It happened", () => resolve(step, effect, "committed", context), { "aria-label": `It happened: step ${step.step_id}` }),
        action("admin", "It did not", () => resolve(step, effect, "retry", context), { "aria-label": `It did not: step ${step.step_id}` }),
      ),
  );
}

const MEANINGS = {
  committed: "The effect happened. The step never runs again, and its runs get the result below.",
  retry: "The effect did not happen. The next run of the step begins it again.",
};

function resolve(step, effect, as, { run, refresh }) {
  ask({
    title: `Resolve ${step.step_id}?`,
    body: h(
      "div",
      { class: "fields" },
      h("p", {}, MEANINGS[as]),
      as === "committed" && h("label", {}, h("span", {}, "Result, as JSON"), h("textarea", { name: "result", rows: "3" }, "null")),
      h("p", { class: "note" }, `Run ${run}, last held by ${effect.owner || "nobody"}.`),
    ),
    label: as === "committed" ? "Mark as done" : "Run again",
    act: async ({ result }) => {
      const identity = { topic: "steps", group: effect.group, idempotency_key: `step:${run}/${step.step_id}` };
      if (effect.tenant_id) identity.tenant_id = effect.tenant_id;
      const decision = as === "committed" ? { as, result: JSON.parse(result) } : { as };
      await send("POST", "/v1/idempotency/resolve", { ...identity, ...decision });
      return `${step.step_id} is resolved.`;
    },
    done: refresh,
  });
}
