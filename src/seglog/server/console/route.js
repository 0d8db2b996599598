/* The current place: the hash contains everything that back, forward, reload and a copied address must keep. */

/** "#/topics/orders/records?partition=1" -> {parts: ["topics", "orders", "records"], query: {partition: "1"}} */
export function current() {
  const [where, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter(Boolean).map(decoded);
  return { parts: parts.length ? parts : ["topics"], query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a place; parts of `query` that are null or empty are left out. */
export function address(parts, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const written = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${written ? `?${written}` : ""}`;
}

/** Go to a place, as a click on a link would. */
export function go(parts, query) {
  location.hash = address(parts, query);
}

/** Say where one is without a step in the history. */
export function note(parts, query) {
  history.replaceState(null, "", address(parts, query));
}
