/* Records as rows that open: what browsing and the live tail have in common. */

import { path, raw } from "./api.js";
import { decoded, fieldsPane } from "./decoded.js";
import { h } from "./dom.js";
import { moment } from "./parts.js";
import { address } from "./route.js";
import { changed } from "./store.js";
import { exact, time, timeTitle } from "./units.js";
import { bytesOf, keyOf, oneLine, previewOf, valuePane } from "./value.js";

const opened = new Map(); // name of a record -> how its value is shown

const nameOf = (topic, record) => `${topic} ${record.partition} ${record.offset} ${record.timestamp}`;

/** A list of records. `partitions`: whether to show each record's; `mark`: an offset to highlight. */
export function list(topic, records, { partitions = false, mark = null, label = "Records" } = {}) {
  return h(
    "div",
    { class: `records${partitions ? " many" : ""}` },
    h(
      "div",
      { class: "rowhead", "aria-hidden": "true" },
      h("span", null, "Offset"),
      h("span", null, "Time"),
      h("span", null, "Key"),
      h("span", null, "Value"),
    ),
    h(
      "ol",
      { "aria-label": label },
      records.map((record) => row(topic, record, partitions, record.offset === mark)),
    ),
  );
}

function row(topic, record, partitions, marked) {
  const name = nameOf(topic, record);
  const look = opened.get(name);
  const memo = JSON.stringify([look ?? null, partitions, marked, innerWidth < 700]);
  return h("li", { key: name, class: `record${marked ? " marked" : ""}`, memo }, () => [
    h(
      "button",
      { type: "button", class: "row", "aria-expanded": String(Boolean(look)), on: { click: () => toggle(topic, record, name) } },
      h(
        "span",
        { class: "offset number", title: exact(record.offset) },
        partitions && h("span", { class: "soft" }, `${record.partition}/`),
        record.offset,
      ),
      h("span", { class: "when number", title: timeTitle(record.timestamp) }, time(record.timestamp)),
      h("span", { class: "key" }, keyOf(record)),
      h(
        "span",
        { class: "preview" },
        record.headers.length > 0 &&
          h("span", { class: "badge quiet", title: "headers" }, `${record.headers.length} h`),
        previewOf(record),
      ),
    ),
    look && details(topic, record, name, look),
  ]);
}

function toggle(topic, record, name) {
  if (opened.has(name)) opened.delete(name);
  else {
    opened.set(name, {});
    decoded(topic, record).then((found) => {
      if (!found || !opened.has(name)) return;
      opened.set(name, { ...opened.get(name), decoded: found });
      changed();
    });
  }
  changed();
}

function details(topic, record, name, look) {
  const change = (what) => {
    opened.set(name, { ...look, ...what });
    changed();
  };
  return h(
    "div",
    { class: "details" },
    h(
      "dl",
      null,
      h("dt", null, "Partition"),
      h("dd", { class: "number" }, record.partition),
      h("dt", null, "Offset"),
      h("dd", null, h("span", { class: "number" }, exact(record.offset)), " ", linkTo(topic, record)),
      h("dt", null, "Timestamp"),
      h("dd", null, moment(record.timestamp), " ", h("span", { class: "soft number" }, `${record.timestamp} µs`)),
      h("dt", null, "Key"),
      h(
        "dd",
        null,
        keyOf(record),
        " ",
        record.key !== null && h("a", { href: keyAddress(topic, record) }, "records of this key"),
      ),
      record.headers.map((header) => [
        h("dt", null, h("bdi", { class: "code" }, oneLine(header.key))),
        h(
          "dd",
          null,
          header.value === null
            ? h("span", { class: "soft" }, "null")
            : h("bdi", { class: "code" }, oneLine(header.value, 2000)),
        ),
      ]),
    ),
    h(
      "div",
      { class: look.decoded?.unfit === null || look.decoded?.fields.length ? "forms beside" : "forms" },
      fieldsPane(look.decoded),
      valuePane(record, look, change, () => wholeValue(topic, record)),
    ),
  );
}

/** An address of one record, to keep or to send to others. */
const linkTo = (topic, { partition, offset }) =>
  h("a", { href: address(["topics", topic, "records"], { partition, at: offset }) }, "link to this record");

const wholeValue = (topic, { partition, offset }) =>
  raw(path("topics", topic, "partitions", partition, "records", offset));

function keyAddress(topic, record) {
  const text = typeof record.key === "string";
  const key = text
    ? record.key
    : Array.from(bytesOf(record.key), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return address(["topics", topic, "records"], {
    by: "key",
    key: key === "" ? null : key,
    hex: text ? null : 1,
    any: 1,
  });
}
