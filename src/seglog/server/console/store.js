/*
 * The page's knowledge of the server, refreshed every two seconds, and its last minutes.
 *
 * A round loads what the present place shows. If the server does not answer, rounds continue with growing waits
 * and everything shown stays, marked as old. Knows no elements: it reports changes by `onChange`.
 */

import { ask, path, Problem, Unreachable } from "./api.js";

const INTERVAL_MS = 2000;
const HIDDEN_INTERVAL_MS = 20_000;
const LONGEST_WAIT_MS = 15_000;
const HISTORY_MS = 5 * 60_000;
const LONG_HISTORY_MS = 30 * 60_000; // of what charts show: one series for each topic, two for each group in it
const HEALTH_ROUNDS = 5;
const GROUPS_MAX = 40;
const KAFKA = ["connections", "groups", "producers"];
export const PARTITIONS_SHOWN = 16;

/** topics: list or null before the first answer; groups: name -> description; topic: the one shown, partitions: number
 *  -> its segments; failures: logs with problems; copies: what is copied, from
 *  here and to here; kafka: its clients, while they are shown; problems: refused requests, by what was requested. */
export const state = {
  topics: null,
  groups: null,
  topic: null,
  partitions: new Map(),
  failures: [],
  copies: null,
  kafka: null,
  problems: {},
  connection: { up: true, failures: 0, retryAt: 0, why: "" },
  notices: [],
};

const history = new Map();
let place = { parts: [], query: {} };
let tell = () => {};
let timer = null;
let round = 0;
let lasted = 0;

/** Call `listener` whenever something is new. */
export function onChange(listener) {
  tell = listener;
}

/** Say that something is new that is not in the state. */
export const changed = () => tell();

/** Go to another place and load what it needs immediately. */
export function lookAt(route) {
  if (route.parts[1] !== state.topic?.name) {
    state.topic = null;
    state.partitions = new Map();
    delete state.problems.topic;
  }
  place = route;
  return refresh();
}

/** Ask for everything now. */
export async function refresh() {
  clearTimeout(timer);
  const mine = ++round;
  const began = Date.now();
  try {
    const rarely = mine % HEALTH_ROUNDS === 1;
    await Promise.all([askTopics(), askGroups(), askTopic(), rarely && askHealth(), askCopies(rarely), askKafka()]);
    const before = state.connection.up;
    state.connection = { up: true, failures: 0, retryAt: 0, why: "" };
    if (!before) dispatchEvent(new Event("answered-again"));
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    if (mine === round) lost(error.message);
  }
  if (mine !== round) return;
  lasted = Date.now() - began;
  tell();
  timer = setTimeout(refresh, state.connection.up ? interval() : state.connection.retryAt - Date.now());
}

/** A server that needs long to answer, or has much to say, is asked less often. */
function interval() {
  return document.hidden ? HIDDEN_INTERVAL_MS : Math.max(INTERVAL_MS, 4 * lasted);
}

function lost(why) {
  const failures = state.connection.failures + 1;
  const wait = Math.min(LONGEST_WAIT_MS, 500 * 2 ** failures) * (0.8 + 0.4 * Math.random());
  state.connection = { up: false, failures, retryAt: Date.now() + wait, why };
}

/** Ask, and keep a refusal under `name` rather than raise it; a server that is not there yet counts as silent. */
async function kept(name, asking) {
  try {
    const answer = await asking();
    delete state.problems[name];
    return answer;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 503) throw new Unreachable(error.message);
    state.problems[name] = error;
    return undefined;
  }
}

async function askHealth() {
  try {
    state.failures = (await ask("GET", "/health")).failures;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    state.failures = error.said.failures ?? [];
  }
}

/** A copy is asked for its own lag each time: every page of it shows that. */
async function askCopies(rarely) {
  if (!rarely && place.parts[0] !== "copies" && !state.copies?.follows) return;
  const answer = await kept("copies", () => ask("GET", "/copies"));
  if (answer) state.copies = answer;
}

/** Kafka's clients, of the pages that the address names. */
async function askKafka() {
  if (place.parts[0] !== "kafka") return;
  const { query } = place;
  const page = (name) => ask("GET", `/kafka/${name}`, { query: { after: query[name] } });
  const answer = await kept("kafka", () => Promise.all(KAFKA.map(page)));
  if (answer && place.query === query) state.kafka = Object.fromEntries(KAFKA.map((name, index) => [name, answer[index]]));
}

async function askTopics() {
  const answer = await kept("topics", () => ask("GET", "/topics"));
  if (answer) state.topics = answer.topics.toSorted((one, other) => one.name.localeCompare(other.name));
}

