/* What this tab's token may do, and for operators what every token may do. */

import { access, ask, Problem, Unreachable } from "./api.js";
import { h } from "./dom.js";
import { empty, refusal, table, waiting } from "./parts.js";
import { address } from "./route.js";
import { changed } from "./store.js";
import { plural } from "./units.js";
import { visibleName } from "./visible.js";

const RIGHTS = [
  ["Topic", "grows"],
  ["May", "phrase"],
];
const TOKENS = [
  ["Token", "grows"],
  ["Rights", "phrase"],
  ["Groups of its own", "phrase"],
];
const MEANING = { admin: "everything: read, write, alter, delete", write: "append", read: "read" };

let shown = { token: undefined }; // the answer, and the token that it was for

/** Ask what the present token may do. */
export function enter() {
  const mine = { token: access.token };
  shown = mine;
  ask("GET", "/access").then(
    (answer) => settle(mine, { answer }),
    (problem) => settle(mine, { problem }),
  );
}

function settle(mine, found) {
  if (found.problem && !(found.problem instanceof Problem || found.problem instanceof Unreachable)) throw found.problem;
  Object.assign(mine, found);
  changed();
}

/** The view. */
export function view() {
  const { answer, problem } = shown;
  return h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "heading" },
      h("h1", null, "Access"),
      h("p", { class: "facts" }, answer && (answer.required ? `token ${visibleName(answer.caller.name)}` : "no token required")),
    ),
    problem ? refusal(problem) : answer ? content(answer) : waiting("rights"),
  );
}

function content({ required, caller, tokens }) {
  if (!required) {
    return empty(
      "This server requires no token: every program that reaches it may do everything.",
      h("p", null, h("span", { class: "code" }, "seglog token"), " creates one; start the server with --tokens."),
    );
  }
  return [
    h(
      "section",
      { "aria-labelledby": "mine" },
      h("h2", { id: "mine" }, "This token"),
      table(
        "Rights of this token",
        RIGHTS,
        Object.entries(caller.rights).map(([topic, words]) => ({ key: topic, cells: [named(topic), meaning(words)] })),
      ),
      caller.groups.length > 0 && h("p", { class: "hint" }, `It owns the groups ${caller.groups.map(visibleName).join(", ")}.`),
    ),
    tokens.length > 0 &&
      h(
        "section",
        { "aria-labelledby": "all" },
        h("h2", { id: "all" }, `All tokens `, h("small", null, plural(tokens.length, "token"))),
        table(
          "All tokens",
          TOKENS,
          tokens.map((token) => ({ key: token.name, cells: [h("span", { class: "strong" }, visibleName(token.name)), rightsOf(token), groupsOf(token)] })),
        ),
      ),
  ];
}

const named = (topic) =>
  topic === "*" ? h("span", { class: "strong" }, "all topics") : h("a", { href: address(["topics", topic]) }, topic);
const meaning = (words) => words.map((word) => MEANING[word] ?? word).join("; ");
const rightsOf = ({ rights }) =>
  Object.entries(rights)
    .map(([topic, words]) => `${topic}: ${words.join(", ")}`)
    .join(" · ");
const groupsOf = ({ groups }) => groups.join(", ") || h("span", { class: "soft" }, "none");
