/* Pages of a partition both ways. A page forwards is one call; backwards, compaction's gaps make it a search. */

import { lines, path } from "./api.js";

export const PAGE = 50;
const MAX_BYTES = 1024 * 1024;
const LOOKS_MAX = 80;

/** Read at most `max` records of start <= offset < stop (null: to the end): {records, next}. */
export async function read(topic, partition, start, stop, max, signal) {
  const query = { start, stop, max_records: max, max_bytes: MAX_BYTES };
  const answer = await lines(path("topics", topic, "partitions", partition, "records"), query, signal);
  const next = Number(answer.headers.get("Seglog-Next-Offset") ?? start);
  return { records: answer.lines.map((record) => ({ ...record, partition })), next };
}

/** The offset from which one page ends right before `stop`: at most PAGE records, fewer only at the lowest offset or
 *  where the records are large. Looks at spans that grow over gaps, and are halved where they hold too much. */
export async function pageBefore(topic, partition, lowest, stop, signal) {
  let found = [];
  let end = stop;
  let span = PAGE;
  for (let look = 0; look < LOOKS_MAX && found.length < PAGE && end > lowest; look += 1) {
    const start = Math.max(lowest, end - span);
    const { records, next } = await read(topic, partition, start, end, PAGE, signal);
    if (next < end && records.length) {
      const last = records.at(-1).offset;
      if (end - start === 1 || last + 1 >= end) break;
      span = Math.max(1, Math.min(end - last - 1, Math.floor((end - start) / 2)));
      continue;
    }
    found = [...records.map((record) => record.offset), ...found];
    end = start;
    span *= 2;
  }
  return found.length ? found[Math.max(0, found.length - PAGE)] : lowest;
}
