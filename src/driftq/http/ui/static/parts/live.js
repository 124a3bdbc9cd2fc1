// The live numbers: one stream for the whole page, closed while nobody looks.

import { get } from "./api.js";

const PAST_MS = 180_000;
const AGAIN_MS = 3_000;

export const feed = { now: null, points: [], state: "connecting" };

let source = null;
let timer = null;
const listeners = new Set();

export function onTick(listener) {
  listeners.add(listener);
}

function changed(isTick) {
  for (const listener of listeners) listener(isTick);
}

function received(event) {
  const overview = JSON.parse(event.data);
  feed.now = overview;
  feed.state = "live";
  const known = new Set(feed.points.map((point) => point.at));
  const fresh = overview.past.filter((point) => !known.has(point.at));
  if (overview.rates && !known.has(overview.at)) {
    const { produced, acked, dead_lettered } = overview.rates;
    fresh.push({ ...overview, produced, acked, dead_lettered });
  } else if (!overview.rates) fresh.push({ ...overview, produced: null, acked: null, dead_lettered: null });
  feed.points.push(...fresh);
  feed.points.sort((one, other) => (one.at < other.at ? -1 : 1));
  const oldest = new Date(Date.parse(overview.at) - PAST_MS).toISOString();
  feed.points = feed.points.filter((point) => point.at >= oldest);
  changed(true);
}

export function start() {
  stop();
  if (document.hidden) return;
  source = new EventSource("/v1/ui/live");
  source.addEventListener("overview", received);
  source.onerror = () => {
    feed.state = "lost";
    if (source?.readyState === EventSource.CLOSED) {
      stop();
      timer = setTimeout(start, AGAIN_MS);
      get("/v1/whoami").catch(() => {}); // The session may be over; this call finds out.
    }
    changed(false);
  };
}

export function stop() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop();
  else if (feed.state !== "off") start();
});
