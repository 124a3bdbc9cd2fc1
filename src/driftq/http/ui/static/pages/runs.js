// Runs: finding one, and showing its steps as a tree.

import { get, part, to } from "../parts/api.js";
import { empty, filters, heading, link, state } from "../parts/blocks.js";
import { h } from "../parts/dom.js";
import { plural } from "../parts/format.js";

const DEEPEST = 10;

export const title = ({ run }) => (run ? `Run ${run}` : "Runs");

export function load({ run }) {
  return run ? get(`/v1/runs/${part(run)}`) : null;
}

export function show(run) {
  if (run === null) {
    return h(
      "div",
      {},
      heading("Runs", { lead: "Messages that share a run_id are one run; step_id and parent_step_id make its tree." }),
      filters(to("runs"), [{ name: "go", label: "Run id", hint: "nightly-7" }], "Show"),
      empty("Give messages a run", "A producer sets it in the envelope:", "driftq produce orders \"two coffees\" --run-id nightly-7 --step-id brew"),
    );
  }
  return h(
    "div",
    {},
    heading(run.run_id, { kicker: "Run", badge: state(run.state), lead: plural(run.steps.length, "step") }),
    h("div", { class: "card tree-card" }, branch(run.steps)),
  );
}

/** The list has each step after its parent, with its depth. */
function branch(steps) {
  const root = h("ul", { class: "tree" });
  const levels = [root];
  for (const step of steps) {
    const depth = Math.min(step.depth, levels.length - 1, DEEPEST);
    levels.length = depth + 1;
    const inner = h("ul", { class: "tree" });
    levels[depth].append(h("li", { "data-key": step.step_id ?? step.messages[0]?.offset }, node(step), inner));
    levels.push(inner);
  }
  for (const list of root.querySelectorAll("ul:empty")) list.remove();
  return root;
}

function node(step) {
  return h(
    "div",
    { class: "step" },
    h("p", {}, h("b", {}, step.step_id ?? "(no step id)"), " ", state(step.state), h("span", { class: "note" }, ` ${plural(step.attempts, "attempt")}`)),
    h("p", { class: "note" }, step.messages.map((one, number) => [number ? ", " : "", link(to("messages", one.topic, one.offset), `${one.topic}/${one.offset}`)])),
    step.last_error && h("pre", { class: "text", tabindex: "0" }, step.last_error),
  );
}
