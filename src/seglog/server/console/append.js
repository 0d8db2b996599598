/* Append one record manually. */

import { call, path } from "./api.js";
import { h } from "./dom.js";
import { button } from "./parts.js";
import { address } from "./route.js";
import { changed, complain, notify, refresh } from "./store.js";
import { exact } from "./units.js";

let draft = fresh();

function fresh() {
  return { headers: [], keyed: true, tombstone: false, once: newOnce(), busy: false };
}

// A repeated attempt is stored once; a changed text or a success starts a new attempt.
function newOnce() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const bytes = (text) => new TextEncoder().encode(text);

/** The view. */
export function view(_route, topic) {
  const input = () => {
    draft.once = newOnce();
  };
  return h(
    "form",
    { class: "form", on: { submit: (event) => submit(event, topic), input } },
    h(
      "div",
      { class: "field" },
      h("label", { for: "key" }, "Key"),
      h("input", {
        id: "key",
        name: "key",
        type: "text",
        disabled: !draft.keyed,
        autocomplete: "off",
        spellcheck: "false",
      }),
      tick("keyed", "with a key"),
    ),
    h(
      "div",
      { class: "field" },
      h("label", { for: "value" }, "Value"),
      h("textarea", { id: "value", name: "value", rows: 8, disabled: draft.tombstone, spellcheck: "false" }),
      tick("tombstone", "a tombstone: no value, deletes the key"),
    ),
    h(
      "fieldset",
      null,
      h("legend", null, "Headers"),
      draft.headers.map((id) => header(id)),
      button("Add a header", () => change({ headers: [...draft.headers, newOnce()] })),
    ),
    h(
      "div",
      { class: "toolbar" },
      h(
        "label",
        null,
        "Partition ",
        h(
          "select",
          { name: "partition" },
          h("option", { value: "" }, "by key"),
          topic.partition_states.map(({ partition }) => h("option", { value: partition }, partition)),
        ),
      ),
      h(
        "label",
        null,
        "Answer when ",
        h(
          "select",
          { name: "ack" },
          h("option", { value: "durable" }, "durable"),
          h("option", { value: "appended" }, "appended"),
        ),
      ),
      h("button", { class: "primary", type: "submit", disabled: draft.busy }, draft.busy ? "Appending …" : "Append"),
    ),
  );
}

function tick(name, text) {
  return h(
    "label",
    { class: "check" },
    h("input", {
      type: "checkbox",
      checked: draft[name],
      on: { change: (event) => change({ [name]: event.target.checked }) },
    }),
    ` ${text}`,
  );
}

function header(id) {
  return h(
    "div",
    { class: "pair", key: id },
    h(
      "label",
      null,
      h("span", { class: "unseen" }, "Name "),
      h("input", { name: "header-name", placeholder: "name", autocomplete: "off", required: true }),
    ),
    h(
      "label",
      null,
      h("span", { class: "unseen" }, "Value "),
      h("input", { name: "header-value", placeholder: "value", autocomplete: "off" }),
    ),
    button("×", () => change({ headers: draft.headers.filter((one) => one !== id) }), {
      class: "quiet",
      "aria-label": "Remove this header",
    }),
  );
}

function change(what) {
  draft = { ...draft, ...what, once: newOnce() };
  changed();
}

async function submit(event, topic) {
  event.preventDefault();
  const said = new FormData(event.target);
  const values = said.getAll("header-value");
  const query = {
    key: draft.keyed ? bytes(said.get("key")) : null,
    partition: said.get("partition") || null,
    ack: said.get("ack"),
    tombstone: draft.tombstone ? true : null,
    header: said.getAll("header-name").map((name, index) => bytes(`${name}:${values[index]}`)),
  };
  draft.busy = true;
  changed();
  try {
    const answer = await send(topic.name, query, draft.tombstone ? "" : said.get("value"));
    const { partition, offset } = answer;
    notify("good", `Appended to partition ${partition} at offset ${exact(offset)}.`, {
      text: "Show it",
      href: address(["topics", topic.name, "records"], { partition, at: offset }),
    });
    draft.once = newOnce();
    refresh();
  } catch (error) {
    complain(error);
  } finally {
    draft.busy = false;
    changed();
  }
}

async function send(topic, query, value) {
  const headers = { "Content-Type": "application/octet-stream", "Idempotency-Key": draft.once };
  const response = await call("POST", path("topics", topic, "records"), { query, body: bytes(value), headers });
  return response.json();
}
