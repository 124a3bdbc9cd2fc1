// Dialogs: each says what will happen, asks once, and reports what became of it.

import { h } from "./dom.js";

const SHOWN_MS = 8_000;

const dialog = () => document.getElementById("dialog");

/** Show a sentence for a while; screen readers read it politely. */
export function notify(text, tone = "good") {
  const notice = h("p", { class: `notice ${tone}` }, text);
  document.getElementById("notices").append(notice);
  setTimeout(() => notice.remove(), SHOWN_MS);
}

/**
 * Ask, then act. `body` may hold a form whose fields `act` gets; `act` returns the sentence to show.
 * `look` runs first and gives the body: a dry run.
 */
export async function ask({ title, body, look, label, danger, act, done }) {
  const box = dialog();
  const text = h("div", { class: "dialog-body" }, look ? h("p", {}, "Looking…") : body);
  const problem = h("p", { class: "problem", role: "alert" });
  const yes = h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: Boolean(look) }, label);
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, title),
    text,
    problem,
    h("div", { class: "dialog-end" }, h("button", { type: "button", onclick: () => box.close() }, "Cancel"), yes),
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    yes.disabled = true;
    try {
      const said = await act(Object.fromEntries(new FormData(form)));
      box.close();
      notify(said);
      await done?.();
    } catch (error) {
      problem.textContent = error.message;
      yes.disabled = false;
    }
  };
  box.replaceChildren(form);
  box.showModal();
  if (!look) return;
  try {
    const found = await look();
    text.replaceChildren(found.body);
    if (found.label) yes.textContent = found.label;
    yes.disabled = Boolean(found.refused);
    if (!found.refused) yes.focus();
  } catch (error) {
    text.replaceChildren();
    problem.textContent = error.message;
  }
}
