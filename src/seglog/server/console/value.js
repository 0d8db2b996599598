/*
 * Untrusted bytes as text, JSON or hex: always text nodes, never markup.
 *
 * A value comes as text, as {"base64": ...} where it is not UTF-8, or as null, a tombstone.
 */

import { h } from "./dom.js";
import { button } from "./parts.js";
import { notify } from "./store.js";
import { bytes, exact } from "./units.js";
import { visible } from "./visible.js";

const PREVIEW_CHARACTERS = 240;
const CUT_CHARACTERS = 4096;
const SHOWN_MAX = 2 * 1024 * 1024;
const JSON_TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/g;

/** The bytes of a field: text or {"base64": ...}. */
export function bytesOf(field) {
  if (typeof field === "string") return new TextEncoder().encode(field);
  return Uint8Array.from(atob(field.base64), (character) => character.charCodeAt(0));
}

/** The number of bytes of a record's value, of which the server may have sent the first ones only. */
const lengthOf = (record) => record.value_bytes ?? bytesOf(record.value).length;

/** A field on one line: text with what shows nothing of its own escaped, bytes as hex. */
export function oneLine(field, most = PREVIEW_CHARACTERS) {
  if (typeof field !== "string") return hexLine(bytesOf(field), Math.floor(most / 3));
  const cut = field.slice(0, most);
  return visible(cut) + (field.length > most ? " …" : "");
}

function hexLine(data, most) {
  const shown = Array.from(data.subarray(0, most), hexByte).join(" ");
  return shown + (data.length > most ? " …" : "");
}

const hexByte = (byte) => byte.toString(16).padStart(2, "0");

/** The key of a record, or that it has none. */
export function keyOf(record) {
  if (record.key === null || record.key === undefined) return h("span", { class: "soft" }, "no key");
  const kind = typeof record.key === "string" ? "code" : "code binary";
  return h("bdi", { class: kind }, record.key === "" ? "(empty)" : oneLine(record.key, 120));
}

/** The start of a record's value. */
export function previewOf(record) {
  if (record.value === null) return h("span", { class: "badge" }, "tombstone");
  if (record.value === "") return h("span", { class: "soft" }, "(empty)");
  return h("bdi", { class: typeof record.value === "string" ? "code" : "code binary" }, oneLine(record.value));
}

/** How a value may be shown, the best first. */
function modesOf(field) {
  if (typeof field !== "string") return ["hex"];
  return isJson(field) ? ["json", "text", "hex"] : ["text", "hex"];
}

function isJson(text) {
  if (!/^\s*[{["]/.test(text) || text.length > SHOWN_MAX) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A value, complete or cut. look: {mode, whole}; change: called with changes to it; fetched: returns a Blob
 *  of the whole value. */
export function valuePane(record, look, change, fetched) {
  if (record.value === null) return h("p", { class: "soft" }, "A tombstone: the key is deleted.");
  const modes = modesOf(record.value);
  const mode = modes.includes(look.mode) ? look.mode : modes[0];
  return h(
    "div",
    { class: "value" },
    h(
      "div",
      { class: "valuehead", role: "group", "aria-label": "Show the value as" },
      modes.map((one) =>
        button({ json: "JSON", text: "Text", hex: "Hex" }[one], () => change({ mode: one }), {
          class: "quiet",
          "aria-pressed": String(one === mode),
        }),
      ),
      h("span", { class: "soft", title: `${exact(lengthOf(record))} bytes` }, bytes(lengthOf(record))),
      navigator.clipboard && record.value_bytes === undefined && button("Copy", () => copy(record), { class: "quiet" }),
      button("Download", () => download(record, fetched), { class: "quiet" }),
    ),
    shown(record, mode, look.whole, change),
  );
}

function shown(record, mode, whole, change) {
  const field = record.value;
  const most = whole ? SHOWN_MAX : CUT_CHARACTERS;
  const data = mode === "hex" ? bytesOf(field) : null;
  const length = data ? data.length * 4 : field.length;
  const cut = length > most;
  const incomplete = record.value_bytes !== undefined;
  const held = bytesOf(field).length;
  const body = data
    ? hexDump(data.subarray(0, cut ? most / 4 : data.length))
    : mode === "json" && !cut
      ? pretty(field)
      : text(field.slice(0, most));
  return [
    h("pre", { class: mode, tabindex: "0", "aria-label": "Value" }, body),
    (cut || incomplete) &&
      h(
        "p",
        { class: "cut" },
        whole || !cut
          ? `The first ${bytes(Math.min(SHOWN_MAX, held))} of ${bytes(lengthOf(record))}; download it to see the rest.`
          : [
              `The first ${bytes(data ? most / 4 : most)} of ${bytes(lengthOf(record))}. `,
              button(incomplete ? `Show ${bytes(held)}` : "Show all", () => change({ whole: true })),
            ],
      ),
  ];
}

const text = (value) => visible(value.replace(/\r$/gm, ""), " \n\t");

/** JSON laid out; its tokens stay as they are, so that no number loses a digit. */
function pretty(source) {
  const pieces = [];
  let depth = 0;
  const newline = () => pieces.push(`\n${"  ".repeat(depth)}`);
  const tokens = source.match(JSON_TOKENS) ?? [];
  tokens.forEach((token, index) => {
    if ("}]".includes(token)) {
      depth -= 1;
      if (!"{[".includes(tokens[index - 1])) newline();
    }
    pieces.push(
      token === ":"
        ? ": "
        : "{}[],".includes(token)
          ? token
          : h("span", { class: kindOf(token, tokens[index + 1]) }, visible(token)),
    );
    if ("{[".includes(token)) depth += 1;
    if (token === "," || ("{[".includes(token) && !"}]".includes(tokens[index + 1]))) newline();
  });
  return pieces;
}

function kindOf(token, next) {
  if (token.startsWith('"')) return next === ":" ? "name" : "string";
  return /^[-\d]/.test(token) ? "digits" : "word";
}

function hexDump(data) {
  const width = innerWidth < 700 ? 8 : 16;
  const rows = [];
  for (let at = 0; at < data.length; at += width) {
    const row = data.subarray(at, at + width);
    const hex = Array.from(row, hexByte)
      .join(" ")
      .padEnd(width * 3 - 1);
    const plain = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${hex}  ${plain}`);
  }
  return rows.join("\n");
}

async function copy(record) {
  try {
    await navigator.clipboard.writeText(
      typeof record.value === "string" ? record.value : hexLine(bytesOf(record.value), Infinity),
    );
    notify("good", "Copied.");
  } catch {
    notify("bad", "The browser did not allow copying; select the text instead.");
  }
}

async function download(record, fetched) {
  let value;
  try {
    value = record.value_bytes === undefined ? new Blob([bytesOf(record.value)]) : await fetched();
  } catch (error) {
    return notify("bad", error.message);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(value);
  link.download = `partition-${record.partition}-offset-${record.offset}`;
  link.click();
  return setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
