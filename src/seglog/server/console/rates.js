/* What happened in a topic since this page was opened: records appended, and how far its groups are behind. */

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { groupTone } from "./parts.js";
import { appendRates, groupLags, groupRates, state } from "./store.js";

/** The view. */
export function view(_route, topic) {
  const names = [...(state.groups?.keys() ?? [])];
  const readers = names.filter((name) => topic.name in (state.groups.get(name)?.lag ?? {}));
  const lines = (read) =>
    readers.map((name) => ({ name, tone: groupTone(name, names), points: read(name, topic.name) }));
  return h(
    "div",
    { class: "charts" },
    h("p", { class: "hint" }, "Of up to 30 minutes, since this page was opened. Metrics for longer times: /metrics."),
    chart("Records appended per second", " /s", [{ name: topic.name, tone: "", points: appendRates(topic.name) }]),
    readers.length > 0 && chart("Lag of groups, in records", "", lines(groupLags)),
    readers.length > 0 && chart("Records read by groups per second", " /s", lines(groupRates)),
  );
}
