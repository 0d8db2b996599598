/* Small pieces that several views are made of. */

import { h, svg } from "./dom.js";
import { address } from "./route.js";
import { bytes, count, exact, plural, time, timeTitle, ago, duration } from "./units.js";
import { visibleName } from "./visible.js";

/** A number in human units, the exact one as its title. */
export const figure = (number) => h("span", { class: "number", title: exact(number) }, count(number));

/** A size in human units, the exact one as its title. */
export const size = (number) => h("span", { class: "number", title: `${exact(number)} bytes` }, bytes(number));

/** A moment (us), exact and in UTC as its title. */
export const moment = (us, precise = true) => h("time", { class: "number", title: timeTitle(us) }, time(us, precise));

/** How long ago a moment (us) is. */
export const since = (us) => h("time", { class: "number", title: `${time(us)} · ${timeTitle(us)}` }, ago(us));

/** Retention as a phrase. */
export function retention(kept) {
  const parts = [];
  const expires = kept.expire !== false;
  if (kept.compact) parts.push("latest per key");
  if (expires && kept.age !== null && kept.age !== undefined) parts.push(duration(kept.age));
  if (expires && kept.bytes !== null && kept.bytes !== undefined) parts.push(`up to ${bytes(kept.bytes)}`);
  if (parts.length && kept.after === "table") parts.push("once in a table");
  return parts.length ? parts.join(", ") : "keeps everything";
}

/** A table that turns into cards where it does not fit. columns: [heading, class]; rows: {key, cells, label}. */
export function table(label, columns, rows) {
  const heads = columns.map(([heading, kind]) => h("th", { scope: "col", role: "columnheader", class: kind }, heading));
  const body = rows.map(({ key, cells }) =>
    h(
      "tr",
      { key, role: "row" },
      cells.map((cell, index) =>
        h("td", { role: "cell", class: columns[index][1], "data-label": columns[index][0] }, h("div", null, cell)),
      ),
    ),
  );
  return h(
    "table",
    { role: "table", class: "cards", "aria-label": label },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
    h("tbody", { role: "rowgroup" }, body),
  );
}

/** A button. */
export const button = (text, click, more = {}) =>
  h("button", { type: "button", ...more, on: { click, ...more.on } }, text);

/** An empty state: a sentence and what to do. */
export const empty = (sentence, ...more) => h("div", { class: "empty" }, h("p", null, sentence), more);

/** A refused request, and what to do. */
export const refusal = (problem, ...more) =>
  h(
    "div",
    { class: "refusal", role: "alert" },
    h("p", null, h("strong", null, problem.message)),
    problem.advice && h("p", null, problem.advice),
    more,
  );

/** What is shown until there is an answer. */
export const waiting = (what) => h("p", { class: "waiting", role: "status" }, `Loading ${what} …`);

/** A line of the last minutes. points: [{at, value}]; the highest value is the top, zero the bottom. */
export function sparkline(points, label, { width = 120, height = 24 } = {}) {
  const now = points.at(-1)?.at ?? 0;
  const span = Math.max(30_000, now - (points[0]?.at ?? now));
  const top = Math.max(1, ...points.map((point) => point.value));
  const x = (point) => (width - 3 - ((now - point.at) / span) * (width - 5)).toFixed(1);
  const y = (point) => (height - 2 - (point.value / top) * (height - 5)).toFixed(1);
  const line = points.map((point) => `${x(point)},${y(point)}`).join(" ");
  const area = points.length > 1 && `${x(points[0])},${height - 1} ${line} ${x(points.at(-1))},${height - 1}`;
  return svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    svg("title", null, label),
    area && svg("polygon", { points: area }),
    area && svg("polyline", { points: line }),
    points.length > 0 && svg("circle", { cx: x(points.at(-1)), cy: y(points.at(-1)), r: 2 }),
  );
}

/** A sparkline of lag, as text. */
export function lagInWords(points) {
  if (points.length < 2) return "Watched for a moment";
  const change = points.at(-1).value - points[0].value;
  const seconds = Math.round((points.at(-1).at - points[0].at) / 1000);
  const moved = change === 0 ? "unchanged" : `${change > 0 ? "up" : "down"} ${count(Math.abs(change))}`;
  return `${moved} in ${duration(Math.max(1, seconds))}, at most ${count(Math.max(...points.map((one) => one.value)))}`;
}

/** "1 record behind", or "up to date". */
export const behind = (lag) => (lag > 0 ? `${plural(lag, "record")} behind` : "up to date");

/** A link to the page of a group; `before` its name. */
export const groupLink = (name, attributes, before) =>
  h("a", { ...attributes, href: address(["groups", name]) }, before, visibleName(name));

/** Which of eight colours a group has: its place among all groups. */
export const groupTone = (name, names) => `tone-${names.indexOf(name) % 8}`;
