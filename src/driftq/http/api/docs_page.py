"""The page at /v1/docs: the OpenAPI document for people, in one file and from this server alone."""

PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>DriftQ HTTP interface</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; --line: #8884; --soft: #8881; }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  h1 small { font-size: 1rem; font-weight: normal; opacity: .7; }
  details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
  summary { align-items: baseline; cursor: pointer; display: flex; flex-wrap: wrap; gap: 0 .75rem; }
  summary { padding: .5rem .75rem; }
  summary::before { content: "+"; font: 13px ui-monospace, monospace; opacity: .6; }
  details[open] > summary::before { content: "-"; }
  summary > span:last-child { opacity: .75; }
  details[open] > summary { border-bottom: 1px solid var(--line); }
  details > div { overflow-x: auto; padding: .25rem 1rem 1rem; }
  h4 { margin: 1rem 0 .25rem; }
  code, pre { font: 13px/1.5 ui-monospace, monospace; }
  pre { background: var(--soft); border-radius: 6px; overflow-x: auto; padding: .75rem; }
  table { border-collapse: collapse; width: 100%; }
  td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem; }
  td, th { text-align: left; vertical-align: baseline; }
  td:first-child { font-family: ui-monospace, monospace; font-size: 13px; white-space: nowrap; }
  .method { font-size: 13px; font-weight: 600; width: 4rem; }
  .get { color: light-dark(#0a6b3d, #6fd6a0); }
  .post { color: light-dark(#0b57b0, #86b7ff); }
  .delete { color: light-dark(#a8201a, #ff9d96); }
</style>
</head>
<body>
<h1>DriftQ <small id="version"></small></h1>
<p id="about"></p>
<main id="routes">Loading openapi.json</main>
<script>
const make = (tag, text, parent) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
const kind = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.type === "array") return kind(schema.items) + "[]";
  const least = schema.minimum, most = schema.maximum;
  const from = least > -1e15 ? ` from ${least}` : "", to = most < 1e15 ? ` to ${most}` : "";
  return (schema.type ?? "any") + from + to;
};
const table = (heads, rows, parent) => {
  const node = make("table", undefined, parent);
  const first = make("tr", undefined, node);
  heads.forEach((text) => make("th", text, first));
  for (const row of rows) {
    const line = make("tr", undefined, node);
    row.forEach((text) => make("td", text, line));
  }
};
const fields = (schema, all) => {
  const found = (schema.$ref ? all[kind(schema)] : schema) ?? {};
  const needed = new Set(found.required ?? []);
  return Object.entries(found.properties ?? {}).map(
    ([name, type]) => [name, kind(type), needed.has(name) ? "required" : ""]);
};
const failed = (problem) => {
  document.getElementById("routes").textContent = "openapi.json cannot be shown: " + problem;
};
fetch("openapi.json").then((answer) => answer.json()).then((doc) => {
  const all = doc.components.schemas;
  document.getElementById("version").textContent = doc.info.version;
  document.getElementById("about").textContent = doc.info.description;
  const routes = document.getElementById("routes");
  routes.textContent = "";
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const box = make("details", undefined, routes);
      const line = make("summary", undefined, box);
      make("span", method.toUpperCase(), line).className = "method " + method;
      make("code", path, line);
      make("span", route.summary, line);
      const inside = make("div", undefined, box);
      if (route.description) make("p", route.description, inside);
      const body = route.requestBody?.content["application/json"]?.schema;
      if (body) {
        make("h4", "Body: " + kind(body), inside);
        table(["field", "type", ""], fields(body, all), inside);
      }
      if (route.parameters) {
        make("h4", body ? "Path and query, instead of the body" : "Path and query", inside);
        table(["name", "type", ""], route.parameters.map(
          (one) => [one.name, kind(one.schema), one.required ? "required" : one.in]), inside);
      }
      make("h4", "Answers", inside);
      const contents = (answer) => Object.entries(answer.content ?? {}).map(
        ([type, one]) => type === "application/json" ? kind(one.schema) : type).join(", ");
      table(["status", "meaning", "content"], Object.entries(route.responses).map(
        ([status, answer]) => [status, answer.description, contents(answer)]), inside);
    }
  }
  make("h2", "Types", routes);
  for (const [name, schema] of Object.entries(all)) {
    const box = make("details", undefined, routes);
    make("code", name, make("summary", undefined, box));
    const inside = make("div", undefined, box);
    if (schema.description) make("p", schema.description, inside);
    table(["field", "type", ""], fields(schema, all), inside);
  }
}).catch(failed);
</script>
</body>
</html>
"""
