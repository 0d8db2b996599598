/* JSON schemas as short text: {type: "array", items: {type: "integer"}} -> "[integer]". Knows no elements. */

const DEEPEST = 6;

/** A schema as text, indented where it has fields. schemas: what references lead to. */
export function typeOf(schema, schemas, depth = 0) {
  if (schema === true || schema === undefined || !Object.keys(schema).length) return "anything";
  if (schema.$ref) return depth > DEEPEST ? nameOf(schema) : typeOf(schemas[nameOf(schema)] ?? {}, schemas, depth);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return [...new Set(either.map((one) => typeOf(one, schemas, depth + 1)))].join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, schemas, depth)).join(" | ");
  if (schema.type === "array" || schema.items || schema.prefixItems) return list(schema, schemas, depth);
  if (schema.type === "object" || schema.properties) return fields(schema, schemas, depth);
  return `${schema.type}${format(schema)}${bounds(schema)}`;
}

const nameOf = ({ $ref }) => $ref.split("/").at(-1);
const format = ({ format: name, contentEncoding }) => (name ?? contentEncoding ? ` (${name ?? contentEncoding})` : "");

function bounds({ minimum, maximum, minLength, maxLength, pattern }) {
  if (pattern) return ` /${pattern}/`;
  const least = minimum ?? minLength;
  const bound = maximum ?? maxLength;
  const most = bound > Number.MAX_SAFE_INTEGER ? undefined : bound; // the largest that fits is no limit to know
  if (least === undefined && most === undefined) return "";
  if (most === undefined) return least > 0 || least < 0 ? ` ${least} or more` : " 0 or more";
  return ` ${least ?? ""}…${most}`;
}

function list(schema, schemas, depth) {
  const items = schema.prefixItems ?? [schema.items ?? {}];
  return `[${items.map((one) => typeOf(one, schemas, depth + 1)).join(", ")}]`;
}

function fields(schema, schemas, depth) {
  const named = Object.entries(schema.properties ?? {});
  const other = schema.additionalProperties;
  if (!named.length) return other && other !== true ? `{name: ${typeOf(other, schemas, depth + 1)}}` : "object";
  if (depth > DEEPEST) return "object";
  const pad = "  ".repeat(depth + 1);
  const required = new Set(schema.required ?? []);
  const lines = named.map(([name, one]) => {
    const type = typeOf(one, schemas, depth + 1);
    const given = one.default === undefined || one.default === null ? "" : ` = ${JSON.stringify(one.default)}`;
    return `${pad}${name}${required.has(name) ? "" : "?"}: ${type}${given}`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}
