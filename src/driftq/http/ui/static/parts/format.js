// Numbers, sizes and times as people read them.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value < 100 ? fine.format(value) : whole.format(value);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value) {
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit ? fine.format(size) : size} ${UNITS[unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${fine.format(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${fine.format(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${fine.format(seconds / 3600)} h`;
  const days = Math.round(seconds / 86400);
  return days < 730 ? `${days} days` : `${Math.round(days / 365)} years`;
}

/** How far a moment is from now, with the exact time as its title. */
export function when(text) {
  if (!text) return "–";
  const at = new Date(text);
  return h("time", { datetime: text, title: exact(text) }, relative(at - Date.now()));
}

function relative(ms) {
  const away = Math.abs(ms);
  if (away < 1500) return "now";
  if (away < 60_000) return ms < 0 ? `${Math.round(away / 1000)} s ago` : `in ${Math.round(away / 1000)} s`;
  return ms < 0 ? `${duration(away)} ago` : `in ${duration(away)}`;
}

/** The exact time where the reader is. */
export function exact(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : `${day(at)} ${clock(at)}`;
}

export function moment(text) {
  return h("time", { datetime: text, title: text }, exact(text));
}

/** As `moment`, without the seconds: a cron expression has none. */
export function minute(text) {
  const at = new Date(text);
  return h("time", { datetime: text, title: text }, `${day(at)} ${two(at.getHours())}:${two(at.getMinutes())}`);
}

function day(at) {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

function clock(at) {
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

function two(value) {
  return String(value).padStart(2, "0");
}

export function short(text, most = 80) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
