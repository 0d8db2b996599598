/* The page as a whole: where one is, what frames the views, what is said above them. */

import { access } from "./api.js";
import * as copies from "./copies.js";
import { askForToken } from "./dialogs.js";
import { h, morph } from "./dom.js";
import * as groups from "./groups.js";
import * as kafka from "./kafka.js";
import { button, figure } from "./parts.js";
import * as rights from "./rights.js";
import { address, current } from "./route.js";
import { dismiss, lookAt, onChange, refresh, state } from "./store.js";
import * as topic from "./topic.js";
import * as topics from "./topics.js";
import { visibleName } from "./visible.js";

const SCHEMES = [
  ["", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

let route = current();
let drawn = false;

function viewOf({ parts }) {
  if (parts[0] === "groups") return groups;
  if (parts[0] === "copies") return copies;
  if (parts[0] === "kafka") return kafka;
  if (parts[0] === "access") return rights;
  return parts[0] === "topics" && parts[1] ? topic : topics;
}

function frame() {
  return h(
    "div",
    { id: "app" },
    header(),
    h("div", { class: "banners", "aria-live": "assertive" }, state.connection.up ? null : banner()),
    h(
      "div",
      { class: "shell" },
      sidebar(),
      h(
        "main",
        { id: "main", tabindex: "-1", class: state.connection.up ? "" : "stale" },
        copies.line(),
        viewOf(route).view(route),
      ),
    ),
    h("div", { class: "notices", role: "status" }, state.notices.map(notice)),
  );
}

function header() {
  const refused = Object.values(state.problems).find((problem) => problem.status === 401);
  return h(
    "header",
    { class: "top" },
    h(
      "a",
      { class: "brand", href: "#/topics" },
      h("img", { src: "/console/icon.svg", alt: "", width: 24, height: 24 }),
      h("span", null, "seglog"),
    ),
    h(
      "nav",
      { class: "sections", "aria-label": "Sections" },
      section("topics", "Topics"),
      section("groups", "Groups"),
      section("copies", "Copies"),
      section("kafka", "Kafka"),
      h("a", { href: "/docs" }, "API"),
    ),
    h(
      "div",
      { class: "tools" },
      h(
        "span",
        { class: `pulse ${state.connection.up ? "up" : "down"}`, title: location.host },
        h("span", { class: "host" }, state.connection.up ? location.host : "no answer"),
      ),
      refused && button("Enter token", () => askForToken(refused, moved, { anyway: true })),
      access.token && h("a", { href: "#/access" }, "Rights"),
      access.token && button("Forget token", forgetToken, { class: "quiet" }),
      scheme(),
    ),
  );
}

function section(name, text) {
  return h("a", { href: address([name]), "aria-current": route.parts[0] === name ? "page" : null }, text);
}

function scheme() {
  const chosen = document.documentElement.dataset.scheme ?? "";
  return h(
    "label",
    { class: "scheme" },
    h("span", { class: "unseen" }, "Colours"),
    h(
      "select",
      { value: chosen, on: { change: (event) => choose(event.target.value) } },
      SCHEMES.map(([value, text]) => h("option", { value }, text)),
    ),
  );
}

function choose(chosen) {
  if (chosen) document.documentElement.dataset.scheme = chosen;
  else delete document.documentElement.dataset.scheme;
  try {
    localStorage.setItem("seglog.scheme", chosen);
  } catch {
    // storage is not allowed: keep it until the page is reloaded
  }
  draw();
}

function forgetToken() {
  access.use(null);
  location.reload();
}

function banner() {
  const seconds = Math.max(0, Math.ceil((state.connection.retryAt - Date.now()) / 1000));
  return h(
    "div",
    { class: "banner" },
    h(
      "p",
      null,
      h("strong", null, state.connection.why),
      " What is shown is from before. ",
      h("span", { "aria-hidden": "true" }, seconds ? `Trying again in ${seconds} s.` : "Trying again …"),
    ),
    button("Try now", () => refresh()),
  );
}

function notice({ id, kind, text, link }) {
  return h(
    "div",
    { key: id, class: `notice ${kind}` },
    h("p", null, text, link && " ", link && h("a", { href: link.href }, link.text)),
    button("×", () => dismiss(id), { class: "quiet", "aria-label": "Dismiss" }),
  );
}

function sidebar() {
  const shown = route.parts[0];
  return h(
    "aside",
    { class: "sidebar" },
    h(
      "nav",
      { "aria-label": "Topics" },
      h("h2", null, h("a", { href: "#/topics" }, "Topics")),
      h(
        "ul",
        null,
        (state.topics ?? []).map((one) => entry("topics", one.name, shown, figure(one.records))),
      ),
    ),
    h(
      "nav",
      { "aria-label": "Groups" },
      h("h2", null, h("a", { href: "#/groups" }, "Groups")),
      h(
        "ul",
        null,
        [...(state.groups ?? [])].map(([name, one]) => entry("groups", name, shown, one && lagOf(one))),
      ),
    ),
    h("nav", { "aria-label": "Copies" }, h("h2", null, h("a", { href: "#/copies" }, "Copies"))),
    h("nav", { "aria-label": "Kafka" }, h("h2", null, h("a", { href: "#/kafka" }, "Kafka"))),
    h("nav", { "aria-label": "Access" }, h("h2", null, h("a", { href: "#/access" }, "Access"))),
    h("nav", { "aria-label": "API" }, h("h2", null, h("a", { href: "/docs" }, "HTTP API"))),
  );
}

function lagOf(group) {
  const lag = groups.totalLag(group);
  return lag > 0
    ? h("span", { class: "behind", title: `${lag} records behind` }, "−", figure(lag))
    : h("span", { title: "up to date" }, "✓");
}

function entry(kind, name, shown, more) {
  const here = shown === kind && route.parts[1] === name;
  return h(
    "li",
    { key: name },
    h(
      "a",
      { href: address([kind, name]), "aria-current": here ? "page" : null },
      h("span", { class: "name" }, visibleName(name)),
      more,
    ),
  );
}

function draw() {
  drawn = false;
  document.title = `${[...route.parts.slice(1, 2).map(visibleName), route.parts[0]].join(" · ")} · seglog`;
  morph(document.getElementById("app"), frame());
}

function drawSoon() {
  if (drawn) return;
  drawn = true;
  // Not an animation frame: a page in the background updates too, and tests and screen readers see it immediately.
  queueMicrotask(draw);
}

function moved() {
  const before = route;
  route = current();
  const view = viewOf(route);
  if (viewOf(before) !== view || before.parts[1] !== route.parts[1]) {
    viewOf(before).leave?.();
    document.getElementById("main")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  view.enter?.(route);
  draw();
  lookAt(route);
}

access.ask = (problem) => askForToken(problem, moved);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the current place
  document.getElementById("main").focus();
});
onChange(drawSoon);
addEventListener("hashchange", moved);
addEventListener("online", () => refresh());
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => state.connection.up || drawSoon(), 1000);
moved();
