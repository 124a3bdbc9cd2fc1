// The search box: a name of anything leads to its page.

import { get, part, to } from "./api.js";
import { notify } from "./dialogs.js";
import { h } from "./dom.js";

const OFFERED = 200;

export function search(form, go) {
  const field = form.querySelector("input");
  const offers = form.querySelector("datalist");
  field.onfocus = async () => {
    const found = await get("/v1/topics", { limit: OFFERED }).catch(() => null);
    if (found) offers.replaceChildren(...found.topics.map((name) => h("option", { value: name })));
  };
  form.onsubmit = async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return;
    const found = await find(text).catch(() => null);
    if (found === null) {
      notify(`Nothing is called “${text}”. Try a topic, topic/offset, job-7, a run id, or type/id.`, "warn");
      field.select();
      return;
    }
    field.value = "";
    go(found);
  };
}

async function exists(path, query) {
  try {
    return await get(path, query);
  } catch (error) {
    if (error.status === 404 || error.status === 400 || error.status === 403) return null;
    throw error;
  }
}

/** The address of the page that a text names; null where there is none. */
async function find(text) {
  if (/^job-\d+$/.test(text)) return to("jobs", text);
  const place = /^([^/:@\s]+)[/:@](?:\d+:)?(\d+)$/.exec(text);
  if (place && (await exists(`/v1/topics/${part(place[1])}`))) return to("messages", place[1], place[2]);
  const [type, ...rest] = text.split("/");
  if (rest.length) {
    const id = rest.join("/");
    const found = await exists("/v1/events", { aggregate_type: type, aggregate_id: id, limit: 1 });
    if (found?.events.length) return to("events", type, id);
  }
  if (await exists(`/v1/topics/${part(text)}`)) return to("topics", text);
  if (await exists(`/v1/runs/${part(text)}`)) return to("runs", text);
  const { topics } = await get("/v1/ui/view/topics", { match: text, limit: 1 });
  return topics.length ? `${to("topics")}?match=${part(text)}` : null;
}
