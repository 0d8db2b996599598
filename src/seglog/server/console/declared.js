/* The settings of a topic as fields of a form, and what was written in them: all from what /openapi.json declares. */

import { ask } from "./api.js";
import { h } from "./dom.js";
import { field } from "./fields.js";
import { durationField, parseDuration, parseSize, sizeField } from "./units.js";

const GROUPS = [
  ["retention", "Retention"],
  ["storage", "Segments"],
  ["compaction", "Compaction"],
  ["kafka", "Kafka's clients"],
];

const FORMS = { bytes: " As 512 MiB, 10 GB.", seconds: " As 90 s, 12 h, 7 d." };

let schemas = null;

/** The declared settings: [{ path: ["retention", "age"], name, kind, scope, altered, optional, ... }]. */
export async function declared() {
  schemas ??= (await ask("GET", "/openapi.json")).components.schemas;
  return [
    ...settingsOf("ConfigModel", []),
    ...settingsOf("RetentionModel", ["retention"]),
    ...settingsOf("PoliciesModel", ["policies"]),
  ];
}

function settingsOf(model, place) {
  return Object.entries(schemas[model].properties)
    .filter(([, schema]) => schema["x-kind"])
    .map(([name, schema]) => ({
      name,
      path: [...place, name],
      about: shownText(schema),
      kind: schema["x-kind"],
      scope: schema["x-scope"],
      altered: schema["x-altered"],
      optional: schema["x-optional"],
      choices: schema["x-choices"],
      preset: schema["x-default"],
    }));
}

/** The sentences about a setting, in the words of its field, with the form of its values. */
function shownText(schema) {
  const none = schema["x-kind"] === "switch" ? "not set:" : "Empty:";
  const text = schema.description.replaceAll("`", "").replaceAll("None:", none);
  return text.replaceAll("False:", "no:").replaceAll("True:", "yes:") + (FORMS[schema["x-kind"]] ?? "");
}

/** Fields for settings, by what they are about; config: the present one, undefined: the defaults. */
export function settingFields(settings, config) {
  return GROUPS.map(([scope, title]) => [title, settings.filter((one) => one.scope === scope)])
    .filter(([, found]) => found.length)
    .map(([title, found], place) =>
      h(
        "details",
        { open: place === 0 },
        h("summary", null, title),
        h(
          "div",
          { class: "fields" },
          found.map((one) => input(one, valueOf(one, config))),
        ),
      ),
    );
}

/** What a config has of a setting. */
export function valueOf(one, config) {
  const value = one.path.reduce((found, name) => found?.[name], config);
  return value === undefined ? one.preset : value;
}

function input(one, value) {
  const label = one.name[0].toUpperCase() + one.name.slice(1).replaceAll("_", " ");
  const name = one.path.join(".");
  if (one.kind === "choice") return select(name, label, one.about, one.choices, value);
  if (one.kind === "switch") {
    return select(name, label, one.about, one.optional ? ["", "yes", "no"] : ["yes", "no"], written(one, value));
  }
  return field(name, label, one.about, { value: written(one, value), required: !one.optional });
}

/** A value as its field has it. */
function written(one, value) {
  if (value === null) return "";
  if (one.kind === "switch") return value ? "yes" : "no";
  if (one.kind === "bytes") return sizeField(value);
  if (one.kind === "seconds") return durationField(value);
  return String(value);
}

function select(name, label, hint, choices, present) {
  const id = `field-${name}`;
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h(
      "select",
      { id, name, "aria-describedby": `${id}-hint` },
      choices.map((value) => h("option", { value, selected: value === present }, value || "not set")),
    ),
    h("p", { class: "soft", id: `${id}-hint` }, hint),
  );
}

/** What was changed in the fields: { segment_age: 60, retention: { age: null } }; RangeError with a sentence. */
export function readSettings(settings, said, config) {
  const changes = {};
  for (const one of settings) {
    const text = said.get(one.path.join("."));
    if (text === null || text === written(one, valueOf(one, config))) continue;
    const place = one.path.length > 1 ? (changes[one.path[0]] ??= {}) : changes;
    place[one.name] = read(one, text);
  }
  return changes;
}

function read(one, text) {
  if (one.kind === "choice") return text;
  if (one.optional && !text.trim()) return null;
  if (one.kind === "switch") return text === "yes";
  if (one.kind === "bytes") return parseSize(text);
  if (one.kind === "seconds") return parseDuration(text);
  const number = Number(text);
  if (!text.trim() || Number.isNaN(number)) throw new RangeError(`“${text}” is not a number: ${one.name}.`);
  return number;
}
