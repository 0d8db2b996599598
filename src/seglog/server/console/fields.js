/* A field of a form. */

import { h } from "./dom.js";

/** A field with its label and a word of explanation. */
export function field(name, text, hint, more) {
  const id = `field-${name}`;
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, text),
    h("input", {
      id,
      name,
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": hint && `${id}-hint`,
      ...more,
    }),
    hint && h("p", { class: "soft", id: `${id}-hint` }, hint),
  );
}
