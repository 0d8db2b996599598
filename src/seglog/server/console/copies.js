/* Copies of this server's topics with the lag of each, and what this server copies itself. */

import { h } from "./dom.js";
import { button, empty, figure, refusal, since, size, table, waiting } from "./parts.js";
import { address, current } from "./route.js";
import { refresh, state } from "./store.js";
import { duration, plural } from "./units.js";
import { visibleName } from "./visible.js";

const COPIES = [
  ["Topic", "grows"],
  ["Partition", "right"],
  ["Has all before", "right"],
  ["Behind by", "right"],
  ["Bytes", "right"],
  ["In sync", "right"],
  ["Last report", "right"],
];
const LAGS = [
  ["Topic", "grows"],
  ["Partition", "right"],
  ["Behind by", "right"],
  ["Bytes", "right"],
  ["For", "right"],
];
const IN_SYNC = "It has every record, or had at a time within the last 10 seconds.";
const PROBLEM = ["Problem", "phrase"];
const STATES = { copying: "copying", connecting: "leader not reached", stopped: "stopped" };

const sum = (partitions) => partitions.reduce((total, one) => total + one.records, 0);
const shown = (partitions) => partitions.filter(({ topic }) => !topic.startsWith("."));

/** A line above every page of a server that follows another one. */
export function line() {
  const follows = state.copies?.follows;
  if (!follows) return null;
  const good = follows.state === "copying";
  return h(
    "p",
    { class: `follows ${good ? "" : "apart"}`, role: "status" },
    h(
      "span",
      null,
      "Read-only copy of ",
      h("span", { class: "code" }, follows.leader),
      " · ",
      good ? lagPhrase(follows.partitions) : h("strong", null, STATES[follows.state]),
    ),
    current().parts[0] !== "copies" && h("a", { href: address(["copies"]) }, "Details"),
  );
}

function lagPhrase(partitions) {
  const records = sum(partitions);
  return records
    ? h("span", { class: "behind" }, `${plural(records, "record")} behind`)
    : h("span", { class: "good" }, "up to date");
}

/** The view. */
export function view() {
  return h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "heading" },
      h("h1", null, "Copies"),
      h("p", { class: "facts" }, state.copies && facts(state.copies)),
    ),
    content(),
  );
}

function facts({ copies, term }) {
  return [copies.length > 0 && plural(copies.length, "copy", "copies"), term > 0 && [" · term ", figure(term)]];
}

function content() {
  if (state.problems.copies)
    return refusal(
      state.problems.copies,
      button("Try again", () => refresh()),
    );
  if (!state.copies) return waiting("copies");
  const { follows, copies } = state.copies;
  if (!follows && !copies.length) {
    return empty(
      "Nothing copies the topics of this server, or your token may not see it.",
      h("p", null, "A copy on another machine:"),
      h("pre", null, `seglog serve /copy --follow ${location.origin}`),
    );
  }
  return [follows && followSection(follows), copies.map(copySection)];
}

function followSection(follows) {
  const partitions = shown(follows.partitions);
  return h(
    "section",
    { key: "follows", "aria-labelledby": "follows" },
    h(
      "h2",
      { id: "follows" },
      "Follows ",
      h("span", { class: "code" }, follows.leader),
      " ",
      h("small", null, STATES[follows.state], " · ", lagPhrase(partitions), follows.error && " when last reached"),
    ),
    follows.error && h("div", { class: "refusal", role: "alert" }, h("p", null, follows.error)),
    partitions.length ? lagTable(partitions) : empty("Nothing is copied yet."),
  );
}

function lagTable(partitions) {
  const problems = partitions.some(({ error }) => error);
  return table(
    "What is copied",
    problems ? [...LAGS, PROBLEM] : LAGS,
    partitions.map((one) => lagRow(one, problems)),
  );
}

function lagRow({ topic, partition, records, bytes, seconds, error }, problems) {
  return {
    key: `${topic} ${partition}`,
    cells: [
      h("a", { href: address(["topics", topic]) }, topic),
      figure(partition),
      behindBy(records),
      size(bytes),
      seconds ? duration(Math.ceil(seconds)) : h("span", { class: "soft" }, "–"),
      ...(problems ? [error ? h("span", { class: "behind" }, error) : h("span", { class: "soft" }, "none")] : []),
    ],
  };
}

function behindBy(records) {
  return records > 0 ? h("span", { class: "behind" }, figure(records)) : h("span", { class: "good" }, "0");
}

function copySection({ name, partitions }) {
  return h(
    "section",
    { key: name },
    h(
      "h2",
      null,
      h("span", { class: "code" }, visibleName(name)),
      " ",
      h("small", null, plural(partitions.length, "partition"), " · ", lagPhrase(partitions)),
    ),
    table(`What ${visibleName(name)} has`, COPIES, partitions.map(copyRow)),
  );
}

function copyRow({ topic, partition, copy, offset, records, bytes, in_sync: inSync, seen }) {
  return {
    key: copy,
    cells: [
      h("a", { href: address(["topics", topic]) }, topic),
      figure(partition),
      figure(offset),
      behindBy(records),
      size(bytes),
      h("span", { class: inSync ? "good" : "behind", title: IN_SYNC }, inSync ? "yes" : "no"),
      seen ? since(seen) : h("span", { class: "soft" }, "unknown"),
    ],
  };
}
