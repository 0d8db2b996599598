/* Browsing a partition's records: by offset, by time, by key, and from page to page both ways. */

import { Problem, Unreachable } from "./api.js";
import { h } from "./dom.js";
import { load } from "./finding.js";
import { pageBefore } from "./paging.js";
import { button, empty, refusal, waiting } from "./parts.js";
import { address, go } from "./route.js";
import * as rows from "./rows.js";
import { changed } from "./store.js";
import { exact, plural } from "./units.js";

const WAYS = [
  ["offset", "Offset"],
  ["time", "Time"],
  ["key", "Key"],
];

let page = { where: null }; // the shown records, and their address
let under = null; // AbortController of the running request

/** Load the records of the address, unless they are shown already. */
export function enter(route) {
  const where = location.hash;
  if (page.where === where && !page.problem) return;
  under?.abort();
  under = new AbortController();
  page = { where, loading: true, before: page.records ?? [] };
  load(route, under.signal).then(
    (found) => settle(where, found),
    (error) => error.name === "AbortError" || settle(where, { problem: error }),
  );
}

/** Drop the shown records. */
export function leave() {
  under?.abort();
  page = { where: null };
}

function settle(where, found) {
  if (page.where !== where) return;
  if (found.problem && !(found.problem instanceof Problem || found.problem instanceof Unreachable)) throw found.problem;
  page = { where, ...found };
  changed();
}

/** The view. */
export function view(route, topic) {
  return [form(route, topic), page.loading && !page.before.length ? waiting("records") : content(route, topic)];
}

function form(route, topic) {
  const { query } = route;
  const by = query.by ?? "offset";
  const to = (more) => go(route.parts, { partition: query.partition, by: by === "offset" ? null : by, ...more });
  const submit = (event) => {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(event.target));
    to({
      partition: said.partition ?? query.partition,
      at: said.at,
      time: said.time,
      key: said.key,
      hex: said.hex && 1,
      any: by === "key" ? 1 : null,
    });
  };
  return h(
    "form",
    { class: "toolbar", on: { submit } },
    h(
      "div",
      { class: "switch", role: "group", "aria-label": "Browse by" },
      WAYS.map(([way, text]) =>
        button(text, () => go(route.parts, { partition: query.partition, by: way === "offset" ? null : way }), {
          key: way,
          "aria-pressed": String(way === by),
        }),
      ),
    ),
    by !== "key" && topic.partitions > 1 && partitionField(query, topic, to),
    field(by, query),
    h("button", { class: "primary", type: "submit", key: "go" }, "Go"),
  );
}

function partitionField(query, topic, to) {
  const change = (event) => to({ partition: event.target.value, time: query.time });
  return h(
    "label",
    { key: "partition" },
    "Partition ",
    h(
      "select",
      { name: "partition", value: query.partition ?? "0", on: { change } },
      topic.partition_states.map(({ partition }) => h("option", { value: partition }, partition)),
    ),
  );
}

function field(by, query) {
  if (by === "time") {
    return h(
      "label",
      { key: "time" },
      "At or after ",
      h("input", { name: "time", type: "datetime-local", step: "0.001", value: query.time ?? "", required: true }),
    );
  }
  if (by === "key") {
    return [
      h(
        "label",
        { key: "key", class: "wide" },
        "Key ",
        h("input", { name: "key", type: "text", value: query.key ?? "", autocomplete: "off", spellcheck: "false" }),
      ),
      h(
        "label",
        { key: "hex", class: "check" },
        h("input", { name: "hex", type: "checkbox", checked: Boolean(query.hex) }),
        " in hex",
      ),
    ];
  }
  const shown = query.at === "newest" ? "" : (query.at ?? "");
  return h(
    "label",
    { key: "at" },
    "From offset ",
    h("input", {
      name: "at",
      inputmode: "numeric",
      pattern: "[0-9]*",
      title: "a whole number; empty: the newest records",
      placeholder: "newest",
      value: shown,
      autocomplete: "off",
    }),
  );
}

function content(route, topic) {
  if (page.problem) return trouble(route);
  if (page.ask) return empty("Enter a key to see its records that still exist, newest last.");
  const records = page.records ?? page.before ?? [];
  return h(
    "div",
    { "aria-busy": String(Boolean(page.loading)), class: page.loading ? "stale" : "" },
    page.note && h("p", { class: "hint", role: "status" }, page.note),
    page.offsets && otherPartitions(route),
    !page.keyed && pages(route, topic),
    records.length
      ? rows.list(topic.name, records, { partitions: page.keyed && topic.partitions > 1, mark: page.mark })
      : nothing(),
    page.keyed && keyPage(route),
    !page.keyed && records.length > 20 && pages(route, topic),
  );
}

function nothing() {
  if (page.loading) return null;
  if (page.keyed) return empty("There is no record with that key.");
  if (page.note) return null;
  const next = page.bounds?.next_offset;
  return empty(
    next
      ? `No record from offset ${exact(page.start)} on; the next append gets offset ${exact(next)}.`
      : "This partition has no records yet.",
  );
}

function trouble(route) {
  const { problem } = page;
  const to = (at) => () => go(route.parts, { partition: route.query.partition, at });
  const lowest = problem.said?.error === "OffsetOutOfRange" ? problem.said.lowest_offset : undefined;
  return refusal(
    problem,
    h(
      "p",
      { class: "actions" },
      lowest !== undefined && [
        button(`Lowest offset, ${exact(lowest)}`, to(lowest)),
        button("Newest records", to("newest")),
      ],
      lowest === undefined && button("Try again", () => enter(route)),
    ),
  );
}

function otherPartitions(route) {
  const found = Object.entries(page.offsets);
  if (found.length < 2) return null;
  return h(
    "p",
    { class: "hint" },
    "First offset at that time: ",
    found.map(([partition, offset], index) => [
      index > 0 && " · ",
      `partition ${partition}: `,
      offset === null
        ? h("span", { class: "soft" }, "none")
        : h("a", { class: "number", href: address(route.parts, { ...route.query, partition }) }, exact(offset)),
    ]),
  );
}

/** Go to a place on this page, or reload it. */
function visit(route, query) {
  if (address(route.parts, query) !== location.hash) return go(route.parts, query);
  page.where = null;
  enter({ ...route, query });
  return changed();
}

function pages(route, topic) {
  if (!page.bounds) return null;
  const { partition, records = [], next } = page;
  const known = topic.partition_states[partition];
  const first = records[0]?.offset ?? page.start;
  const to = (at) => visit(route, { partition, at });
  const older = async () => {
    try {
      to(await pageBefore(topic.name, partition, known.lowest_offset, first));
    } catch (problem) {
      settle(page.where, { problem });
    }
  };
  const none = first <= known.lowest_offset;
  return h(
    "div",
    { class: "pager" },
    button("Oldest", () => to(known.lowest_offset), { disabled: none }),
    button("Older", older, { disabled: none }),
    h(
      "span",
      { class: "number" },
      records.length ? `${exact(first)} … ${exact(records.at(-1).offset)}` : "–",
      " of ",
      known.next_offset > known.lowest_offset
        ? `${exact(known.lowest_offset)} … ${exact(known.next_offset - 1)}`
        : "–",
    ),
    button("Newer", () => to(next), { disabled: next >= known.next_offset }),
    button("Newest", () => to("newest"), { disabled: next >= known.next_offset }),
  );
}

function keyPage(route) {
  return h(
    "div",
    { class: "pager" },
    h("span", null, plural(page.records.length, "record"), page.more ? ", the newest of them" : ""),
    page.more && button("More", () => go(route.parts, { ...route.query, max: page.more })),
  );
}
