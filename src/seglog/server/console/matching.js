/* Whether a record is what a search looks for: a text in its key or value, or what a JSON path leads to. Pure. */

const STEP = /^(?:\.?([\p{L}_$][\p{L}\p{N}_$-]*)|\[(\d+)\]|\[(?:"([^"]*)"|'([^']*)')\])/u;

/** The steps of a path: "$.items[0].sku" -> ["items", 0, "sku"]; throws RangeError with a sentence. */
export function stepsOf(path) {
  let rest = path.trim().replace(/^[$@]/, "");
  const steps = [];
  while (rest) {
    const found = STEP.exec(rest);
    if (!found) throw new RangeError(`“${path}” is not a path: write user.name or items[0].sku.`);
    steps.push(found[2] === undefined ? (found[1] ?? found[3] ?? found[4]) : Number(found[2]));
    rest = rest.slice(found[0].length);
  }
  return steps;
}

/** What a path leads to in a text of JSON; undefined if it leads nowhere, or the text is no JSON. */
export function valueAt(text, steps) {
  let value;
  try {
    value = JSON.parse(text, exactNumber);
  } catch {
    return undefined;
  }
  for (const step of steps) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

/** Whole numbers keep all of their digits. */
function exactNumber(_key, value, context) {
  const large = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return large && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}

/** A test for records. wanted: {text, path, equals}; what is empty is not tested. Throws RangeError for a bad path. */
export function matcher({ text = "", path = "", equals = "" }) {
  const steps = path.trim() ? stepsOf(path) : null;
  return (record) =>
    (!text || [record.key, record.value].some((field) => typeof field === "string" && field.includes(text))) &&
    (!steps || leads(record.value, steps, equals));
}

function leads(value, steps, equals) {
  if (typeof value !== "string") return false;
  const found = valueAt(value, steps);
  if (found === undefined) return false;
  if (!equals) return true;
  return (found !== null && typeof found === "object" ? JSON.stringify(found) : String(found)) === equals;
}
