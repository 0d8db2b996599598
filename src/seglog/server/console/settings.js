/* What a topic keeps and how: shown, changed, and the topic deleted. */

import { ask, path } from "./api.js";
import { deleteTopic } from "./dialogs.js";
import { h } from "./dom.js";
import { compressionField, field, readRetention, retentionFields } from "./fields.js";
import { button } from "./parts.js";
import { complain, notify, refresh } from "./store.js";
import { bytes, duration, exact, plural } from "./units.js";

const SECONDS = new Set(["segment_age", "flush_interval"]);

/** The view. */
export function view(_route, topic) {
  return [
    h(
      "section",
      { "aria-labelledby": "retention" },
      h("h2", { id: "retention" }, "Retention"),
      h(
        "form",
        { class: "form", key: JSON.stringify(topic.retention), on: { submit: (event) => alter(event, topic) } },
        retentionFields(topic.retention),
        h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Save retention")),
      ),
    ),
    h(
      "section",
      { "aria-labelledby": "compression" },
      h("h2", { id: "compression" }, "Compression"),
      h(
        "form",
        { class: "form", key: topic.config.compression ?? "none", on: { submit: (event) => compress(event, topic) } },
        compressionField(topic.config.compression),
        h("p", { class: "actions" }, h("button", { type: "submit" }, "Save codec")),
      ),
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

async function alter(event, topic) {
  event.preventDefault();
  try {
    const retention = readRetention(new FormData(event.target));
    await ask("PATCH", path("topics", topic.name), { json: { retention } });
    notify("good", "The retention is changed in every partition.");
    refresh();
  } catch (error) {
    if (error instanceof RangeError) notify("bad", error.message);
    else complain(error);
  }
}

async function compress(event, topic) {
  event.preventDefault();
  try {
    const compression = new FormData(event.target).get("compression");
    await ask("PATCH", path("topics", topic.name), { json: { compression } });
    notify("good", "The codec is changed; the cleaner stores the sealed segments again.");
    refresh();
  } catch (error) {
    complain(error);
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
