/* Figures for people, and what people write back: sizes, durations, times. Pure functions. */

const GROUPED = new Intl.NumberFormat("en-US");
const SIZES = ["KiB", "MiB", "GiB", "TiB", "PiB"];
const FACTORS = new Map([
  ["", 1],
  ["b", 1],
]);
"kmgtp".split("").forEach((letter, power) => {
  FACTORS.set(`${letter}ib`, 1024 ** (power + 1));
  FACTORS.set(`${letter}b`, 1000 ** (power + 1));
});
const SECONDS = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** 1234567 -> "1,234,567" */
export const exact = (number) => GROUPED.format(number);

/** 12345 -> "12,345", 1234567 -> "1.23 M" */
export function count(number) {
  if (Math.abs(number) < 100_000) return exact(number);
  for (const [unit, size] of [
    ["k", 1e3],
    ["M", 1e6],
    ["G", 1e9],
    ["T", 1e12],
  ]) {
    const scaled = number / size;
    if (Math.abs(scaled) < 999.5) return `${scaled.toPrecision(3)} ${unit}`;
  }
  return number.toExponential(2);
}

/** 1536 -> "1.5 KiB" */
export function bytes(size) {
  if (size < 1024) return `${size} B`;
  let scaled = size;
  for (const unit of SIZES) {
    scaled /= 1024;
    if (scaled < 999.95 || unit === SIZES.at(-1)) return `${scaled.toFixed(1)} ${unit}`;
  }
  return "";
}

/** 1, "record" -> "1 record"; 2 -> "2 records" */
export const plural = (number, thing, many = `${thing}s`) => `${count(number)} ${number === 1 ? thing : many}`;

/** 0.256 -> "26 %" */
export const percent = (share) => `${share > 0 && share < 0.01 ? "<1" : Math.round(share * 100)} %`;

/** Seconds -> "7 d", "1 h 30 min", "1.5 s" */
export function duration(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 60) return `${Number(seconds.toPrecision(seconds < 1 ? 2 : 3))} s`;
  const parts = [];
  let rest = Math.round(seconds);
  for (const [unit, size] of [
    ["d", 86_400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ]) {
    if (rest >= size && parts.length < 2) parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.join(" ");
}

const two = (number, width = 2) => String(number).padStart(width, "0");

/** Microseconds since the epoch -> "2026-11-21 20:02:41.123" in this browser's time zone. */
export function time(us, precise = true) {
  const moment = new Date(Math.floor(us / 1000));
  if (Number.isNaN(moment.getTime())) return `${us} µs`;
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  return `${day} ${clock}${precise ? `.${two(moment.getMilliseconds(), 3)}` : ""}`;
}

/** Microseconds since the epoch -> the exact time, UTC, for a title. */
export function timeTitle(us) {
  const moment = new Date(Math.floor(us / 1000));
  const written = Number.isNaN(moment.getTime()) ? "" : `${moment.toISOString().slice(0, -1)}${two(us % 1000, 3)}Z · `;
  return `${written}${us} µs`;
}

/** Microseconds since the epoch -> "3 min ago"; `now` in milliseconds. */
export function ago(us, now = Date.now()) {
  const seconds = now / 1000 - us / 1e6;
  if (Math.abs(seconds) < 1) return "now";
  const [least, unit] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ].find(([size]) => Math.abs(seconds) >= size);
  const number = Math.floor(Math.abs(seconds) / least);
  return seconds < 0 ? `in ${number} ${unit}` : `${number} ${unit} ago`;
}

/** "10 GiB", "512" -> bytes; null for an empty text; throws RangeError with a sentence. */
export function parseSize(text) {
  if (!text.trim()) return null;
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text);
  const factor = match && FACTORS.get(match[2].toLowerCase());
  if (!factor) throw new RangeError(`“${text}” is not a size: write 512, 64 MiB or 1 GB.`);
  return Math.round(Number(match[1]) * factor);
}

/** "7 d", "1h30m", "90" -> seconds; null for an empty text; throws RangeError with a sentence. */
export function parseDuration(text) {
  if (!text.trim()) return null;
  const short = text.toLowerCase().replaceAll("min", "m");
  if (!/^\s*(\d+(\.\d+)?\s*(ms|[smhdw])?\s*)+$/.test(short)) {
    throw new RangeError(`“${text}” is not a duration: write 90 s, 15 min, 1 h 30 min or 7 d.`);
  }
  const parts = [...short.matchAll(/(\d+(?:\.\d+)?)\s*(ms|[smhdw])?/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * SECONDS[unit ?? "s"], 0);
}

/** A size or duration for a field, in the form that the parsers above accept. */
export const sizeField = (size) => (size === null || size === undefined ? "" : exactSize(size));
export const durationField = (seconds) => (seconds === null || seconds === undefined ? "" : exactDuration(seconds));

function exactSize(size) {
  for (const [unit, factor] of [
    ["TiB", 1024 ** 4],
    ["GiB", 1024 ** 3],
    ["MiB", 1024 ** 2],
    ["KiB", 1024],
  ]) {
    if (size >= factor && size % factor === 0) return `${size / factor} ${unit}`;
  }
  return String(size);
}

function exactDuration(seconds) {
  for (const [unit, factor] of [
    ["d", 86_400],
    ["h", 3600],
    ["min", 60],
  ]) {
    if (seconds >= factor && seconds % factor === 0) return `${seconds / factor} ${unit}`;
  }
  return `${seconds} s`;
}
