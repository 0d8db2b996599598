/* Pages of a partition in both directions. A page holds up to PAGE records and PAGE_SIZE characters of JSON, one record
 * at least, so it may take several calls: an answer ends before a record that does not fit into MAX_BYTES. Backwards,
 * the gaps of compaction make it a search. */

import { lines, path } from "./api.js";

export const PAGE = 50;
const SPAN = 1000; // records of one call where all of a span are read
const PAGE_SIZE = 4 * 1024 * 1024;
const MAX_BYTES = 1024 * 1024;
const LOOKS_MAX = 80;

/** Read the page that begins at `start`: {records, next}. end: the offset where the partition ended when asked. */
export async function readPage(topic, partition, start, end, signal) {
  const page = new Page();
  let next = start;
  do {
    const part = await read(topic, partition, next, null, signal);
    for (const record of part.records) {
      if (!page.takes(record)) return { records: page.records, next: record.offset };
      page.records.push(record);
    }
    if (part.next <= next) break;
    next = part.next;
  } while (next < end);
  return { records: page.records, next };
}

/** The offset from which one page ends right before `stop`. Reads spans that grow over gaps, and are halved if they
 *  hold too much. */
export async function pageBefore(topic, partition, lowest, stop, signal) {
  const page = new Page();
  let end = stop;
  let span = PAGE;
  for (let look = 0; look < LOOKS_MAX && end > lowest; look += 1) {
    const start = Math.max(lowest, end - span);
    const { records, next } = await read(topic, partition, start, end, signal);
    if (next < end && records.length) {
      const last = records.at(-1).offset;
      if (end - start === 1 || last + 1 >= end) break;
      span = Math.max(1, Math.min(end - last - 1, Math.floor((end - start) / 2)));
      continue;
    }
    for (const record of records.reverse()) {
      if (!page.takes(record)) return page.records.at(-1).offset;
      page.records.push(record);
    }
    end = start;
    span *= 2;
  }
  return page.records.at(-1)?.offset ?? lowest;
}

/** Read up to `most` records of start <= offset < stop (null: to the end) in one call: {records, next}. */
async function read(topic, partition, start, stop, signal, most = PAGE) {
  const query = { start, stop, max_records: most, max_bytes: MAX_BYTES };
  const answer = await lines(path("topics", topic, "partitions", partition, "records"), query, signal);
  const next = Number(answer.headers.get("Seglog-Next-Offset") ?? start);
  return { records: answer.lines.map((record) => ({ ...record, partition })), next };
}

/** Read all records of start <= offset < stop, of which there may be none. */
export async function readSpan(topic, partition, start, stop, signal) {
  const found = [];
  for (let at = start; at < stop; ) {
    const { records, next } = await read(topic, partition, at, stop, signal, SPAN);
    found.push(...records);
    if (next <= at) break;
    at = next;
  }
  return found;
}

/** The records of a page while it is collected, in either direction: both ways the same records fit. */
class Page {
  records = [];
  size = 0;

  /** Whether one more record fits; counts it if so. */
  takes(record) {
    this.size += JSON.stringify(record).length;
    return this.records.length === 0 || (this.records.length < PAGE && this.size <= PAGE_SIZE);
  }
}
