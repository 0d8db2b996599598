/* Consumer groups: members, assignment, and the lag of each partition. */

import { chart } from "./chart.js";
import { deleteGroup } from "./dialogs.js";
import { h } from "./dom.js";
import { button, empty, figure, groupLink, lagInWords, moment, refusal, since, sparkline, table, waiting } from "./parts.js";
import { resetGroup } from "./reset.js";
import { address } from "./route.js";
import { groupLags, groupRates, lagHistory, refresh, state } from "./store.js";
import { duration, plural } from "./units.js";
import { visibleName } from "./visible.js";

const GROUPS = [
  ["Group", "grows"],
  ["Members", "right"],
  ["Topics", "phrase"],
  ["Behind by", "right"],
];
const LAGS = [
  ["Topic", "grows"],
  ["Partition", "right"],
  ["Committed", "right"],
  ["Behind by", "right"],
  ["Last minutes", "wide"],
  ["Read by", "phrase"],
];
const MEMBERS = [
  ["Member", "grows"],
  ["Subscribed to", "phrase"],
  ["Reads", "phrase"],
  ["Last seen", "right"],
  ["Session", "right"],
];

/** A group's lag in records, in one topic or in all. */
export function totalLag(group, topic = null) {
  return Object.entries(group.lag ?? {})
    .filter(([name]) => topic === null || name === topic)
    .reduce((sum, [, lags]) => sum + Object.values(lags).reduce((one, other) => one + other, 0), 0);
}

/** The view: all groups, or one. */
export function view({ parts }) {
  return parts[1] ? oneGroup(parts[1]) : allGroups();
}

function allGroups() {
  return h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "heading" },
      h("h1", null, "Groups"),
      h("p", { class: "facts" }, state.groups && plural(state.groups.size, "group")),
    ),
    groupsTable(),
  );
}

function groupsTable() {
  if (state.problems.groups)
    return refusal(
      state.problems.groups,
      button("Try again", () => refresh()),
    );
  if (!state.groups) return waiting("groups");
  if (!state.groups.size) return empty("No consumer group yet. The first member or commit creates one.");
  return table(
    "Groups",
    GROUPS,
    [...state.groups].map(([name, group]) => ({ key: name, cells: groupCells(name, group) })),
  );
}

function groupCells(name, group) {
  const link = groupLink(name, { class: "name strong" });
  const refused = state.problems[`group ${name}`];
  if (!group) return [link, "", refused ? refused.message : h("span", { class: "soft" }, "open it to see"), ""];
  const topics = Object.keys(group.lag ?? {}).toSorted();
  const read = topics.map((topic, index) => [index > 0 && ", ", h("a", { href: address(["topics", topic]) }, topic)]);
  return [link, figure(group.members.length), read, behindBy(totalLag(group))];
}

function behindBy(lag) {
  return lag > 0 ? h("span", { class: "behind" }, figure(lag)) : h("span", { class: "good" }, "0");
}

function oneGroup(name) {
  const group = state.groups?.get(name);
  const problem = state.problems[`group ${name}`] ?? state.problems.group;
  return h(
    "div",
    { class: "page" },
    h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups")),
    h(
      "div",
      { class: "heading" },
      h("h1", null, visibleName(name)),
      h(
        "p",
        { class: "facts" },
        group && [
          plural(group.members.length, "member"),
          " · generation ",
          figure(group.generation),
          " · ",
          totalLag(group) ? plural(totalLag(group), "record") + " behind" : "up to date",
        ],
      ),
      group &&
        h(
          "div",
          { class: "actions" },
          button("Reset offsets", () => resetGroup(group, topicsOf(group))),
          button("Delete", () => deleteGroup(name), { class: "danger" }),
        ),
    ),
    group ? [lagSection(group), chartSection(group), memberSection(group)] : problem ? refusal(problem) : waiting(name),
  );
}

/** The topics in which a group may continue elsewhere: those that it reads first. */
function topicsOf(group) {
  const read = Object.keys(group.lag ?? {}).toSorted();
  return [...read, ...(state.topics ?? []).map(({ name }) => name).filter((name) => !read.includes(name))];
}

function lagSection(group) {
  return h(
    "section",
    { "aria-labelledby": "lag" },
    h("h2", { id: "lag" }, "Lag"),
    Object.keys(group.lag ?? {}).length
      ? lagTable(group.name, group, null)
      : empty("Nothing committed and nothing assigned yet."),
  );
}

function chartSection(group) {
  const topics = Object.keys(group.lag ?? {}).toSorted();
  const lines = (read) =>
    topics.map((name, index) => ({ name, tone: `tone-${index % 8}`, points: read(group.name, name) }));
  return (
    topics.length > 0 &&
    h(
      "section",
      { class: "charts", "aria-labelledby": "charts" },
      h("h2", { id: "charts" }, "Over time"),
      chart("Lag, in records", "", lines(groupLags)),
      chart("Records read per second", " /s", lines(groupRates)),
    )
  );
}

/** The lag of a group, partition by partition, of one topic or of all (null). */
export function lagTable(name, group, topic) {
  const rows = Object.entries(group.lag ?? {})
    .filter(([one]) => topic === null || one === topic)
    .flatMap(([one, lags]) => Object.entries(lags).map(([partition, lag]) => lagRow(name, group, one, partition, lag)));
  return table(`Lag of ${name}`, topic === null ? LAGS : LAGS.slice(1), topic === null ? rows : rows.map(withoutTopic));
}

const withoutTopic = ({ key, cells }) => ({ key, cells: cells.slice(1) });

function lagRow(name, group, topic, partition, lag) {
  const committed = group.committed?.[topic]?.[partition];
  const points = lagHistory(name, topic, partition);
  const owner = group.members.find((member) =>
    member.assignment.some(([one, number]) => one === topic && String(number) === partition),
  );
  return {
    key: `${topic} ${partition}`,
    cells: [
      h("a", { href: address(["topics", topic]) }, topic),
      h(
        "a",
        { class: "number", href: address(["topics", topic, "records"], { partition, at: committed ?? 0 }) },
        partition,
      ),
      committed === undefined ? h("span", { class: "soft" }, "nothing yet") : figure(committed),
      behindBy(lag),
      sparkline(points, lagInWords(points)),
      owner ? h("span", { class: "code" }, visibleName(owner.id)) : h("span", { class: "soft" }, "nobody"),
    ],
  };
}

function memberSection(group) {
  return h(
    "section",
    { "aria-labelledby": "members" },
    h("h2", { id: "members" }, "Members"),
    group.members.length
      ? table(
          "Members",
          MEMBERS,
          group.members.map((member) => ({ key: member.id, cells: memberCells(member) })),
        )
      : empty(
          "No members at present: the partitions are not read, or shared statically.",
          h("p", null, "Members that are Kafka's clients are on the page ", h("a", { href: "#/kafka" }, "Kafka"), "."),
        ),
  );
}

function memberCells(member) {
  const byTopic = Map.groupBy(member.assignment, ([topic]) => topic);
  const reads = [...byTopic].map(([topic, places]) => `${topic} ${places.map(([, number]) => number).join(", ")}`);
  return [
    h("span", { class: "code" }, visibleName(member.id)),
    member.topics.join(", "),
    reads.join(" · ") || h("span", { class: "soft" }, "nothing"),
    h("span", { title: member.seen_at }, typeof member.seen_at === "number" ? since(member.seen_at) : moment(0)),
    duration(member.session_timeout),
  ];
}
