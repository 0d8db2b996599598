/*
 * One partition's segments as a bar: a button for each, as wide as it has bytes, with a card of its figures.
 *
 * The card opens for the segment under the mouse or with the focus, and stays open after a click or tap.
 */

import { h } from "./dom.js";
import { button, figure, groupTone, moment, since, size } from "./parts.js";
import { address } from "./route.js";
import { changed, state } from "./store.js";
import { bytes, exact, percent, plural } from "./units.js";
import { visibleName } from "./visible.js";

const LEAST_PIXELS = 4;
const MERGED_FROM = 60;

let looked = null; // {partition, at, pinned}: which segment's card is open

/** The age that is drawn is that of the records: a compaction makes old records a new file. */
export const timeOf = (segment) => segment.max_timestamp ?? segment.created;

/** A partition's bar, with the marks above it and the card of the segment that is looked at. */
export function drawing(topic, number, detail, share, ages) {
  const runs = merged(detail.segments, share);
  const total = detail.segments.reduce((sum, segment) => sum + segment.bytes, 0) || 1;
  let before = 0;
  const placed = runs.map((run) => {
    const one = { run, left: before / total, width: run.bytes / total };
    before += run.bytes;
    return one;
  });
  const open = looked?.partition === number ? placed.find(({ run }) => run.base_offset === looked.at) : null;
  const current = open ?? placed.at(-1);
  return h(
    "div",
    { class: "stage", style: { "--share": share.toFixed(6) } },
    h(
      "div",
      { class: "drawing" },
      h("div", { class: "marks" }, marks(detail, placed)),
      h(
        "div",
        { class: "bar", role: "group", "aria-label": `Segments of partition ${number}, oldest first; arrow keys move` },
        placed.map((one) => segmentButton(number, one, ages, one === current, one === open)),
      ),
    ),
    open && card(topic, number, open),
  );
}

/** Neighbours that would be too narrow to see or to hit are drawn as one. */
function merged(segments, share) {
  const wide = Math.max(200, innerWidth - 60) * share;
  const total = segments.reduce((sum, segment) => sum + segment.bytes, 0) || 1;
  if (segments.length < MERGED_FROM && segments.length * LEAST_PIXELS < wide)
    return segments.map((one) => ({ ...one, count: 1 }));
  const runs = [];
  for (const segment of segments) {
    const last = runs.at(-1);
    const active = segment.sealed_at === null;
    if (!last || active || (last.bytes / total) * wide >= LEAST_PIXELS) runs.push({ ...segment, count: 1 });
    else join(last, segment);
  }
  return runs;
}

function join(run, segment) {
  const sum = run.bytes + segment.bytes;
  const garbage = (run.garbage ?? 0) * run.bytes + (segment.garbage ?? 0) * segment.bytes;
  const known = run.garbage !== null || segment.garbage !== null;
  Object.assign(run, {
    garbage: known ? garbage / Math.max(1, sum) : null,
    bytes: sum,
    plain_bytes: run.plain_bytes + segment.plain_bytes,
    codec: run.codec === segment.codec ? run.codec : run.codec && segment.codec ? "lz4 and zstd" : null,
    next_offset: segment.next_offset,
    records: run.records + segment.records,
    tombstones: run.tombstones + segment.tombstones,
    count: run.count + 1,
    min_timestamp: least(run.min_timestamp, segment.min_timestamp),
    max_timestamp: segment.max_timestamp ?? run.max_timestamp,
    sealed_at: segment.sealed_at,
    dense: run.dense && segment.dense,
  });
}

const least = (one, other) => (one === null || other === null ? (one ?? other) : Math.min(one, other));

function segmentButton(number, { run, left, width }, ages, current, open) {
  const active = run.sealed_at === null;
  const span = ages.newest - ages.oldest;
  const age = span > 0 ? (timeOf(run) - ages.oldest) / span : 1;
  const show = (pinned) => () => look(number, run, pinned);
  return h("button", {
    type: "button",
    key: run.base_offset,
    class: `segment${active ? " active" : ""}${run.records ? "" : " hollow"}${open ? " open" : ""}`,
    tabindex: current ? "0" : "-1",
    "aria-label": inWords(run),
    "aria-expanded": String(Boolean(open)),
    "data-bytes": run.bytes,
    style: { left: `${left * 100}%`, width: `${width * 100}%`, "--age": age.toFixed(3), "--garbage": run.garbage ?? 0 },
    on: {
      pointerenter: (event) => event.pointerType === "mouse" && !looked?.pinned && show(false)(),
      pointerleave: (event) => event.pointerType === "mouse" && !looked?.pinned && unlook(),
      focus: (event) => event.target.matches(":focus-visible") && show(false)(),
      click: show(true),
      keydown: walk,
    },
  });
}

