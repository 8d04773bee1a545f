"use strict";
// Nodes, numbers for people, tables. Every text goes into the page as text, never as markup: record files may come from strangers.

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  return node;
}

const NONE = "\u2013";
const known = (x) => x !== null && x !== undefined;

function time(seconds) {
  if (!known(seconds)) return NONE;
  const [size, unit] = seconds < 1e-3 ? [1e-6, "\u00b5s"] : seconds < 1 ? [1e-3, "ms"] : [1, "s"];
  const count = seconds / size;
  return `${count.toFixed(count < 10 ? 2 : count < 100 ? 1 : 0)} ${unit}`;
}

function number(x, digits = 1) {
  return known(x) ? x.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : NONE;
}

const percent = (x) => (known(x) ? `${number(100 * x)} %` : NONE);
const times = (x) => (known(x) ? `${number(x, 2)}\u00d7` : NONE);
const day = (seconds) => (seconds ? new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC" : NONE);

function changeText(change) {
  if (!change.before) return `${change.what}: new ${change.after}`;
  if (!change.after) return `${change.what}: no more ${change.before}`;
  return `${change.what}: ${change.before} \u2192 ${change.after}`;
}

function changeList(changes) {
  return el("ul", { class: "changes" }, changes.map((c) => el("li", {}, changeText(c))));
}

// A table that can be searched and, by the buttons in its head, sorted. A column is {name, value, show, left}: `value` of a row
// is what it is sorted by, `show` gives a text or a node.
function table(caption, columns, rows) {
  const body = el("tbody", {});
  const count = el("span", { role: "status", class: "note" });
  const search = el("input", { type: "search", "aria-label": `Search in: ${caption}`, placeholder: "search" });
  let order = null;
  const made = rows.map((row, place) => {
    const cells = columns.map((c) => el("td", { class: c.left ? "left" : null }, c.show ? c.show(row) : String(c.value(row) ?? NONE)));
    return { row, place, node: el("tr", {}, cells) };
  });
  for (const one of made) one.text = one.node.textContent.toLowerCase();

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/);
    const found = made.filter((one) => words.every((w) => one.text.includes(w)));
    if (order) found.sort((a, b) => compare(order.column.value(a.row), order.column.value(b.row), order.down) || a.place - b.place);
    body.replaceChildren(...found.map((one) => one.node));
    const all = `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;
    count.textContent = found.length === rows.length ? all : `${found.length} of ${all}`;
  }

  const heads = columns.map((column) => {
    const head = el("th", { scope: "col", class: column.left ? "left" : null, "aria-sort": "none" });
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "none" ? !column.left : head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      order = { column, down };
      fill();
    };
    head.append(el("button", { type: "button", on: { click: sort } }, column.name));
    return head;
  });
  search.addEventListener("input", fill);
  fill();
  const inner = el("table", {}, el("caption", { class: "note" }, caption), el("thead", {}, el("tr", {}, heads)), body);
  return el("div", {}, el("div", { class: "tablebar" }, search, count), el("div", { class: "tablebox", tabindex: "0", role: "region", "aria-label": caption }, inner));
}

// What is not known comes last, in either order.
function compare(a, b, down) {
  if (!known(a) || !known(b)) return known(a) ? -1 : known(b) ? 1 : 0;
  const found = typeof a === "string" ? a.localeCompare(b) : a - b;
  return down ? -found : found;
}

function facts(pairs) {
  return el("ul", { class: "facts" }, pairs.map(([name, value]) => el("li", {}, el("b", {}, value), name)));
}

function list(pairs) {
  return el("dl", {}, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
