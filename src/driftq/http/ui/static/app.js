// The frame: which page an address names, refreshing it, the menu, and who is at the screen.

import { caller, get, may, send, to, whenLoggedOut } from "./parts/api.js";
import { empty, heading } from "./parts/blocks.js";
import { notify } from "./parts/dialogs.js";
import { h, morph } from "./parts/dom.js";
import { feed, onTick, start, stop } from "./parts/live.js";
import { search } from "./parts/search.js";
import { theme } from "./parts/theme.js";
import * as dlq from "./pages/dlq.js";
import * as dlqs from "./pages/dlqs.js";
import * as events from "./pages/events.js";
import * as groups from "./pages/groups.js";
import * as job from "./pages/job.js";
import * as jobs from "./pages/jobs.js";
import { login } from "./pages/login.js";
import * as message from "./pages/message.js";
import * as overview from "./pages/overview.js";
import * as pipelines from "./pages/pipelines.js";
import * as queues from "./pages/queues.js";
import * as registry from "./pages/registry.js";
import * as runs from "./pages/runs.js";
import * as schedules from "./pages/schedules.js";
import * as topic from "./pages/topic.js";
import * as topics from "./pages/topics.js";

const HOME = "/v1/ui/";
const PAGES = [
  [[], overview],
  [["topics"], topics],
  [["topics", ":topic"], topic],
  [["messages", ":topic", ":offset"], message],
  [["groups"], groups],
  [["jobs"], jobs],
  [["jobs", ":job"], job],
  [["queues"], queues],
  [["schedules"], schedules],
  [["dlq"], dlqs],
  [["dlq", ":topic"], dlq],
  [["runs"], runs],
  [["runs", ":run"], runs],
  [["events"], events],
  [["events", ":type", ":id"], events],
  [["registry"], registry],
  [["pipelines"], pipelines],
];
const MENU = [
  ["Watch", [["", "Overview"]]],
  ["Messages", [["topics", "Topics"], ["groups", "Groups"], ["dlq", "Dead letters", "dead_letters"], ["runs", "Runs"]]],
  ["Jobs", [["jobs", "Jobs"], ["queues", "Queues"], ["schedules", "Schedules"]]],
  ["Events", [["events", "Events"], ["registry", "Registry"], ["pipelines", "Pipelines"]]],
];
const AGAIN_MS = 3_000;
const main = document.getElementById("main");

let shown = null;
let loading = false;
let isLoggedOut = false;

/** The page of the address, its parameters and its query; null where there is no such page. */
function find(address) {
  const parts = address.pathname.slice(HOME.length).split("/").filter(Boolean).map(decodeURIComponent);
  for (const [pattern, page] of PAGES) {
    if (pattern.length !== parts.length) continue;
    if (!pattern.every((word, place) => word.startsWith(":") || word === parts[place])) continue;
    const named = pattern.flatMap((word, place) => (word.startsWith(":") ? [[word.slice(1), parts[place]]] : []));
    return { page, names: Object.fromEntries(named), query: Object.fromEntries(address.searchParams) };
  }
  return null;
}

/** Show the page of the address. `isNew`: the reader came here, and reading starts at the heading. */
async function render(isNew) {
  if (isLoggedOut) return;
  const wanted = find(new URL(location.href));
  const turn = Symbol("turn");
  loading = turn;
  let node;
  let title = "Not found";
  try {
    if (wanted === null) throw Object.assign(new Error("There is no page at this address."), { status: 404 });
    const { page, names, query } = wanted;
    title = page.title(names, query);
    const found = await page.load(names, query);
    node = page.show(found, names, query, () => render(false));
  } catch (error) {
    if (isLoggedOut) return;
    node = failed(error, title);
  }
  if (loading !== turn) return; // The reader has gone on meanwhile.
  loading = false;
  document.title = `${title} · DriftQ`;
  const isSame = shown?.split("?")[0] === location.pathname && main.firstElementChild;
  shown = address();
  if (isSame) morph(main.firstElementChild, node);
  else main.replaceChildren(node);
  if (isNew) {
    window.scrollTo(0, 0);
    document.getElementById("title")?.focus({ preventScroll: true });
  }
  menu();
}

