/* Moving a consumer group to other offsets. */

import { ask, path } from "./api.js";
import { show } from "./dialogs.js";
import { field } from "./fields.js";
import { h } from "./dom.js";
import { notify, refresh } from "./store.js";
import { visibleName } from "./visible.js";

const PLACES = [
  ["earliest", "the earliest records"],
  ["latest", "the end: only new records"],
  ["time", "a time"],
  ["offset", "an offset of one partition"],
];

/** Ask where a group shall continue in one of its topics, or in another one, and set its offsets. */
export function resetGroup(group, topics) {
  show({
    title: `Reset the offsets of ${visibleName(group.name)}`,
    action: "Reset",
    kind: "danger",
    body: [
      h("p", null, "The group reads on from there. It may have no members meanwhile: stop its consumers first."),
      choice("topic", "Topic", topics.map((name) => [name, name])),
      choice("place", "Continue at", PLACES),
      field("time", "Time", "For a time: the first record at or after it, in this browser's time zone.", {
        type: "datetime-local",
        step: "0.001",
      }),
      h(
        "div",
        { class: "fields" },
        field("partition", "Partition", "For an offset.", { inputmode: "numeric", pattern: "[0-9]*" }),
        field("offset", "Offset", "The next offset to read.", { inputmode: "numeric", pattern: "[0-9]*" }),
      ),
    ],
    submit: async (said) => {
      const topic = said.get("topic");
      const offsets = await wanted(topic, said);
      await ask("POST", path("groups", group.name, "offsets"), { json: { offsets: { [topic]: offsets } } });
      notify("good", `${visibleName(group.name)} continues in ${topic} at other offsets.`);
      refresh();
    },
  });
}

const choice = (name, text, options) =>
  h(
    "div",
    { class: "field" },
    h("label", { for: `field-${name}` }, text),
    h(
      "select",
      { id: `field-${name}`, name },
      options.map(([value, shown]) => h("option", { value }, shown)),
    ),
  );

/** The offsets that were chosen: partition -> offset; RangeError with a sentence where a field is missing. */
async function wanted(topic, said) {
  const place = said.get("place");
  if (place === "offset") {
    if (!said.get("partition") || !said.get("offset")) throw new RangeError("Enter a partition and an offset.");
    return { [said.get("partition")]: Number(said.get("offset")) };
  }
  const { partition_states: states } = await ask("GET", path("topics", topic));
  const ends = states.map((one) => [one.partition, place === "earliest" ? one.lowest_offset : one.next_offset]);
  if (place !== "time") return Object.fromEntries(ends);
  if (!said.get("time")) throw new RangeError("Enter a time.");
  const timestamp = new Date(said.get("time")).getTime() * 1000;
  const moment = { timestamp, force_timestamp: "true" }; // its unit is known, also in 1970
  const { offsets } = await ask("GET", path("topics", topic, "offsets"), { query: moment });
  return Object.fromEntries(ends.map(([partition, end]) => [partition, offsets[partition] ?? end]));
}
