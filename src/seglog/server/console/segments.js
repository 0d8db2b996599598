/*
 * A topic's partitions, each with its segments drawn to scale.
 *
 * Width is bytes: one scale for all partitions of a topic, or each partition over the full width. Tone is age, the
 * hatched part is what a compaction is expected to free, the last one is the active segment. The groups are above.
 */

import { drawing, escape, timeOf, unlook } from "./bar.js";
import { h } from "./dom.js";
import { button, groupLink, groupTone, refusal, since, size } from "./parts.js";
import { address, go, note } from "./route.js";
import { PARTITIONS_SHOWN, partitionsShown, state } from "./store.js";
import { ago, bytes, count, exact, percent, plural } from "./units.js";

/** Called where one leaves. */
export const leave = unlook;

/** The view. */
export function view(route, topic) {
  const numbers = partitionsShown(topic, route.query);
  const shared = route.query.scale !== "own";
  const shown = numbers.map((number) => state.partitions.get(number)).filter(Boolean);
  const largest = Math.max(1, ...topic.partition_states.map((one) => one.bytes));
  const times = shown.flatMap((one) => one.segments.map(timeOf));
  const ages = { oldest: Math.min(...times), newest: Math.max(...times) };
  return [
    h("div", { class: "legend" }, legend(ages, shown.length > 0), scaleSwitch(route, shared, topic.partitions > 1)),
    pager(route, topic, numbers),
    numbers.map((number) => lane(topic, number, { shared, largest, ages })),
  ];
}

function legend(ages, known) {
  return h(
    "p",
    null,
    h(
      "span",
      null,
      h("i", { class: "tone", "aria-hidden": "true" }),
      known ? ` oldest ${ago(ages.oldest)} … newest ${ago(ages.newest)}` : " old … new",
    ),
    h("span", null, h("i", { class: "swatch active", "aria-hidden": "true" }), " active"),
    h("span", null, h("i", { class: "swatch garbage", "aria-hidden": "true" }), " garbage, expected"),
    h("span", null, h("i", { class: "swatch group", "aria-hidden": "true" }), " position of a group"),
  );
}

function scaleSwitch(route, shared, useful) {
  if (!useful) return null;
  const choose = (event) => {
    note(route.parts, { ...route.query, scale: event.target.checked ? null : "own" });
    dispatchEvent(new Event("hashchange"));
  };
  return h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", checked: shared, on: { change: choose } }),
    " one scale for all partitions",
  );
}

function pager(route, topic, numbers) {
  if (topic.partitions <= PARTITIONS_SHOWN) return null;
  const to = (from) => go(route.parts, { ...route.query, from });
  return h(
    "div",
    { class: "pager" },
    button("Before", () => to(Math.max(0, numbers[0] - PARTITIONS_SHOWN)), { disabled: numbers[0] === 0 }),
    h("span", null, `Partitions ${numbers[0]} to ${numbers.at(-1)} of ${exact(topic.partitions)}`),
    button("Next", () => to(numbers.at(-1) + 1), { disabled: numbers.at(-1) === topic.partitions - 1 }),
  );
}

function lane(topic, number, { shared, largest, ages }) {
  const detail = state.partitions.get(number);
  const known = topic.partition_states[number];
  const problem = state.problems[`partition ${number}`];
  const share = shared ? known.bytes / largest : 1;
  return h(
    "section",
    {
      class: "lane",
      key: number,
      "aria-label": `Partition ${number}`,
      "data-partition": number,
      on: { keydown: escape },
    },
    h(
      "div",
      { class: "lanehead" },
      h(
        "h2",
        null,
        h("a", { href: address(["topics", topic.name, "records"], { partition: number }) }, `Partition ${number}`),
      ),
      h("p", { class: "facts" }, size(known.bytes), " · ", plural(known.segments, "segment"), ends(known)),
      detail && cleanerState(detail),
    ),
    detail
      ? drawing(topic, number, detail, share, ages)
      : problem
        ? refusal(problem)
        : h(
            "div",
            { class: "stage", style: { "--share": share.toFixed(6) } },
            h("div", { class: "drawing" }, h("div", { class: "marks" }), h("div", { class: "bar" })),
          ),
    detail && standings(topic, number, detail),
  );
}

function ends(known) {
  const synced = known.durable_offset >= known.next_offset;
  return [
    " · offsets ",
    h("span", { class: "number", title: "lowest offset" }, exact(known.lowest_offset)),
    " … ",
    h("span", { class: "number", title: "next offset" }, exact(known.next_offset)),
    synced
      ? h("span", { class: "soft" }, " · all durable")
      : h(
          "span",
          { class: "behind", title: "A power failure would lose records from here on" },
          ` · durable to ${exact(known.durable_offset)}`,
        ),
  ];
}

function cleanerState({ compaction, cleaner }) {
  const words = [];
  if (cleaner) words.push(h("span", { class: `doing ${cleaner.doing}` }, doing(cleaner)));
  if (compaction?.total_bytes) {
    const title = `${exact(compaction.dirty_bytes)} of ${exact(compaction.total_bytes)} bytes were never compacted`;
    words.push(h("span", { title }, `${percent(compaction.ratio)} dirty`));
  }
  if (compaction?.due) words.push(h("span", { class: "behind" }, `due: ${compaction.due}`));
  if (cleaner?.compacted_at) words.push(h("span", null, "compacted ", since(cleaner.compacted_at)));
  if (compaction?.to_compress) words.push(h("span", { class: "behind" }, `${bytes(compaction.to_compress)} to compress`));
  if (cleaner?.compressed_at) words.push(h("span", null, "compressed ", since(cleaner.compressed_at)));
  if (cleaner?.expired) words.push(h("span", null, `${plural(cleaner.expired, "segment")} expired`));
  return h("p", { class: "cleaner" }, words, cleaner?.error && h("span", { class: "bad" }, cleaner.error));
}

function doing(cleaner) {
  if (!cleaner.pass_bytes) return `cleaner ${cleaner.doing}`;
  return `cleaner ${cleaner.doing}, ${percent(cleaner.done_bytes / cleaner.pass_bytes)}`;
}

function standings(topic, number, detail) {
  const names = [...(state.groups ?? new Map()).keys()];
  const found = Object.entries(detail.groups ?? {});
  if (!found.length) return null;
  return h(
    "ul",
    { class: "standings" },
    found.map(([name, offset]) => {
      const lag = Math.max(0, detail.next_offset - Math.max(offset, detail.lowest_offset));
      return h(
        "li",
        { key: name },
        groupLink(name, { class: groupTone(name, names) }, h("i", { class: "swatch group", "aria-hidden": "true" })),
        " ",
        h(
          "a",
          {
            class: "number soft",
            title: "Records from its position",
            href: address(["topics", topic.name, "records"], { partition: number, at: offset }),
          },
          exact(offset),
        ),
        lag ? h("span", { class: "behind" }, ` −${count(lag)}`) : h("span", { class: "good" }, " ✓"),
      );
    }),
  );
}
