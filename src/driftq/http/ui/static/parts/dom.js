// Elements. Everything a user sent becomes a text node; nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = ["onclick", "onsubmit", "oninput", "onchange", "ontoggle"];

/** An element: attributes, handlers (`onclick`), then children; null and false are left out. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(node, child);
    else if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== false) node.append(String(child));
  }
}

/** Make `node` look like `wanted`, keeping elements, focus, typed text and open details. */
export function morph(node, wanted) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (node.getAttribute(name) !== value && !isOwn(node, name)) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && !isOwn(node, name)) node.removeAttribute(name);
  }
  for (const name of HANDLERS) if (node[name] !== wanted[name]) node[name] = wanted[name];
  morphChildren(node, wanted);
}

/** What belongs to the person at the screen. */
function isOwn(node, name) {
  return name === "open" && node.nodeName === "DETAILS";
}

function morphChildren(node, wanted) {
  const keyed = new Map();
  for (const child of node.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let place = node.firstChild;
  for (const child of [...wanted.childNodes]) {
    const match = child.dataset?.key ? keyed.get(child.dataset.key) : unkeyed(place, child);
    if (!match || match.nodeName !== child.nodeName) {
      node.insertBefore(child, place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else node.insertBefore(match, place);
    morph(match, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function unkeyed(place, child) {
  return place && !place.dataset?.key && place.nodeName === child.nodeName ? place : null;
}

/** A live value: its name is in the page, for programs that read along. */
export function live(name, text, attributes) {
  return h("span", { "data-live": name, ...attributes }, text);
}
