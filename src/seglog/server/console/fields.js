/* Fields of forms for retention, and what was written in them. */

import { h } from "./dom.js";
import { durationField, parseDuration, parseSize, sizeField } from "./units.js";

/** A field with its label and a word of explanation. */
export function field(name, text, hint, more) {
  const id = `field-${name}`;
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, text),
    h("input", {
      id,
      name,
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": hint && `${id}-hint`,
      ...more,
    }),
    hint && h("p", { class: "soft", id: `${id}-hint` }, hint),
  );
}

/** A box to check, with a word of explanation. */
const check = (name, checked, text, hint) =>
  h(
    "div",
    { class: "field" },
    h("label", { class: "check" }, h("input", { type: "checkbox", name, checked: Boolean(checked) }), ` ${text}`),
    h("p", { class: "soft" }, hint),
  );

/** The codec of sealed segments, with the present one selected. */
export function compressionField(present) {
  const codecs = [
    ["none", "none"],
    ["zstd", "zstd: smallest"],
    ["lz4", "lz4: fastest to read"],
  ];
  return h(
    "div",
    { class: "field" },
    h("label", { for: "field-compression" }, "Codec"),
    h(
      "select",
      { id: "field-compression", name: "compression", "aria-describedby": "field-compression-hint" },
      codecs.map(([value, text]) => h("option", { value, selected: value === (present ?? "none") }, text)),
    ),
    h(
      "p",
      { class: "soft", id: "field-compression-hint" },
      "Of sealed segments. Earlier versions of seglog refuse to open compressed ones.",
    ),
  );
}

/** The fields of a retention, filled with the present values. */
export function retentionFields(kept) {
  return h(
    "div",
    { class: "fields" },
    field("bytes", "At most", "Per partition: 512 MiB, 10 GB. Empty: no limit.", { value: sizeField(kept.bytes) }),
    field("age", "For", "Since a segment was sealed: 12 h, 7 d. Empty: forever.", { value: durationField(kept.age) }),
    kept.expire === false
      ? check(
          "expire",
          false,
          "Delete by size and age",
          "Kafka's cleanup.policy is compact: these limits are kept, and delete nothing.",
        )
      : null,
    check(
      "compact",
      kept.compact,
      "Only the latest record of each key",
      "Compaction deletes records that a later record of the same key supersedes.",
    ),
    check(
      "after",
      kept.after === "table",
      "Only after a table has them",
      "Nothing is deleted or compacted before seglog table sync has added it to a table.",
    ),
    h(
      "details",
      null,
      h("summary", null, "How it is compacted"),
      h(
        "div",
        { class: "fields" },
        field("delete_retention", "Tombstones stay for", "After their first compaction.", {
          value: durationField(kept.delete_retention ?? 86_400),
          required: true,
        }),
        field("min_dirty_ratio", "Compact from a dirty share of", "0 to 1.", {
          value: String(kept.min_dirty_ratio ?? 0.5),
          inputmode: "decimal",
          required: true,
        }),
        field("min_compaction_lag", "Not before", "No record is compacted before this time.", {
          value: durationField(kept.min_compaction_lag ?? 0),
          required: true,
        }),
        field("max_compaction_lag", "At the latest after", "Empty: no limit.", {
          value: durationField(kept.max_compaction_lag),
        }),
      ),
    ),
  );
}

/** What was written: the fields of a Retention; RangeError with a sentence where it cannot be read. */
export function readRetention(said) {
  const ratio = Number(said.get("min_dirty_ratio"));
  if (!(ratio >= 0 && ratio <= 1)) throw new RangeError("The dirty share must be a number between 0 and 1.");
  return {
    bytes: parseSize(said.get("bytes")),
    age: parseDuration(said.get("age")),
    ...(said.get("expire") === null ? {} : { expire: true }),
    compact: said.get("compact") !== null,
    after: said.get("after") === null ? "none" : "table",
    delete_retention: parseDuration(said.get("delete_retention")),
    min_dirty_ratio: ratio,
    min_compaction_lag: parseDuration(said.get("min_compaction_lag")),
    max_compaction_lag: parseDuration(said.get("max_compaction_lag")),
  };
}
