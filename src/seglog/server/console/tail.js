/*
 * Records as they are appended: server-sent events, read by fetch so that the token goes along.
 *
 * The newest 500 are kept. A broken stream is resumed after the last event; while paused, records are still received,
 * so that only those are missed that 500 newer ones displace.
 */

import { ask, call, path, Problem, Unreachable } from "./api.js";
import { h } from "./dom.js";
import { button, empty, refusal } from "./parts.js";
import { go } from "./route.js";
import * as rows from "./rows.js";
import { changed } from "./store.js";
import { count, duration, plural } from "./units.js";
import { oneLine } from "./value.js";

const KEPT = 500;
const DRAW_MS = 120;
const MOST_IN_HEADER = 500;
const LONGEST_WAIT_MS = 10_000;

let tail = null;

/** Start to follow what the address names, unless it is followed already. */
export function enter({ parts: [, topic], query }) {
  const where = JSON.stringify([topic, query.partition]);
  if (tail?.where === where) return;
  leave();
  tail = {
    where,
    topic,
    query,
    records: [],
    held: [],
    paused: false,
    status: "connecting",
    received: 0,
    last: null,
    text: "",
    stop: new AbortController(),
    problem: null,
  };
  listen(tail);
}

/** Stop listening. */
export function leave() {
  tail?.stop.abort();
  tail = null;
}

async function listen(mine) {
  let failures = 0;
  while (!mine.stop.signal.aborted) {
    try {
      mine.last ??= await ends(mine);
      await stream(mine, () => {
        failures = 0;
      });
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Problem && ![429, 503].includes(error.status)) {
        Object.assign(mine, { problem: error, status: "refused" });
        return changed();
      }
      if (!(error instanceof Problem || error instanceof Unreachable || error instanceof TypeError)) throw error;
    }
    failures += 1;
    const wait = Math.min(LONGEST_WAIT_MS, 250 * 2 ** failures);
    Object.assign(mine, { status: "waiting", wait });
    changed();
    await Promise.race([
      new Promise((resolve) => {
        setTimeout(resolve, wait);
      }),
      new Promise((resolve) => {
        addEventListener("answered-again", resolve, { once: true });
      }),
    ]);
  }
}

/** Where the partitions end now, as an event's id: from here on nothing is missed, even if the first event is late.
 *  Null if the partitions are too many for a header. */
async function ends(mine) {
  const topic = await ask("GET", path("topics", mine.topic), { signal: mine.stop.signal });
  const heard = topic.partition_states.filter(
    ({ partition }) => !mine.query.partition || String(partition) === mine.query.partition,
  );
  if (heard.length > MOST_IN_HEADER) return null;
  return `{${heard.map((one) => `"${one.partition}": ${one.next_offset}`).join(", ")}}`; // spaces as the server has them
}

async function stream(mine, opened) {
  const headers = { Accept: "text/event-stream", ...(mine.last && { "Last-Event-ID": mine.last }) };
  const { partition } = mine.query;
  const response = await call("GET", path("topics", mine.topic, "tail"), {
    query: { partition },
    headers,
    signal: mine.stop.signal,
  });
  opened();
  mine.status = "live";
  changed();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = events.pop();
    for (const event of events) take(mine, event);
  }
}

function take(mine, event) {
  const fields = { data: [] };
  for (const line of event.split("\n")) {
    const [, name, content] = /^([a-z]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === "data") fields.data.push(content);
    else if (name) fields[name] = content;
  }
  if (fields.id) mine.last = fields.id;
  if (!fields.data.length) return;
  if (fields.event === "error") {
    const said = JSON.parse(fields.data.join("\n"));
    throw new Problem(said.status, said);
  }
  mine.received += 1;
  mine.held.push(JSON.parse(fields.data.join("\n")));
  if (mine.held.length > KEPT) mine.held.splice(0, mine.held.length - KEPT);
  if (!mine.paused) mine.timer ??= setTimeout(() => show(mine), DRAW_MS);
}

function show(mine) {
  mine.timer = null;
  if (!mine.paused) {
    mine.records = [...mine.held.toReversed(), ...mine.records].slice(0, KEPT);
    mine.held = [];
  }
  changed();
}

/** The view. */
export function view(route, topic) {
  if (!tail) return null;
  const shown = tail.records.filter((record) => !tail.text || contains(record, tail.text));
  return [
    toolbar(route, topic),
    tail.problem &&
      refusal(
        tail.problem,
        h(
          "p",
          { class: "actions" },
          button("Start again with the newest", () => again(route)),
        ),
      ),
    shown.length
      ? rows.list(topic.name, shown, { partitions: topic.partitions > 1, label: "Live records, newest first" })
      : !tail.problem &&
        empty(
          tail.text && tail.records.length
            ? "None of these records contains that text."
            : "Nothing was appended since you opened this page. New records appear here.",
        ),
  ];
}

function again(route) {
  leave();
  enter(route);
  changed();
}

function toolbar(route, topic) {
  const choose = (event) => go(route.parts, { ...route.query, partition: event.target.value });
  const type = (event) => {
    tail.text = event.target.value;
    changed();
  };
  return h(
    "div",
    { class: "toolbar" },
    button(tail.paused ? "Resume" : "Pause", pause, { class: "primary", "aria-pressed": String(tail.paused) }),
    topic.partitions > 1 &&
      h(
        "label",
        null,
        "Partition ",
        h(
          "select",
          { value: route.query.partition ?? "", on: { change: choose } },
          h("option", { value: "" }, "all"),
          topic.partition_states.map(({ partition }) => h("option", { value: partition }, partition)),
        ),
      ),
    h(
      "label",
      { class: "wide" },
      "Containing ",
      h("input", { type: "search", value: "", autocomplete: "off", spellcheck: "false", on: { input: type } }),
    ),
    button("Clear", clear),
    h("p", { class: "state", role: "status" }, status()),
  );
}

function status() {
  const words = {
    connecting: "connecting …",
    live: "live",
    waiting: `disconnected; reconnecting in ${duration((tail.wait ?? 0) / 1000)}`,
    refused: "refused",
  }[tail.status];
  const held =
    tail.paused && tail.held.length
      ? ` · ${tail.held.length === KEPT ? `${KEPT} or more` : count(tail.held.length)} waiting`
      : "";
  return [
    h("span", { class: `pulse ${tail.status === "live" ? "up" : "down"}` }, tail.paused ? "paused" : words),
    ` · ${plural(tail.received, "record")} received${held}`,
    tail.records.length === KEPT ? ` · newest ${KEPT} kept` : "",
  ];
}

function pause() {
  tail.paused = !tail.paused;
  show(tail);
}

function clear() {
  Object.assign(tail, { records: [], held: [] });
  changed();
}

function contains(record, text) {
  return [record.key, record.value].some(
    (field) => field !== null && (typeof field === "string" ? field : oneLine(field)).includes(text),
  );
}
