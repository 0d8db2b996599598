/* What a topic keeps and how: shown, changed, and the topic deleted. */

import { ask, path } from "./api.js";
import { declared, readSettings, settingFields } from "./declared.js";
import { deleteTopic } from "./dialogs.js";
import { h } from "./dom.js";
import { field } from "./fields.js";
import { button } from "./parts.js";
import { complain, notify, refresh } from "./store.js";
import { bytes, duration, exact, plural } from "./units.js";

const SECONDS = new Set(["segment_age", "flush_interval"]);

let settings = null;

/** The view. */
export function view(_route, topic) {
  return [
    h(
      "section",
      { "aria-labelledby": "settings" },
      h("h2", { id: "settings" }, "Settings"),
      settings === null ? loading() : form(topic),
    ),
    h(
      "section",
      { "aria-labelledby": "now" },
      h("h2", { id: "now" }, "Housekeeping"),
      h("p", { class: "soft" }, "The cleaner does both automatically when they are due, and compresses."),
      h(
        "p",
        { class: "actions" },
        button("Compact now", () => housekeep(topic, "compact"), { disabled: !topic.retention.compact }),
        button("Expire now", () => housekeep(topic, "expire")),
      ),
    ),
    h(
      "section",
      { "aria-labelledby": "partitions" },
      h("h2", { id: "partitions" }, "Partitions"),
      h("p", { class: "soft" }, "Keys are assigned to the new number from then on; records stay where they are."),
      h(
        "form",
        { class: "form", key: topic.partitions, on: { submit: (event) => addPartitions(event, topic) } },
        field("partitions", "Number", `More than ${exact(topic.partitions)}.`, {
          value: String(topic.partitions + 1),
          inputmode: "numeric",
          pattern: "[0-9]+",
          required: true,
        }),
        h("p", { class: "actions" }, h("button", { type: "submit" }, "Add partitions")),
      ),
    ),
    h("section", { "aria-labelledby": "config" }, h("h2", { id: "config" }, "Configuration"), configuration(topic)),
    h(
      "section",
      { class: "grave", "aria-labelledby": "delete" },
      h("h2", { id: "delete" }, "Delete this topic"),
      h("p", null, "This deletes its records and the groups' committed offsets permanently."),
      h(
        "p",
        { class: "actions" },
        button("Delete …", () => deleteTopic(topic), { class: "danger" }),
      ),
    ),
  ];
}

function loading() {
  declared().then((found) => {
    settings = found.filter((one) => one.altered);
    refresh();
  }, complain);
  return h("p", { class: "soft" }, "Loading …");
}

function form(topic) {
  const config = { ...topic.config, retention: topic.retention, policies: topic.policies };
  return h(
    "form",
    { class: "form", key: JSON.stringify(config), on: { submit: (event) => alter(event, topic, config) } },
    settingFields(settings, config),
    h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Save settings")),
  );
}

function configuration(topic) {
  const rows = Object.entries(topic.config).filter(([name]) => name !== "retention");
  return h(
    "dl",
    { class: "facts wide" },
    h("dt", null, "id"),
    h("dd", { class: "code" }, topic.id),
    rows.map(([name, value]) => [h("dt", null, name), h("dd", { title: String(value) }, setting(name, value))]),
  );
}

function setting(name, value) {
  if (value === null) return h("span", { class: "soft" }, "not set");
  if (name.endsWith("_bytes")) return bytes(value);
  return SECONDS.has(name) ? duration(value) : exact(value);
}

async function alter(event, topic, config) {
  event.preventDefault();
  try {
    const changes = readSettings(settings, new FormData(event.target), config);
    if (!Object.keys(changes).length) throw new RangeError("Nothing is changed.");
    await ask("PATCH", path("topics", topic.name), { json: changes });
    notify("good", "The settings are changed in every partition.");
    refresh();
  } catch (error) {
    if (error instanceof RangeError) notify("bad", error.message);
    else complain(error);
  }
}

async function addPartitions(event, topic) {
  event.preventDefault();
  const partitions = Number(new FormData(event.target).get("partitions"));
  try {
    await ask("POST", path("topics", topic.name, "partitions"), { json: { partitions } });
    notify("good", `The topic has ${plural(partitions, "partition")}.`);
    refresh();
  } catch (error) {
    complain(error);
  }
}

async function housekeep(topic, what) {
  try {
    const { partitions } = await ask("POST", path("topics", topic.name, what));
    notify("good", outcome(what, Object.values(partitions)));
    refresh();
  } catch (error) {
    complain(error);
  }
}

function outcome(what, reports) {
  const sum = (name) => reports.reduce((total, report) => total + (Number(report?.[name]) || 0), 0);
  if (what === "expire") return `Checked ${plural(reports.length, "partition")} for expired segments.`;
  const freed = sum("bytes_before") - sum("bytes_after");
  return `Compacted ${plural(reports.length, "partition")}${freed > 0 ? ` and freed ${bytes(freed)}` : ""}.`;
}
