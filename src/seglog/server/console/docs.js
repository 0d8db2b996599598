/* The HTTP API as a page, from /openapi.json: what each request takes and answers; GET requests can be sent. */

import { access, ask, call } from "./api.js";
import { h, morph } from "./dom.js";
import { button, refusal } from "./parts.js";
import { typeOf } from "./schema.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const SHOWN_BYTES = 64 * 1024;
const PATIENCE = 5000; // ms that an answer may take: some requests wait, a tail never ends

let description = null;
let problem = null;
const opened = new Set(); // operations whose description is shown
const answers = new Map(); // operation -> the text of its last answer

function operationsOf(tag) {
  return Object.entries(description.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]?.tags.includes(tag)).map((method) => ({ path, method, ...item[method] })),
  );
}

function page() {
  return h(
    "div",
    { id: "app" },
    h(
      "header",
      { class: "top" },
      h(
        "a",
        { class: "brand", href: "/" },
        h("img", { src: "/console/icon.svg", alt: "", width: 24, height: 24 }),
        h("span", null, "seglog"),
      ),
      h("nav", { class: "sections", "aria-label": "Sections" }, h("a", { href: "/" }, "Console")),
      h("div", { class: "tools" }, token()),
    ),
    h("main", { id: "main", tabindex: "-1" }, h("div", { class: "api" }, content())),
  );
}

function token() {
  return h(
    "form",
    { on: { submit: (event) => event.preventDefault() } },
    h(
      "label",
      null,
      h("span", { class: "unseen" }, "Token"),
      h("input", {
        type: "password",
        placeholder: "Token",
        autocomplete: "off",
        value: access.token ?? "",
        on: { change: (event) => access.use(event.target.value.trim()) },
      }),
    ),
  );
}

function content() {
  if (problem) return refusal(problem);
  if (!description) return h("p", { class: "waiting", role: "status" }, "Loading the description …");
  const { info, tags } = description;
  return [
    h("div", { class: "heading" }, h("h1", null, "HTTP API"), h("p", { class: "facts" }, `seglog ${info.version}`)),
    h(
      "p",
      null,
      `${info.description} Machines read `,
      h("a", { href: "/openapi.json" }, "/openapi.json"),
      " (OpenAPI 3.1).",
    ),
    h(
      "nav",
      { class: "contents", "aria-label": "Families" },
      tags.map(({ name }) => h("a", { href: `#family-${name}` }, name)),
    ),
    tags.map(({ name, description: line }) =>
      h("section", { key: name }, h("h2", { id: `family-${name}` }, name), h("p", { class: "soft" }, line), operationsOf(name).map(entry)),
    ),
  ];
}

function toggle({ currentTarget: { id, open } }) {
  if (open) opened.add(id);
  else opened.delete(id);
}

function entry(one) {
  return h(
    "details",
    { class: "operation", id: one.operationId, open: opened.has(one.operationId), on: { toggle } },
    h(
      "summary",
      null,
      h("span", { class: `method ${one.method}` }, one.method.toUpperCase()),
      h("span", { class: "code" }, one.path),
      h("span", { class: "soft" }, one.summary),
    ),
    h("div", { class: "about" }, [
      one.security.length > 0 && h("p", { class: "soft" }, "Needs a token (Authorization: Bearer …)."),
      parameters(one),
      body(one),
      responses(one),
      h("div", null, h("h3", null, "With curl"), h("pre", { class: "code" }, curl(one))),
      one.method === "get" && trial(one),
    ]),
  );
}

function grid(label, heads, rows) {
  return h(
    "div",
    null,
    h("h3", null, label),
    h(
      "table",
      { "aria-label": label },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          heads.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((cells) =>
          h(
            "tr",
            null,
            cells.map((cell) => h("td", null, cell)),
          ),
        ),
      ),
    ),
  );
}

const code = (text) => h("pre", { class: "code" }, text);
const shown = (schema) => typeOf(schema, description.components.schemas);

function parameters(one) {
  if (!one.parameters.length) return null;
  const rows = one.parameters.map((parameter) => [
    h("span", { class: "code" }, parameter.name),
    parameter.in,
    code(shown(parameter.schema)),
    [
      parameter.description,
      parameter.required ? " Required." : "",
      parameter.schema.default === undefined ? "" : ` Default: ${parameter.schema.default}.`,
    ],
  ]);
  return grid("Parameters", ["Name", "In", "Type", ""], rows);
}

