/*
 * Text from outside as people see it: nothing in it hides, turns round or imitates other text.
 *
 * The same as seglog/visible.py does for the command line; a test compares the two.
 */

const PLAIN = /^[\x20-\x7e]*$/;
const UNSEEN = /[\p{C}\p{Z}\u115f\u1160\u2800\u3164\uffa0]/gu;
const ALIKE = /[\u0131\u0250-\u02af\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff\uab70-\uabbf]/u;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const MOST_ALIKE = 3;

/** The text with an escape for each character that shows nothing of its own. `kept`: characters that stay. */
export function visible(text, kept = " ") {
  if (PLAIN.test(text)) return text;
  return text.replace(UNSEEN, (one) => (kept.includes(one) ? one : escaped(one)));
}

/** A name likewise, with spaces at its ends escaped; letters that look like those of ASCII are listed. */
export function visibleName(name) {
  const shown = escapedName(name);
  const alike = [...new Set(name)].filter((one) => ALIKE.test(one) || isAnotherForm(one)).sort(byCode);
  if (!alike.length) return shown;
  const listed = alike.slice(0, MOST_ALIKE).map((one) => `U+${hex(one, 4).toUpperCase()}`);
  return `${shown} (${listed.join(", ")}${alike.length > MOST_ALIKE ? ", ..." : ""})`;
}

/** A name likewise, without that list: what can be typed for it. */
export function escapedName(name) {
  return visible(name.replace(/^ +| +$/g, (spaces) => escaped(" ").repeat(spaces.length)));
}

/** Whether it is another form of ASCII characters, such as a fullwidth letter. */
const isAnotherForm = (one) => !PLAIN.test(one) && !one.match(UNSEEN) && PLAIN.test(one.normalize("NFKC"));

const byCode = (one, other) => one.codePointAt(0) - other.codePointAt(0);
const hex = (one, digits) => one.codePointAt(0).toString(16).padStart(digits, "0");

function escaped(one) {
  if (one in SHORT) return SHORT[one];
  const code = one.codePointAt(0);
  if (code < 0x100) return `\\x${hex(one, 2)}`;
  return code < 0x10000 ? `\\u${hex(one, 4)}` : `\\U${hex(one, 8)}`;
}