function sentence(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function failed(error, title) {
  if (!error.status && error.status !== 0) console.error(error);
  const words = { 0: "No connection", 403: "Not allowed", 404: "Not found" };
  return h("div", {}, heading(words[error.status] ?? "This page cannot be shown", { kicker: title }), empty(sentence(error.message), error.status === 0 ? "The page tries again by itself." : null));
}

function address() {
  return location.pathname + location.search;
}

export function go(href) {
  history.pushState(null, "", href);
  closeMenu();
  return render(true);
}

// The menu and the bar

function menu() {
  const word = location.pathname.slice(HOME.length).split("/")[0].replace("messages", "topics");
  const list = MENU.map(([title, entries]) =>
    h(
      "div",
      {},
      h("p", { class: "nav-title", "aria-hidden": "true" }, title),
      h(
        "ul",
        { "aria-label": title },
        entries.map(([path, text, number]) =>
          h("li", {}, h("a", { href: path ? to(path) : HOME, "aria-current": path === word ? "page" : null }, text, number && feed.now?.[number] ? h("span", { class: "bubble", "data-live": `menu_${number}` }, String(feed.now[number])) : null)),
        ),
      ),
    ),
  );
  const nav = document.getElementById("nav");
  morph(nav, h("nav", { id: "nav", "aria-label": "Pages", class: nav.className || null }, list));
}

function closeMenu() {
  document.getElementById("nav").classList.remove("open");
  document.getElementById("menu").setAttribute("aria-expanded", "false");
}

function account() {
  const place = document.getElementById("account");
  if (!caller.name) return place.replaceChildren();
  return place.replaceChildren(h("span", { class: "who", title: caller.roles.join(", ") }, caller.name), h("button", { type: "button", class: "quiet", onclick: logOut }, "Log out"));
}

function linkState() {
  const words = { live: "Live", connecting: "Connecting", lost: "Reconnecting", off: "Logged out" };
  const link = document.getElementById("link");
  if (link.dataset.state !== feed.state) {
    link.dataset.state = feed.state;
    link.textContent = words[feed.state];
  }
}

// Who is at the screen

async function enter() {
  try {
    Object.assign(caller, await get("/v1/whoami"), { known: true });
  } catch (error) {
    if (error.status === 401) return;
    main.replaceChildren(failed(error, "DriftQ"));
    setTimeout(enter, AGAIN_MS);
    return;
  }
  isLoggedOut = false;
  document.body.classList.remove("logged-out");
  feed.state = "connecting";
  account();
  if (may("read")) start();
  await render(false);
}

function leave() {
  if (isLoggedOut) return;
  isLoggedOut = true;
  stop();
  feed.state = "off";
  linkState();
  Object.assign(caller, { name: "", roles: [] });
  account();
  document.body.classList.add("logged-out");
  document.title = "Log in · DriftQ";
  shown = null;
  main.replaceChildren(login(enter));
  document.getElementById("key").focus();
}

async function logOut() {
  await send("DELETE", "/v1/ui/session");
  leave();
  notify("You are logged out.");
}

// What the reader does

document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[href]");
  if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(anchor.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(HOME) || anchor.hash) return;
  event.preventDefault();
  go(url.pathname + url.search);
});

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-filters]");
  if (!form) return;
  event.preventDefault();
  const given = Object.fromEntries([...new FormData(form)].filter(([, text]) => text !== ""));
  const path = new URL(form.action).pathname;
  if ("go" in given) go(`${path}/${encodeURIComponent(given.go)}`);
  else if (path === to("events") && given.type && given.id) go(to("events", given.type, given.id));
  else go(Object.keys(given).length ? `${path}?${new URLSearchParams(given)}` : path);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea, dialog");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    document.getElementById("search-text").focus();
  } else if (event.key === "Escape") closeMenu();
});

document.getElementById("menu").onclick = (event) => {
  const isOpen = document.getElementById("nav").classList.toggle("open");
  event.target.setAttribute("aria-expanded", String(isOpen));
};

window.addEventListener("popstate", () => {
  if (address() !== shown) render(true); // Not for the skip link, which changes the fragment alone.
});
whenLoggedOut(leave);
onTick((isTick) => {
  linkState();
  if (isTick && loading === false && !isLoggedOut) render(false);
});
theme(document.getElementById("theme"));
search(document.getElementById("search"), go);
menu();
enter();
