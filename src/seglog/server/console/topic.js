/* One topic: its heading and the pages under it. */

import * as append from "./append.js";
import { h } from "./dom.js";
import { lagTable, totalLag } from "./groups.js";
import { behind, empty, figure, groupLink, refusal, retention, size, sparkline, waiting } from "./parts.js";
import * as rates from "./rates.js";
import * as records from "./records.js";
import * as search from "./search.js";
import { address } from "./route.js";
import * as segments from "./segments.js";
import * as settings from "./settings.js";
import { appendRates, state } from "./store.js";
import * as tail from "./tail.js";
import { count, plural } from "./units.js";

const TABS = [
  ["segments", "Segments", segments],
  ["records", "Records", records],
  ["search", "Search", search],
  ["tail", "Live", tail],
  ["rates", "Rates", rates],
  ["groups", "Groups", { view: groupsView }],
  ["append", "Append", append],
  ["settings", "Settings", settings],
];

const RATES_SHOWN = 150; // about five minutes

const tabOf = ({ parts }) => TABS.find(([name]) => name === parts[2]) ?? TABS[0];

let entered = null;

/** Called where one comes to a topic, or to another page of it. */
export function enter(route) {
  const [, , page] = tabOf(route);
  if (entered && entered !== page) entered.leave?.();
  entered = page;
  page.enter?.(route);
}

/** Called where one leaves the topic. */
export function leave() {
  entered?.leave?.();
  entered = null;
}

/** The view. */
export function view(route) {
  const name = route.parts[1];
  const topic = state.topic?.name === name ? state.topic : null;
  const [shown, , page] = tabOf(route);
  return h(
    "div",
    { class: "page", key: name },
    h("p", { class: "crumbs" }, h("a", { href: "#/topics" }, "Topics")),
    h(
      "div",
      { class: "heading" },
      h("h1", null, name),
      h("p", { class: "facts" }, topic && facts(topic)),
      topic && rate(topic),
    ),
    h(
      "nav",
      { class: "tabs", "aria-label": `Pages of ${name}` },
      TABS.map(([tab, text]) =>
        h("a", { key: tab, href: address(["topics", name, tab]), "aria-current": tab === shown ? "page" : null }, text),
      ),
    ),
    state.problems.topic
      ? refusal(state.problems.topic, h("p", null, h("a", { href: "#/topics" }, "All topics")))
      : topic
        ? h("div", { class: "tab", key: shown }, page.view(route, topic))
        : waiting(name),
  );
}

function facts(topic) {
  return [
    plural(topic.partitions, "partition"),
    " · ",
    figure(topic.records),
    " records · ",
    size(topic.bytes),
    " · ",
    retention(topic.retention),
  ];
}

function rate(topic) {
  const points = appendRates(topic.name).slice(-RATES_SHOWN);
  const now = points.at(-1)?.value ?? 0;
  const words = `${count(Math.round(now))} records/s appended`;
  return h(
    "p",
    { class: "rate" },
    sparkline(points, words),
    h("span", { class: "number" }, `${count(Math.round(now))} /s`),
  );
}

function groupsView(_route, topic) {
  const found = [...(state.groups ?? [])].filter(([, group]) => group && topic.name in (group.lag ?? {}));
  if (state.problems.groups) return refusal(state.problems.groups);
  if (!found.length) return empty("No group reads this topic: none subscribes to it or has committed an offset.");
  return found.map(([name, group]) =>
    h(
      "section",
      { key: name },
      h(
        "h2",
        null,
        groupLink(name),
        " ",
        h("small", null, `${plural(group.members.length, "member")} · ${behind(totalLag(group, topic.name))}`),
      ),
      lagTable(name, group, topic.name),
    ),
  );
}
