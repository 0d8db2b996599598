/* What is asked in a dialog: a token, a new topic, and whether something is really to be deleted. */

import { access, ask, path } from "./api.js";
import { declared, readSettings, settingFields } from "./declared.js";
import { h, mount } from "./dom.js";
import { field } from "./fields.js";
import { button } from "./parts.js";
import { go } from "./route.js";
import { complain, notify, refresh } from "./store.js";
import { plural } from "./units.js";
import { escapedName, visibleName } from "./visible.js";

/** Show a form; `submit` gets its fields; if it raises, the dialog stays open and shows the error. */
export function show({ title, body, action, kind = "primary", submit, closed = () => {} }) {
  const trouble = h("p", { class: "bad", role: "alert" });
  const done = h("button", { type: "submit", class: kind }, action);
  const dialog = h(
    "dialog",
    { "aria-labelledby": "dialog-title" },
    h(
      "form",
      { class: "form", method: "dialog", on: { submit: (event) => send(event) } },
      h("h2", { id: "dialog-title" }, title),
      body,
      trouble,
      h(
        "p",
        { class: "actions" },
        button("Cancel", () => dialog.close()),
        done,
      ),
    ),
  );
  const send = async (event) => {
    event.preventDefault();
    done.disabled = true;
    try {
      await submit(new FormData(event.target));
      dialog.close();
    } catch (error) {
      trouble.textContent = [error.message, error.advice].filter(Boolean).join(" ");
    } finally {
      done.disabled = false;
    }
  };
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed();
  });
  mount(document.body, dialog).showModal();
  return { dialog, done };
}

let asking = false;
let declined = false;

/** Ask for a token, once at a time, and not again automatically after the user declined; `entered` is called with a new one
 *  in place. */
export function askForToken(problem, entered, { anyway = false } = {}) {
  if (asking || (declined && !anyway)) return;
  asking = declined = true;
  show({
    title: "This server requires a token",
    action: "Use it",
    body: [
      h(
        "p",
        null,
        access.token ? "The server does not know this tab's token, or no longer does." : problem.message,
      ),
      h(
        "div",
        { class: "field" },
        h("label", { for: "token" }, "Token"),
        h("input", { id: "token", name: "token", type: "password", autocomplete: "off", required: true }),
      ),
      h("p", { class: "soft" }, "It stays in this tab until the tab is closed, and is sent to this server only."),
    ],
    submit: async (said) => {
      const before = access.token;
      access.use(said.get("token").trim());
      try {
        await ask("GET", "/topics");
      } catch (error) {
        access.use(before);
        throw error;
      }
      declined = false;
      entered();
    },
    closed: () => {
      asking = false;
    },
  });
}

/** Make a topic. */
export async function createTopic() {
  let settings;
  try {
    settings = await declared();
  } catch (error) {
    complain(error);
    return;
  }
  show({
    title: "New topic",
    action: "Create",
    body: [
      field("name", "Name", "Letters, digits, dots, underscores and hyphens; no leading dot.", {
        required: true,
        maxlength: 200,
      }),
      field("partitions", "Partitions", "Each is a log; more can be added later, not fewer.", {
        value: "1",
        inputmode: "numeric",
        pattern: "[0-9]+",
        required: true,
      }),
      settingFields(settings),
    ],
    submit: async (said) => {
      const { policies = {}, ...config } = readSettings(settings, said);
      const name = said.get("name").trim();
      await ask("POST", "/topics", { json: { name, partitions: Number(said.get("partitions")), config, policies } });
      notify("good", `Topic ${name} was created.`);
      go(["topics", name]);
      refresh();
    },
  });
}

/** Delete a topic, once its name was typed. */
export function deleteTopic(topic) {
  typedDeletion(
    `Delete the topic ${topic.name}?`,
    topic.name,
    [`${plural(topic.records, "record")} in ${plural(topic.partitions, "partition")} will be deleted permanently.`],
    async () => {
      await ask("DELETE", path("topics", topic.name));
      notify("good", `Topic ${topic.name} was deleted.`);
      go(["topics"]);
      refresh();
    },
  );
}

/** Delete a group, once its name was typed. */
export function deleteGroup(name) {
  typedDeletion(
    `Delete the group ${visibleName(name)}?`,
    name,
    ["Its committed offsets will be deleted; a new group starts from the beginning."],
    async () => {
      await ask("DELETE", path("groups", name));
      notify("good", `Group ${visibleName(name)} was deleted.`);
      go(["groups"]);
      refresh();
    },
  );
}

function typedDeletion(title, name, lines, submit) {
  const isTyped = (text) => text === name || text === escapedName(name);
  const { done } = show({
    title,
    action: "Delete",
    kind: "danger",
    body: [
      lines.map((line) => h("p", null, line)),
      h(
        "div",
        { class: "field" },
        h("label", { for: "typed" }, "Type ", h("b", { class: "code" }, escapedName(name)), " to confirm"),
        h("input", {
          id: "typed",
          name: "typed",
          autocomplete: "off",
          spellcheck: "false",
          on: {
            input: (event) => {
              done.disabled = !isTyped(event.target.value);
            },
          },
        }),
      ),
    ],
    submit: (said) => {
      if (!isTyped(said.get("typed"))) throw new RangeError("The name does not match.");
      return submit();
    },
  });
  done.disabled = true;
}
