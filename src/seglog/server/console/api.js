/*
 * The server's API: calls, the token, and advice on errors. Knows no views.
 *
 * A refusal becomes a `Problem` with the server's own sentence; no answer at all becomes `Unreachable`, so that the
 * caller can wait and try again. The token stays in this tab (sessionStorage) and goes nowhere else.
 */

const TOKEN = "seglog.token";

/** What to do about a refusal, by the server's name for it or its status. */
const ADVICE = {
  TopicNotFound: "It may have been deleted; see the list of topics.",
  GroupNotFound: "It may have been deleted; see the list of groups.",
  CorruptLog: "Run “seglog verify” on the server: it reports what is damaged and what is still readable.",
  401: "Enter a token that the server knows.",
  403: "Ask the operator of the server for a token with that right.",
  413: "Send less at once, or raise the limit on the server.",
  429: "Wait a moment and try again.",
  503: "The server is starting or stopping, or its storage has a problem; try again soon.",
  500: "See the server's log.",
};

/** The server refused. */
export class Problem extends Error {
  constructor(status, said) {
    super(sentence(said.detail || said.title || `the server answered ${status}`));
    this.status = status;
    this.said = said;
    this.advice = ADVICE[said.error] ?? ADVICE[status] ?? "";
  }
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** The server did not answer. */
export class Unreachable extends Error {}

/** Which token is sent; `ask` is called with the server's sentence when it wants one. */
export const access = {
  token: sessionStorage.getItem(TOKEN),
  ask: () => {},
  use(token) {
    this.token = token || null;
    if (this.token) sessionStorage.setItem(TOKEN, this.token);
    else sessionStorage.removeItem(TOKEN);
  },
};

/** A path from parts that may hold any character. */
export const path = (...parts) => `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

/** Make a call and give its Response. query: name -> text, bytes, a number or a list of them; null is left out. */
export async function call(method, where, { query = {}, json, body, headers = {}, signal } = {}) {
  const request = { method, headers: { ...headers }, body, signal, cache: "no-store", credentials: "omit" };
  if (access.token) request.headers.Authorization = `Bearer ${access.token}`;
  if (json !== undefined) {
    request.body = JSON.stringify(json);
    request.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(where + search(query), request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The server does not answer.");
  }
  if (response.ok) return response;
  const problem = new Problem(response.status, await saidBy(response));
  if (response.status === 401) access.ask(problem);
  throw problem;
}

function search(query) {
  const pairs = Object.entries(query)
    .flatMap(([name, value]) => [value].flat().map((one) => [name, one]))
    .filter(([, value]) => value !== null && value !== undefined)
    .map(
      ([name, value]) => `${name}=${value instanceof Uint8Array ? percentEncoded(value) : encodeURIComponent(value)}`,
    );
  return pairs.length ? `?${pairs.join("&")}` : "";
}

async function saidBy(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

/** Call and parse the answer as JSON. */
export async function ask(method, where, options) {
  const response = await call(method, where, options);
  return response.status === 204 ? null : answered(() => response.json());
}

/** Get bytes as they are, as a Blob: the browser keeps a large one where there is room. */
export async function raw(where) {
  const response = await call("GET", where, { headers: { Accept: "application/octet-stream" } });
  return answered(() => response.blob());
}

/** Call and read NDJSON: {lines, headers}. */
export async function lines(where, query, signal) {
  const response = await call("GET", where, { query, signal, headers: { Accept: "application/x-ndjson" } });
  const text = await answered(() => response.text());
  return {
    lines: text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
    headers: response.headers,
  };
}

async function answered(read) {
  try {
    return await read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The server's answer ended too early.");
  }
}

/** Bytes as they travel in a query string, where they need not be UTF-8: [0x61, 0xff] -> "%61%FF". */
function percentEncoded(bytes) {
  return Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0").toUpperCase()}`).join("");
}
