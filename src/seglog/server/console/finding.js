/* Finds the records of an address: an offset, a time or a key. Knows no elements. */

import { ask, lines, path } from "./api.js";
import { pageBefore, readPage } from "./paging.js";
import { exact, time } from "./units.js";

const KEY_PAGE = 100;

/** Find the records of an address: {records, note, mark, bounds, next, ...}; unknown values are absent. */
export async function load({ parts: [, topic], query }, signal) {
  if (query.by === "key") return byKey(topic, query, signal);
  const partition = Number(query.partition ?? 0);
  const bounds = await ask("GET", path("topics", topic), { signal }).then((found) => found.partition_states[partition]);
  if (!bounds) return { records: [], note: `Partition ${partition} does not exist.` };
  if (query.by === "time" && query.time) return byTime(topic, partition, bounds, query, signal);
  const wanted = query.at === undefined || query.at === "newest" ? null : Number(query.at);
  const start = wanted ?? (await pageBefore(topic, partition, bounds.lowest_offset, bounds.next_offset, signal));
  return onePage(topic, partition, bounds, start, wanted, signal);
}

async function onePage(topic, partition, bounds, start, wanted, signal, note = null) {
  const { records, next } = await readPage(topic, partition, start, bounds.next_offset, signal);
  const first = records[0]?.offset;
  const moved = wanted !== null && first !== undefined && first !== wanted;
  const told = moved ? `Offset ${exact(wanted)} no longer holds a record; the next one is ${exact(first)}.` : note;
  return { records, next, bounds, partition, start, mark: wanted !== null && !moved ? wanted : null, note: told };
}

async function byTime(topic, partition, bounds, query, signal) {
  const us = new Date(query.time).getTime() * 1000;
  if (Number.isNaN(us)) return { records: [], note: `“${query.time}” is not a time.` };
  const moment = { timestamp: us, force_timestamp: "true" }; // its unit is known, also in 1970
  const { offsets } = await ask("GET", path("topics", topic, "offsets"), { query: moment, signal });
  const found = offsets[partition];
  if (found === null || found === undefined) {
    return {
      records: [],
      offsets,
      bounds,
      partition,
      start: bounds.next_offset,
      next: bounds.next_offset,
      note: `Partition ${partition} holds no record at or after ${time(us, false)}.`,
    };
  }
  return { ...(await onePage(topic, partition, bounds, found, null, signal)), mark: found, offsets };
}

async function byKey(topic, query, signal) {
  if (query.key === undefined && !query.any) return { records: [], ask: true };
  const key = query.hex ? fromHex(query.key ?? "") : new TextEncoder().encode(query.key ?? "");
  const max = Number(query.max ?? KEY_PAGE);
  const answer = await lines(path("topics", topic, "keys"), { key, max_records: max }, signal);
  return { records: answer.lines, keyed: true, more: answer.lines.length >= max ? max * 10 : null };
}

function fromHex(text) {
  return Uint8Array.from(text.match(/[0-9a-f]{2}/gi) ?? [], (pair) => parseInt(pair, 16));
}
