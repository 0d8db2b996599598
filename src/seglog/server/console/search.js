/* Searching a topic: all partitions, the newest records first, by text and by JSON path; without either, all records. */

import { Problem, Unreachable } from "./api.js";
import { h } from "./dom.js";
import { matcher } from "./matching.js";
import { newestFirst } from "./newest.js";
import { button, empty, refusal } from "./parts.js";
import { go } from "./route.js";
import * as rows from "./rows.js";
import { changed, state } from "./store.js";
import { exact, plural } from "./units.js";

const FOUND_AT_ONCE = 50;
const SEEN_AT_ONCE = 20_000; // then it asks whether to continue
const DRAWN_EVERY_MS = 250;

let search = { where: null }; // the running or finished search, and its address

/** Begin the search of the address, unless it is shown already. */
export function enter({ query }) {
  if (search.where === location.hash) return;
  leave();
  search = { where: location.hash, found: [], seen: 0, running: false, wanted: query, stop: new AbortController() };
}

/** End the search. */
export function leave() {
  search.stop?.abort();
  search = { where: null };
}

async function run(mine) {
  Object.assign(mine, { running: true, until: mine.found.length + FOUND_AT_ONCE, most: mine.seen + SEEN_AT_ONCE });
  let drawn = Date.now();
  try {
    mine.matches ??= matcher(mine.wanted);
    mine.records ??= newestFirst(state.topic, mine.stop.signal);
    while (mine.found.length < mine.until && mine.seen < mine.most && !mine.paused) {
      const { done, value } = await mine.records.next();
      if (done) {
        mine.done = true;
        break;
      }
      mine.seen += 1;
      if (mine.matches(value)) mine.found.push(value);
      if (Date.now() - drawn > DRAWN_EVERY_MS) {
        drawn = Date.now();
        changed();
      }
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem || error instanceof Unreachable || error instanceof RangeError)) throw error;
    mine.problem = error;
    mine.records = null;
  }
  mine.running = false;
  changed();
}

/** The view. */
export function view(route, topic) {
  if (search.where === location.hash && !search.running && !search.records && !search.problem) run(search);
  return [form(route), outcome(topic)];
}

function form({ parts, query }) {
  const submit = (event) => {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(event.target));
    search.stop?.abort();
    search = { where: null };
    go(parts, said);
    if (search.where === null) enter({ query: said });
    changed();
  };
  const input = (name, text, placeholder) =>
    h(
      "label",
      { key: name },
      `${text} `,
      h("input", {
        name,
        placeholder,
        value: query[name] ?? "",
        type: "search",
        autocomplete: "off",
        spellcheck: "false",
      }),
    );
  return h(
    "form",
    { class: "toolbar", role: "search", on: { submit } },
    input("text", "Text", "in key or value"),
    input("path", "JSON path", "items[0].sku"),
    input("equals", "equals", "anything"),
    h("button", { class: "primary", type: "submit", key: "go" }, "Search"),
  );
}

function outcome(topic) {
  if (search.problem) return refusal(search.problem);
  const { found = [], seen = 0, running, done } = search;
  return [
    h("p", { class: "hint", role: "status", key: "status" }, progress(found, seen, running, done)),
    found.length
      ? rows.list(topic.name, found, { partitions: topic.partitions > 1, label: "Found records" })
      : !running && done && empty(seen ? "No record matches." : "This topic has no records yet."),
    h(
      "div",
      { class: "pager", key: "pager" },
      running && button("Stop", () => pause(search)),
      !running && !done && button("Continue", () => resume(search)),
    ),
  ];
}

function progress(found, seen, running, done) {
  const told = `${plural(found.length, "record")} found among ${exact(seen)}, the newest first`;
  if (running) return `${told} …`;
  return done ? `${told}; these are all.` : `${told}; older ones were not searched yet.`;
}

function pause(mine) {
  mine.paused = true;
}

function resume(mine) {
  mine.paused = false;
  run(mine);
  changed();
}