function titleOf(run) {
  if (run.sealed_at === null) return "Active segment";
  return run.count > 1 ? `${run.count} segments` : "Sealed segment";
}

function inWords(run) {
  const garbage = run.garbage ? `, ${percent(run.garbage)} garbage` : "";
  const figures = `${bytes(run.bytes)}, ${plural(run.records, "record")}${garbage}`;
  return `${titleOf(run)} from offset ${exact(run.base_offset)}, ${figures}`;
}

function look(partition, run, pinned) {
  if (pinned && looked?.pinned && looked.partition === partition && looked.at === run.base_offset) return unlook();
  looked = { partition, at: run.base_offset, pinned };
  return changed();
}

/** Close the card. */
export function unlook() {
  looked = null;
  changed();
}

/** Close the card on Escape. */
export function escape(event) {
  if (event.key === "Escape" && looked) unlook();
}

function walk(event) {
  const all = [...event.currentTarget.parentNode.children];
  const here = all.indexOf(event.currentTarget);
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (looked) looked.pinned = false;
  all[Math.min(Math.max(to, 0), all.length - 1)].focus();
}

function card(topic, number, { run, left, width }) {
  const rows = [
    ["Offsets", [figureExact(run.base_offset), " … ", figureExact(run.next_offset)]],
    [
      "Records",
      [
        figure(run.records),
        run.tombstones ? ` · ${plural(run.tombstones, "tombstone")}` : "",
        run.dense ? "" : " · with gaps",
      ],
    ],
    ["Size", size(run.bytes)],
    ...(run.codec ? [["Codec", `${run.codec}, ${(run.plain_bytes / Math.max(1, run.bytes)).toFixed(1)} times smaller`]] : []),
    ["Garbage", run.garbage === null ? "none expected" : `${percent(run.garbage)} expected`],
    ["From", run.min_timestamp === null ? "no records" : moment(run.min_timestamp)],
    ["To", run.max_timestamp === null ? "no records" : moment(run.max_timestamp)],
    ["Created", since(run.created)],
    ["Sealed", run.sealed_at === null ? "not yet" : since(run.sealed_at)],
  ];
  return h(
    "div",
    { class: `card${looked.pinned ? " pinned" : ""}`, style: { "--at": (left + width / 2).toFixed(4) } },
    h("h3", null, titleOf(run)),
    h(
      "dl",
      null,
      rows.map(([term, text]) => [h("dt", null, term), h("dd", null, text)]),
    ),
    looked.pinned &&
      h(
        "p",
        { class: "actions" },
        h(
          "a",
          { href: address(["topics", topic.name, "records"], { partition: number, at: run.base_offset }) },
          "Records from here",
        ),
        button("Close", unlook, { class: "quiet" }),
      ),
  );
}

const figureExact = (number) => h("span", { class: "number" }, exact(number));

/** Where an offset lies along the bar, 0 to 1: within its segment in proportion to the offsets. */
function along(placed, offset) {
  const one = placed.find(({ run }) => offset < run.next_offset) ?? placed.at(-1);
  if (!one) return 0;
  const within = (offset - one.run.base_offset) / Math.max(1, one.run.next_offset - one.run.base_offset);
  return one.left + one.width * Math.min(1, Math.max(0, within));
}

function marks(detail, placed) {
  const names = [...(state.groups ?? new Map()).keys()];
  const groups = Object.entries(detail.groups ?? {}).map(([name, offset]) =>
    h("a", {
      key: name,
      class: `mark ${groupTone(name, names)}`,
      style: { left: `${along(placed, offset) * 100}%` },
      href: address(["groups", name]),
      tabindex: "-1",
      title: `${visibleName(name)} reads ${exact(offset)} next`,
      "aria-label": `${visibleName(name)} at ${exact(offset)}`,
    }),
  );
  const durable =
    detail.durable_offset < detail.next_offset &&
    h("i", {
      class: "durable",
      title: `durable up to ${exact(detail.durable_offset)}`,
      style: { left: `${along(placed, detail.durable_offset) * 100}%` },
    });
  return [groups, durable];
}
