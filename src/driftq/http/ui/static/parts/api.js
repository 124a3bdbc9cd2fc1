// Calls of the server. The browser sends the session's cookie; no script sees a key.

export class ApiError extends Error {
  constructor(status, body) {
    super(body.message ?? `the server answered ${status}`);
    this.status = status;
    this.kind = body.kind ?? "";
  }

  /** The server has no such route: it is of an earlier release, or was started without that part. */
  get isMissingRoute() {
    return this.status === 404 && this.kind === "RouteNotFound";
  }
}

let onLoggedOut = () => {};

/** What happens when the server no longer knows who asks. */
export function whenLoggedOut(handler) {
  onLoggedOut = handler;
}

async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, { message: "the server cannot be reached" });
  }
  const text = await answer.text();
  if (answer.ok) return text;
  const error = new ApiError(answer.status, readJson(text) ?? {});
  if (error.status === 401 && path !== "/v1/ui/session") onLoggedOut();
  throw error;
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export async function get(path, query) {
  return JSON.parse(await call("GET", withQuery(path, query)));
}

/** The lines of an NDJSON answer. */
export async function lines(path, query) {
  const text = await call("GET", withQuery(path, query));
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

/** The same, or null where the server has no such route. */
export async function optional(path, query) {
  try {
    return await get(path, query);
  } catch (error) {
    if (error instanceof ApiError && error.isMissingRoute) return null;
    throw error;
  }
}

export async function send(method, path, body) {
  const text = await call(method, path, body);
  return text ? JSON.parse(text) : null;
}

export function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const part = encodeURIComponent;

/** The address of a page. */
export function to(...parts) {
  return `/v1/ui/${parts.map((one) => part(one)).join("/")}`;
}

/** Who is at the screen: `null` until known. */
export const caller = { name: "", roles: [], known: false };

export function may(role) {
  return caller.roles.includes("admin") || caller.roles.includes(role);
}
