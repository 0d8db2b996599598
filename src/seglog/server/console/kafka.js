/* Kafka's clients: their connections, the groups with members, and the producers, each in pages. */

import { h } from "./dom.js";
import { button, empty, figure, groupLink, refusal, since, size, table, waiting } from "./parts.js";
import { address } from "./route.js";
import { refresh, state } from "./store.js";
import { duration, plural } from "./units.js";
import { visibleName } from "./visible.js";
import { oneLine } from "./value.js";

const CONNECTIONS = [
  ["Client", "grows"],
  ["Address", "phrase whole"],
  ["Token", "phrase whole"],
  ["Connected", "right"],
  ["Last request", "right"],
  ["Requests", "right"],
];
const MEMBERS = [
  ["Member", "grows"],
  ["Client", "phrase"],
  ["Reads", "phrase"],
  ["Behind by", "right"],
  ["Session", "right"],
];
const IDS = [
  ["Transactional id", "grows"],
  ["State", "phrase"],
  ["Since", "right"],
  ["Epoch", "right"],
  ["Token", "phrase"],
  ["Staged", "right"],
  ["Partitions and groups", "phrase"],
];
const OPEN = ["open", "decided"];
const STATES = { decided: "committed, being published" };

const soft = (text) => h("span", { class: "soft" }, text);
const shown = (text) => h("bdi", { class: "code" }, visibleName(text.slice(0, 200)));

/** The view. */
export function view({ query }) {
  const { connections, groups, producers } = state.kafka ?? {};
  return h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "heading" },
      h("h1", null, "Kafka"),
      h("p", { class: "facts" }, connections?.address && ["Clients connect to ", shown(connections.address)]),
    ),
    state.problems.kafka
      ? refusal(
          state.problems.kafka,
          button("Try again", () => refresh()),
        )
      : !state.kafka
        ? waiting("clients")
        : connections.address === null
          ? notSpoken()
          : [
              listing("connections", "Connections", connections, query, connectionTable, "No client is connected."),
              listing("groups", "Groups with members", groups, query, groupTables, "No member of a group is connected."),
              listing("producers", "Transactional ids", producers, query, idTable, "No client has used transactions."),
              idempotent(producers.idempotent),
            ],
  );
}

function notSpoken() {
  return empty(
    "This server does not speak Kafka's protocol.",
    h("p", null, "Start it with:"),
    h("pre", null, "seglog serve ROOT --kafka 127.0.0.1:9092"),
  );
}

/** One list with its pages; the address has where a page begins. */
function listing(name, title, { total, entries, after }, query, content, none) {
  const to = (begin) => address(["kafka"], { ...query, [name]: begin });
  const more = after !== null || query[name];
  return h(
    "section",
    { key: name, "aria-labelledby": `kafka-${name}` },
    h("h2", { id: `kafka-${name}` }, title, " ", h("small", null, figure(total))),
    entries.length ? content(entries) : empty(query[name] ? "Nothing follows." : none),
    more &&
      h(
        "p",
        { class: "pager" },
        query[name] ? h("a", { href: to(null) }, "From the beginning") : soft(`The first ${entries.length}`),
        after !== null && h("a", { href: to(after) }, "More"),
      ),
  );
}

function connectionTable(entries) {
  return table(
    "Connections",
    CONNECTIONS,
    entries.map((one) => ({
      key: one.id,
      cells: [
        clientOf(one),
        shown(one.address),
        one.token === null ? h("span", { class: "behind" }, "not authenticated") : shown(one.token),
        since(one.connected_at),
        since(one.used_at),
        figure(one.requests),
      ],
    })),
  );
}

/** What a client calls itself, and its library. */
function clientOf({ client, software, version }) {
  const name = client ? shown(client) : soft("no name");
  return software ? [name, " ", h("small", { class: "soft" }, h("bdi", null, oneLine(`${software} ${version}`)))] : name;
}

function groupTables(entries) {
  return entries.map((group) =>
    h(
      "section",
      { key: group.name },
      h(
        "h3",
        null,
        groupLink(group.name),
        " ",
        h(
          "small",
          null,
          `${plural(group.count, "member")} · ${group.state} · generation ${group.generation}`,
          group.protocol && [" · ", shown(group.protocol)],
          " · ",
          behind(group.lag),
        ),
      ),
      table(`Members of ${visibleName(group.name)}`, MEMBERS, group.members.map(memberRow)),
      group.members.length < group.count && h("p", { class: "hint" }, `The first ${group.members.length}.`),
    ),
  );
}

function behind(lag) {
  return lag > 0
    ? h("span", { class: "behind" }, `${plural(lag, "record")} behind`)
    : h("span", { class: "good" }, "up to date");
}

function memberRow({ id, instance, client, address: host, session, partitions, complete }) {
  const lags = (partitions ?? []).map(({ lag }) => lag);
  const known = lags.filter((lag) => lag !== null);
  const lag = known.reduce((one, other) => one + other, 0);
  return {
    key: id,
    cells: [
      [shown(instance ?? id), instance !== null && [" ", h("span", { class: "badge quiet" }, "static")]],
      [client ? shown(client) : soft("no name"), " ", soft(host)],
      reads(partitions, complete),
      !known.length
        ? soft(lags.length ? "nothing committed" : "–")
        : h("span", { class: lag > 0 ? "behind" : "good" }, figure(lag)),
      duration(session),
    ],
  };
}

function reads(partitions, complete) {
  if (partitions === null) return soft("unknown: not a consumer's assignment");
  if (!partitions.length) return soft("nothing");
  const places = [...Map.groupBy(partitions, ({ topic }) => topic)].map(([topic, all], index) => [
    index > 0 && " · ",
    shown(topic),
    ` ${all.map(({ partition }) => partition).join(", ")}`,
  ]);
  return [places, !complete && " …"];
}

function idTable(entries) {
  return table(
    "Transactional ids",
    IDS,
    entries.map((one) => ({ key: one.id, cells: idCells(one) })),
  );
}

function idCells(one) {
  const open = OPEN.includes(one.state);
  const places = [...Map.groupBy(one.partitions, ([topic]) => topic)].map(
    ([topic, all]) => `${topic} ${all.map(([, number]) => number).join(", ")}`,
  );
  const groups = one.groups.map((group) => `group ${group}`);
  const limit = `An open transaction is aborted after ${duration(one.timeout)}.`;
  return [
    shown(one.id),
    open
      ? h("span", { class: "badge", title: limit }, STATES[one.state] ?? one.state)
      : one.state === "empty"
        ? soft("none yet")
        : one.state,
    since(one.used_at),
    figure(one.epoch),
    shown(one.token),
    open ? [plural(one.records, "record"), ", ", size(one.bytes)] : soft("–"),
    open ? oneLine([...places, ...groups].join(" · "), 2000) + (one.complete ? "" : " …") : soft("–"),
  ];
}

function idempotent({ producers, partitions }) {
  return h(
    "section",
    { key: "idempotent", "aria-labelledby": "idempotent" },
    h("h2", { id: "idempotent" }, "Idempotent producers"),
    h(
      "p",
      null,
      producers
        ? `${plural(producers, "producer")} remembered in ${plural(partitions, "partition")}; one that writes to ` +
            "several partitions counts in each."
        : "None since the server started.",
    ),
  );
}