function body(one) {
  if (!one.requestBody) return null;
  const rows = Object.entries(one.requestBody.content).map(([media, { schema }]) => [media, code(shown(schema))]);
  return grid("Body", ["Content type", "Type"], rows);
}

function responses(one) {
  const rows = Object.entries(one.responses)
    .filter(([status, { content }]) => status < "400" || !content?.["application/problem+json"])
    .flatMap(([status, answer]) => {
      const kinds = Object.entries(answer.content ?? {});
      if (!kinds.length) return [[status, answer.description, "", ""]];
      return kinds.map(([media, { schema }]) => [status, answer.description, media, code(shown(schema))]);
    });
  const refused = Object.keys(one.responses).filter((status) => status >= "400");
  return [
    grid("Answers", ["Status", "", "Content type", "Type"], rows),
    h("p", { class: "soft" }, `Refusals: ${refused.join(", ")}, as application/problem+json.`),
  ];
}

/** A command that sends the request; what has to be filled in is in braces. */
function curl(one) {
  const query = one.parameters.filter((parameter) => parameter.in === "query" && parameter.required);
  const search = query.map(({ name }) => `${name}={${name}}`).join("&");
  const media = Object.keys(one.requestBody?.content ?? {})[0];
  return [
    `curl -s ${one.method === "get" ? "" : `-X ${one.method.toUpperCase()} `}'${location.origin}${one.path}${search && `?${search}`}'`,
    one.security.length > 0 && `-H "Authorization: Bearer $SEGLOG_TOKEN"`,
    media && media !== "*/*" && `-H 'Content-Type: ${media}'`,
    media && "--data-binary @body",
  ]
    .filter(Boolean)
    .join(" \\\n  ");
}

function trial(one) {
  const fields = one.parameters.filter((parameter) => parameter.in !== "header");
  const submit = (event) => {
    event.preventDefault();
    send(one, new FormData(event.target));
  };
  return h(
    "form",
    { class: "form", "aria-label": `Send ${one.operationId}`, on: { submit } },
    h(
      "div",
      { class: "fields" },
      fields.map(({ name, required }) =>
        h(
          "div",
          { class: "field" },
          h("label", { for: `${one.operationId}-${name}` }, name),
          h("input", { id: `${one.operationId}-${name}`, name, required }),
        ),
      ),
    ),
    h("div", null, button("Send", () => {}, { type: "submit", class: "primary" })),
    answers.has(one.operationId) &&
      h("pre", { class: "code answer", role: "status", "aria-label": "Answer" }, answers.get(one.operationId)),
  );
}

async function send(one, given) {
  const filled = (where) =>
    one.parameters.filter((parameter) => parameter.in === where && given.get(parameter.name)).map(({ name }) => name);
  const where = filled("path").reduce(
    (path, name) => path.replace(`{${name}}`, encodeURIComponent(given.get(name))),
    one.path,
  );
  const query = Object.fromEntries(filled("query").map((name) => [name, given.get(name)]));
  try {
    const response = await call("GET", where, { query, signal: AbortSignal.timeout(PATIENCE) });
    answers.set(one.operationId, `${response.status} ${response.headers.get("content-type") ?? ""}\n\n${await text(response)}`);
  } catch (error) {
    answers.set(one.operationId, error.name === "TimeoutError" ? "No answer within 5 s." : error.message);
  }
  draw();
}

/** The beginning of an answer, as text; of one that does not end, what came in time. */
async function text(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let found = "";
  try {
    while (found.length < SHOWN_BYTES) {
      const { done, value } = await reader.read();
      if (done) return found;
      found += decoder.decode(value, { stream: true });
    }
    reader.cancel();
    return `${found}\n… cut here`;
  } catch {
    return `${found}\n… ended after 5 s`;
  }
}

function draw() {
  morph(document.getElementById("app"), page());
}

/** Open the operation or the family that the address names. */
function open() {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found?.tagName === "DETAILS") found.open = true;
  found?.scrollIntoView();
}

draw();
try {
  description = await ask("GET", "/openapi.json");
} catch (error) {
  problem = error;
}
draw();
open();
addEventListener("hashchange", open);
