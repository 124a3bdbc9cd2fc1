// Logging in with an API key. The key goes to the server once; the page keeps nothing of it.

import { send } from "../parts/api.js";
import { heading } from "../parts/blocks.js";
import { h } from "../parts/dom.js";

export function login(onDone) {
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Log in");
  const field = h("input", { id: "key", name: "key", type: "password", autocomplete: "current-password", required: true, placeholder: "dq_…" });
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      await send("POST", "/v1/ui/session", { key: field.value });
      await onDone();
    } catch (error) {
      problem.textContent = error.status === 401 ? "This key is not valid here. It is mistyped, or it was revoked." : error.message;
      field.select();
    } finally {
      button.disabled = false;
    }
  };
  return h(
    "div",
    { class: "login" },
    heading("Log in", { lead: "This server needs an API key. The session lasts twelve hours, in this browser only." }),
    h("form", { class: "card", onsubmit: submit }, h("label", { for: "key" }, "API key"), field, problem, button),
    h("p", { class: "note" }, "An administrator makes a key on the server:"),
    h("pre", { class: "command", tabindex: "0" }, "driftq key create me --file keys.json --role read"),
  );
}
