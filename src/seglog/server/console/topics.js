/* All topics: what each holds and keeps, and a way to make one. */

import { createTopic } from "./dialogs.js";
import { h } from "./dom.js";
import { totalLag } from "./groups.js";
import { button, empty, figure, groupLink, refusal, retention, size, table, waiting } from "./parts.js";
import { address } from "./route.js";
import { refresh, state } from "./store.js";
import { plural } from "./units.js";

const COLUMNS = [
  ["Topic", "grows"],
  ["Partitions", "right"],
  ["Records", "right"],
  ["Size", "right"],
  ["Keeps", "phrase"],
  ["Read by", "phrase"],
];

/** The view. */
export function view() {
  return h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "heading" },
      h("h1", null, "Topics"),
      h("p", { class: "facts" }, state.topics && summary(state.topics)),
      h(
        "div",
        { class: "actions" },
        button("New topic", () => createTopic(), { class: "primary" }),
      ),
    ),
    state.failures.map(failing),
    content(),
  );
}

function failing({ log, error }) {
  return h(
    "div",
    { class: "refusal", role: "alert", key: log },
    h("p", null, h("strong", null, log || "Housekeeping"), ` has a problem: ${error}`),
  );
}

function content() {
  if (state.problems.topics)
    return refusal(
      state.problems.topics,
      button("Try again", () => refresh()),
    );
  if (!state.topics) return waiting("topics");
  if (!state.topics.length) {
    return empty(
      "There are no topics, or none that your token may read.",
      h("p", null, "Create one here, or over HTTP:"),
      h("pre", null, [
        `curl -X POST ${location.origin}/topics -H 'Content-Type: application/json' \\\n`,
        `  -d '{"name": "orders", "partitions": 4}'`,
      ]),
    );
  }
  return table(
    "Topics",
    COLUMNS,
    state.topics.map((topic) => ({ key: topic.name, cells: cells(topic) })),
  );
}

function cells(topic) {
  return [
    h("a", { class: "name strong", href: address(["topics", topic.name]) }, topic.name),
    figure(topic.partitions),
    figure(topic.records),
    size(topic.bytes),
    retention(topic.retention),
    readers(topic.name),
  ];
}

function readers(topic) {
  const found = [...(state.groups ?? [])].filter(([, group]) => group && topic in (group.lag ?? {}));
  if (!found.length) return h("span", { class: "soft" }, "no group");
  return h(
    "span",
    null,
    found
      .slice(0, 4)
      .map(([name, group], index) => [
        index > 0 && ", ",
        groupLink(name, { key: name }),
        " ",
        behindBy(totalLag(group, topic)),
      ]),
    found.length > 4 && ` and ${found.length - 4} more`,
  );
}

function behindBy(lag) {
  return lag > 0
    ? h("span", { class: "behind" }, "−", figure(lag))
    : h("span", { class: "good", title: "up to date" }, "✓");
}

function summary(topics) {
  const sum = (field) => topics.reduce((total, topic) => total + topic[field], 0);
  return [plural(topics.length, "topic"), " · ", plural(sum("records"), "record"), " · ", size(sum("bytes"))];
}
