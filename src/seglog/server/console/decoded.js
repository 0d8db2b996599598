/* A value's fields, by the schema of its topic's table: what the server has decoded. */

import { ask, path, Problem, Unreachable } from "./api.js";
import { h } from "./dom.js";
import { oneLine } from "./value.js";

const WITHOUT_MS = 30_000; // a topic without a schema is asked about again after this time
const FIELD_CHARACTERS = 1000;

const without = new Map(); // topic -> when it had no schema

/** Ask for the fields of a record's value: null if its topic has no schema, {problem} if the server refuses. */
export async function decoded(topic, { partition, offset, value }) {
  if (value === null || Date.now() - (without.get(topic) ?? 0) < WITHOUT_MS) return null;
  try {
    const found = await ask("GET", path("topics", topic, "partitions", partition, "records", offset, "decoded"));
    if (found.schema !== null) return found;
    without.set(topic, Date.now());
    return null;
  } catch (error) {
    if (!(error instanceof Problem || error instanceof Unreachable)) throw error;
    return { unfit: error.message, fields: [] };
  }
}

/** The fields, and why some or all of them are missing. Null if there is no schema. */
export function fieldsPane(found) {
  if (!found) return null;
  const unfit =
    found.unfit !== null &&
    h("p", { class: "unfit", role: "note" }, h("strong", null, "Not decoded: "), oneLine(found.unfit, 400));
  if (unfit && !found.fields.length) return unfit;
  return h(
    "div",
    { class: "fieldsof" },
    unfit,
    h(
      "table",
      { "aria-label": "Fields" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Field", "Value", "Type"].map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h("tbody", null, found.fields.map(row)),
    ),
    h(
      "p",
      { class: "cut" },
      `By the ${found.schema} schema of the topic's table. `,
      !found.complete && "Some of its fields are cut or left out; the value has all.",
    ),
  );
}

function row({ name, depth, type, value }) {
  const holds = type === "struct" || type === "list";
  return h(
    "tr",
    null,
    h("th", { scope: "row", style: { "--depth": depth } }, h("bdi", { class: "code" }, oneLine(name, 200))),
    h(
      "td",
      null,
      value === null
        ? !holds && h("span", { class: "soft" }, "null")
        : h("bdi", { class: "code" }, value === "" ? "(empty)" : oneLine(value, FIELD_CHARACTERS)),
    ),
    h("td", { class: "soft" }, type),
  );
}
