/*
 * The records of all partitions of a topic, the newest first: each partition is read backwards, in spans that grow over
 * the gaps of compaction, and the newest of what was read comes next.
 */

import { readSpan } from "./paging.js";

const SPAN = 200;
const LARGEST_SPAN = 100_000;

class Backwards {
  constructor(topic, { partition, lowest_offset: lowest, next_offset: end }) {
    Object.assign(this, { topic, partition, lowest, end, span: SPAN, records: [] });
  }

  /** The newest record that was not taken yet; null at the beginning of the partition. */
  async newest(signal) {
    while (!this.records.length && this.end > this.lowest) {
      const start = Math.max(this.lowest, this.end - this.span);
      this.records = await readSpan(this.topic, this.partition, start, this.end, signal);
      const few = this.records.length < SPAN / 4;
      this.span = few ? Math.min(LARGEST_SPAN, this.span * 2) : SPAN;
      this.end = start;
    }
    return this.records.at(-1) ?? null;
  }
}

/** Yield the records of a topic, those with the latest time first; of one partition, those with the highest offset. */
export async function* newestFirst(topic, signal) {
  const partitions = topic.partition_states.map((state) => new Backwards(topic.name, state));
  for (;;) {
    const heads = await Promise.all(partitions.map((one) => one.newest(signal)));
    let chosen = -1;
    heads.forEach((record, index) => {
      if (record && (chosen < 0 || record.timestamp > heads[chosen].timestamp)) chosen = index;
    });
    if (chosen < 0) return;
    yield partitions[chosen].records.pop();
  }
}
