/*
 * Building the page and bringing it up to date.
 *
 * A view is a function from state to elements; `morph` turns the page into the view's result, so that focus,
 * selections and typed text stay. Text is only ever set as text: no data becomes markup, and none changes the
 * direction of the text around it.
 */

import { visible } from "./visible.js";

const SVG = "http://www.w3.org/2000/svg";
const SPACES = " \u00a0\u202f\n\t"; // of the page's own texts, of dates, and of values on several lines
const READ = new Set(["title", "aria-label", "placeholder"]); // attributes that people read

/** Make an element. `on`: listeners by event; `style`: CSS properties; `key`: identity among its siblings;
 *  `memo`: a value: as long as it is the same, the children (then given as one function) are not made again. */
export function h(tag, attributes, ...children) {
  return make(document.createElement(tag), attributes, children);
}

/** Make an SVG element, arguments as `h`. */
export function svg(tag, attributes, ...children) {
  return make(document.createElementNS(SVG, tag), attributes, children);
}

function make(node, attributes, children) {
  const { on, style, key, memo, value, checked, ...plain } = attributes ?? {};
  for (const [name, content] of Object.entries(plain)) {
    if (content === true) node.setAttribute(name, "");
    else if (content !== false && content !== null && content !== undefined)
      node.setAttribute(name, READ.has(name) ? visible(String(content), SPACES) : content);
  }
  for (const [name, content] of Object.entries(style ?? {})) node.style.setProperty(name, content);
  if (on) listen(node, on);
  node.key = key;
  if (memo === undefined) append(node, children);
  else Object.assign(node, { memo, fill: children[0] });
  if (value !== undefined) node.value = node.given = value;
  if (checked !== undefined) node.checked = node.given = checked;
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : visible(String(child), SPACES));
  }
}

function listen(node, handlers) {
  node.handlers = handlers;
  node.heard ??= new Set();
  for (const type of Object.keys(handlers)) {
    if (node.heard.has(type)) continue;
    node.heard.add(type);
    node.addEventListener(type, dispatch);
  }
}

function dispatch(event) {
  event.currentTarget.handlers[event.type]?.(event);
}

function filled(node) {
  if (node.fill) {
    append(node, [node.fill()]);
    node.fill = undefined;
  }
  for (const child of node.children ?? []) filled(child);
  return node;
}

/** Turn `old` into `fresh`, which is consumed. */
export function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  morphAttributes(old, fresh);
  if (fresh.memo !== undefined) {
    if (old.memo === fresh.memo) return;
    append(fresh, [fresh.fill()]);
  }
  old.memo = fresh.memo;
  morphChildren(old, fresh);
  if (fresh.given !== old.given) {
    old.given = fresh.given;
    if (fresh.type === "checkbox" || fresh.type === "radio") old.checked = fresh.given;
    else old.value = fresh.given ?? "";
  }
}

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  listen(old, fresh.handlers ?? {});
}

function morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  const stays = new Set(wanted.map(identity));
  const known = new Map();
  for (const child of old.childNodes) if (child.key !== undefined) known.set(identity(child), child);
  let place = old.firstChild;
  for (const child of wanted) {
    while (place && place.key !== undefined && !stays.has(identity(place))) place = removed(place);
    const same = child.key !== undefined ? known.get(identity(child)) : matches(place, child) ? place : null;
    if (!same) {
      old.insertBefore(filled(child), place);
    } else {
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      morph(same, child);
    }
  }
  while (place) place = removed(place);
}

function identity(node) {
  return node.key === undefined ? undefined : `${node.nodeName} ${node.key}`;
}

function matches(place, child) {
  return place && place.key === undefined && place.nodeName === child.nodeName;
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/** Put a freshly made tree on the page, with all that was left to be made later. */
export function mount(parent, node) {
  parent.append(filled(node));
  return node;
}
