/*
 * A chart of the last minutes as an element: <seglog-chart>. Its `value` is what it draws:
 *
 *   {unit, series: [{name, tone, points: [{at (ms), value}]}]}
 *
 * It draws in a shadow root, so that bringing the page up to date leaves the drawing alone. uPlot draws (uplot.js).
 */

import uPlot from "./uplot.js";
import { h } from "./dom.js";
import { count } from "./units.js";

const HEIGHT = 180;
const SHORTEST_SECONDS = 60; // of time that a chart shows

class Chart extends HTMLElement {
  #data = null;
  #plot = null;
  #shape = "";
  #place = document.createElement("div");
  #probe = document.createElement("span");
  #sizes = new ResizeObserver(() => this.#plot?.setSize({ width: this.#width(), height: HEIGHT }));

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: "/console/uplot.css" });
    this.#probe.hidden = true;
    root.append(link, this.#place, this.#probe);
  }

  get value() {
    return this.#data;
  }

  set value(data) {
    this.#data = data;
    if (this.isConnected) this.#draw();
  }

  connectedCallback() {
    this.#sizes.observe(this);
    this.#draw();
  }

  disconnectedCallback() {
    this.#sizes.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
  }

  #width() {
    return Math.max(200, Math.floor(this.getBoundingClientRect().width));
  }

  /** A colour of the page as a canvas understands it; `name`: a custom property, with `tone` the class that defines it. */
  #colour(name, tone = "") {
    this.#probe.style.color = tone ? toneOf(tone) : `var(${name})`;
    return getComputedStyle(this.#probe).color;
  }

  #draw() {
    if (!this.#data) return;
    const { series, unit } = this.#data;
    const rows = uPlot.join(
      series.map(({ points }) => [points.map(({ at }) => at / 1000), points.map(({ value }) => value)]),
    );
    const shape = JSON.stringify([unit, series.map(({ name, tone }) => [name, tone])]);
    if (this.#plot && shape === this.#shape) return void this.#plot.setData(rows);
    this.#plot?.destroy();
    this.#shape = shape;
    this.#plot = new uPlot(this.#options(series, unit), rows, this.#place);
    return undefined;
  }

  #options(series, unit) {
    const axis = {
      stroke: () => this.#colour("--soft"),
      grid: { stroke: () => this.#colour("--line"), width: 1 },
      ticks: { stroke: () => this.#colour("--line"), width: 1 },
    };
    return {
      width: this.#width(),
      height: HEIGHT,
      cursor: { y: false },
      scales: {
        x: { range: (_plot, least, most) => [Math.min(least, most - SHORTEST_SECONDS), most] },
        y: { range: (_plot, _least, most) => [0, Math.max(1, (most ?? 0) * 1.1)] },
      },
      axes: [axis, { ...axis, size: 60, values: (_plot, ticks) => ticks.map((tick) => count(tick)) }],
      series: [
        { label: "Time" },
        ...series.map(({ name, tone }) => ({
          label: name,
          stroke: () => this.#colour("--fill", tone),
          width: 1.5,
          spanGaps: true,
          points: { show: false },
          value: (_plot, value) => (value === null || value === undefined ? "–" : `${count(Math.round(value))}${unit}`),
        })),
      ],
    };
  }
}

/** The colour of a tone class: its custom property, defined where the class is. */
function toneOf(tone) {
  const element = document.createElement("i");
  element.className = tone;
  document.body.append(element);
  const found = getComputedStyle(element).getPropertyValue("--tone");
  element.remove();
  return found;
}

customElements.define("seglog-chart", Chart);

/** A chart with its title. series: [{name, tone, points}]; unit follows each number, as in "12 /s". */
export function chart(title, unit, series) {
  const shown = series.filter(({ points }) => points.length > 1);
  const words = shown.map(({ name, points }) => `${name}: ${count(Math.round(points.at(-1).value))}${unit}`).join(", ");
  return h(
    "figure",
    { class: "chart", key: title },
    h("figcaption", null, h("h3", null, title)),
    shown.length
      ? h("seglog-chart", { role: "img", "aria-label": `${title}, now ${words}`, value: { unit, series: shown } })
      : h("p", { class: "soft" }, "Watched for a moment …"),
  );
}