async function askGroups() {
  const answer = await kept("groups", () => ask("GET", "/groups"));
  if (!answer) return;
  const shown = place.parts[0] === "groups" && place.parts[1];
  const names = answer.groups.toSorted();
  const wanted = names.filter((name, index) => index < GROUPS_MAX || name === shown);
  const found = await Promise.all(wanted.map((name) => group(name)));
  state.groups = new Map(names.map((name) => [name, found[wanted.indexOf(name)] ?? null]));
  if (shown && !names.includes(shown)) await kept("group", () => ask("GET", path("groups", shown)));
  else delete state.problems.group;
}

async function group(name) {
  const described = await kept(`group ${name}`, () => ask("GET", path("groups", name)));
  for (const [topic, partitions] of Object.entries(described?.lag ?? {})) {
    for (const [partition, lag] of Object.entries(partitions)) remember(lagName(name, topic, partition), lag);
    remember(totalName("lag", name, topic), sum(Object.values(partitions)), LONG_HISTORY_MS);
    remember(totalName("read", name, topic), sum(Object.values(described.committed?.[topic] ?? {})), LONG_HISTORY_MS);
  }
  return described;
}

async function askTopic() {
  if (place.parts[0] !== "topics" || !place.parts[1]) return;
  const [, name, tab] = place.parts;
  const topic = await kept("topic", () => ask("GET", path("topics", name)));
  if (!topic || place.parts[1] !== name) return;
  state.topic = topic;
  remember(
    endName(name),
    sum(topic.partition_states.map((one) => one.next_offset)),
    LONG_HISTORY_MS,
  );
  if (tab && tab !== "segments") return;
  const numbers = partitionsShown(topic, place.query);
  const asked = numbers.map((number) =>
    kept(`partition ${number}`, () => ask("GET", path("topics", name, "partitions", number))),
  );
  const found = await Promise.all(asked);
  if (place.parts[1] !== name) return;
  state.partitions = new Map(numbers.map((number, index) => [number, found[index]]).filter(([, one]) => one));
}

/** The partitions that one page of segments shows. */
export function partitionsShown(topic, query) {
  const first = Math.min(Math.max(0, Number(query.from) || 0), Math.max(0, topic.partitions - 1));
  const last = Math.min(topic.partitions, first + PARTITIONS_SHOWN);
  return Array.from({ length: last - first }, (_, index) => first + index);
}

const lagName = (group, topic, partition) => `lag ${JSON.stringify([group, topic, String(partition)])}`;
const totalName = (what, group, topic) => `${what} ${JSON.stringify([group, topic])}`;
const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
const endName = (topic) => `end ${topic}`;

function remember(name, value, most = HISTORY_MS) {
  const now = Date.now();
  const past = history.get(name) ?? [];
  const recent = past.filter((point) => point.at > now - most);
  recent.push({ at: now, value });
  history.set(name, recent);
}

/** The last minutes of a lag: [{at (ms), value}], the newest last. */
export const lagHistory = (group, topic, partition) => history.get(lagName(group, topic, partition)) ?? [];

/** The lag of a group in a topic, over the last half hour: [{at (ms), value}]. */
export const groupLags = (group, topic) => history.get(totalName("lag", group, topic)) ?? [];

/** Records that a group has committed in a topic per second: [{at (ms), value}]. */
export const groupRates = (group, topic) => rates(history.get(totalName("read", group, topic)) ?? []);

/** Records appended to a topic per second: [{at (ms), value}]. */
export const appendRates = (topic) => rates(history.get(endName(topic)) ?? []);

function rates(ends) {
  return ends.slice(1).map((point, index) => {
    const before = ends[index];
    return {
      at: point.at,
      value: Math.max(0, ((point.value - before.value) * 1000) / Math.max(1, point.at - before.at)),
    };
  });
}

/** Show a notice. kind: "good" disappears by itself, "bad" stays until it is dismissed. */
export function notify(kind, text, link = null) {
  const notice = { kind, text, link, id: Math.random().toString(36).slice(2) };
  state.notices = [...state.notices.slice(-3), notice];
  if (kind === "good") setTimeout(() => dismiss(notice.id), 10_000);
  tell();
}

/** Take a notice away. */
export function dismiss(id) {
  state.notices = state.notices.filter((notice) => notice.id !== id);
  tell();
}

/** Show an error: the server's sentence and what to do. */
export function complain(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Problem || error instanceof Unreachable)) throw error;
  notify("bad", error.advice ? `${error.message} ${error.advice}` : error.message);
}
