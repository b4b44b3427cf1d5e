"use strict";
const $ = (id) => document.getElementById(id);
const LETTERS = { native: "N", vendor: "V", view: "–", fallback: "F", fails: "✕", untested: "?" };
const ORDER = ["native", "vendor", "view", "fallback", "fails", "untested"];
const STATUS = Object.keys(DATA.statuses);
const RARE = /^(c32|u16|u32|u64|f8.*)$/;
const NAMES = { forward: "forward", backward: "backward", double_backward: "double backward", forward_mode: "forward mode" };

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Returns cells[driver][direction][operator][dtype], built from the `data` of page.py.
function unpack() {
  const cells = {};
  for (const [driver, directions] of Object.entries(DATA.cells)) {
    cells[driver] = {};
    for (const [direction, rows] of Object.entries(directions)) {
      const byOperator = DATA.operators.map(() => new Array(DATA.dtypes.length).fill(null));
      for (const [op, dtype, status, mps, samples, ...texts] of rows) {
        const [kernels, vendor, fallback, why] = texts.map((i) => DATA.strings[i]);
        byOperator[op][dtype] = { status: STATUS[status], mps, samples, kernels, vendor, fallback, why };
      }
      cells[driver][direction] = byOperator;
    }
  }
  return cells;
}

const CELLS = unpack();
const state = { driver: Object.keys(CELLS)[0], direction: "forward", search: "", dtype: "", family: "", mps: "", statuses: "", rare: "" };

// The selection is part of the URL, so that views can be shared.
function readAddress() {
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (key in state) state[key] = value;
  if (!CELLS[state.driver]) state.driver = Object.keys(CELLS)[0];
  if (!CELLS[state.driver][state.direction]) state.direction = Object.keys(CELLS[state.driver])[0];
}

function writeAddress() {
  const kept = Object.entries(state).filter(([key, value]) => value && !(key === "direction" && value === "forward"));
  const defaults = kept.filter(([key, value]) => !(key === "driver" && value === Object.keys(CELLS)[0]));
  history.replaceState(null, "", "#" + new URLSearchParams(defaults));
}

// Returns the dtypes to show as columns. Rare dtypes are shown only on request or if there are no others.
function columns() {
  const all = DATA.dtypes.map((_, column) => column);
  const common = all.filter((column) => !RARE.test(DATA.dtypes[column][0]));
  return state.rare || !common.length ? all : common;
}

function counts(column) {
  const found = Object.fromEntries(ORDER.map((status) => [status, 0]));
  found.all = found.mps = found.tested = 0;
  for (const cells of CELLS[state.driver][state.direction]) {
    const cell = cells[column];
    if (!cell) continue;
    found[cell.status] += 1;
    found.all += 1;
    found.tested += cell.mps > 0;
    found.mps += cell.mps === 1;
  }
  return found;
}

function drawChart() {
  const chart = $("chart");
  chart.replaceChildren();
  const all = columns().map((column) => [column, counts(column)]);
  const most = Math.max(...all.map(([, c]) => c.all), 1);
  const pixels = Math.max(chart.clientWidth - 150, 100);
  all.forEach(([column, c]) => {
    const [tag, full] = DATA.dtypes[column];
    if (!c.all) return;
    const parts = element("div", { class: "parts", style: `width:${(c.all / most) * 100}%` });
    const said = [];
    for (const status of ORDER) {
      if (!c[status]) continue;
      said.push(`${c[status]} ${status}`);
      const label = (c[status] / most) * pixels > 30 ? String(c[status]) : "";
      parts.append(element("span", { class: status, style: `flex:${c[status]} 1 0`, title: `${c[status]} ${status}` }, label));
    }
    const bar = element("div", { class: "bar", role: "img", "aria-label": `${full}: ${said.join(", ")} of ${c.all}` }, parts);
    if (c.tested) {
      const title = `PyTorch's MPS backend passes ${c.mps} of the ${c.tested} that are tested on it`;
      bar.append(element("span", { class: "tick", style: `left:${(c.mps / most) * 100}%`, title }));
    }
    const good = c.native + c.vendor + c.view;
    chart.append(element("span", { title: full }, tag), bar, element("span", { class: "of" }, `${good} / ${c.all}`));
  });
}

// Returns the dtypes that the filters apply to: the selected dtype, or all visible ones.
function chosenColumns() {
  return state.dtype ? [DATA.dtypes.findIndex(([tag]) => tag === state.dtype)] : columns();
}

function matches(op, cells) {
  const [name, family] = DATA.operators[op];
  if (state.family && family !== state.family) return false;
  const seen = chosenColumns().map((column) => cells[column]).filter(Boolean);
  if (!seen.length) return false;
  const chosen = state.statuses ? state.statuses.split(",") : [];
  const good = (cell) => cell.status === "native" || cell.status === "view";
  const fits = (cell) => (!chosen.length || chosen.includes(cell.status)) &&
    (state.mps !== "1" || cell.mps === 1) && (state.mps !== "behind" || (cell.mps === 1 && !good(cell))) &&
    (state.mps !== "ahead" || (cell.mps !== 1 && good(cell)));
  if (!seen.some(fits)) return false;
  const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const text = [name, family, ...seen.flatMap((c) => [c.kernels, c.vendor, c.fallback, c.why])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function cellElement(cell, full) {
  if (!cell) return element("span");
  const mps = DATA.mps[cell.mps];
  const title = `${full}: ${cell.status}; PyTorch's MPS: ${mps}`;
  return element("span", { class: `${cell.status}${cell.mps === 1 ? " passes" : ""}`, title }, LETTERS[cell.status]);
}

function paragraph(label, text) {
  return element("p", {}, label, element("code", {}, text));
}

function details(cells) {
  const more = element("div", { class: "more" });
  cells.forEach((cell, column) => {
    if (!cell) return;
    const says = element("div");
    const [native, vendor, view, fallback] = cell.samples;
    const shares = [[native, "native"], [vendor, "vendor"], [view, "view"], [fallback, "fallback"]].filter(([n]) => n);
    const share = shares.length > 1 ? ` (samples: ${shares.map(([n, s]) => `${n} ${s}`).join(", ")})` : "";
    const body = element("span", {}, element("p", {}, element("b", {}, cell.status), share,
      element("span", { class: "mps" }, ` · PyTorch's MPS: ${DATA.mps[cell.mps]}`)));
    if (cell.why) body.append(element("p", {}, cell.why));
    if (cell.kernels) body.append(paragraph("kernels ", cell.kernels));
    if (cell.vendor) body.append(paragraph("vendor ", cell.vendor));
    if (cell.fallback) body.append(paragraph("fallback ", cell.fallback));
    says.append(element("b", {}, DATA.dtypes[column][1]), body);
    more.append(says);
  });
  return more;
}

function drawList() {
  const rows = CELLS[state.driver][state.direction];
  const shown = rows.map((_, op) => op).filter((op) => matches(op, rows[op]));
  $("list").replaceChildren(...shown.map((op) => {
    const [name, family] = DATA.operators[op];
    const said = columns().map((i) => rows[op][i] && `${DATA.dtypes[i][0]} ${rows[op][i].status}`).filter(Boolean).join(", ");
    const strip = element("span", { class: "cells", role: "img", "aria-label": said },
      ...columns().map((i) => cellElement(rows[op][i], DATA.dtypes[i][1])));
    const summary = element("summary", {}, element("span", { class: "name" }, name, element("small", {}, family)), strip);
    const row = element("details", {}, summary);
    row.addEventListener("toggle", () => { if (row.open && row.children.length === 1) row.append(details(rows[op])); });
    return row;
  }));
  if (!shown.length) $("list").append(element("p", { class: "none" }, "No operator is like that."));
  $("count").textContent = `${shown.length} of ${rows.filter((cells) => cells.some(Boolean)).length} operators, ` +
    `${NAMES[state.direction]}, on ${state.driver}`;
}

function switches(id, names, key) {
  $(id).replaceChildren(...names.map((name) => {
    const button = element("button", { type: "button", "aria-pressed": String(state[key] === name) }, NAMES[name] || name);
    button.addEventListener("click", () => { state[key] = name; draw(); });
    return button;
  }));
}

function drawStatuses() {
  const chosen = state.statuses ? state.statuses.split(",") : [];
  const rows = CELLS[state.driver][state.direction];
  $("statuses").replaceChildren(...ORDER.map((status) => {
    const count = rows.filter((cells) => chosenColumns().some((i) => cells[i] && cells[i].status === status)).length;
    const button = element("button", { type: "button", "aria-pressed": String(chosen.includes(status)), title: DATA.statuses[status] },
      element("i", { class: status }), status, element("b", {}, String(count)));
    button.addEventListener("click", () => {
      const left = chosen.includes(status) ? chosen.filter((s) => s !== status) : [...chosen, status];
      state.statuses = left.join(",");
      draw();
      [...$("statuses").children][ORDER.indexOf(status)].focus();
    });
    return button;
  }));
}

function draw() {
  const directions = Object.keys(CELLS[state.driver]);
  if (!directions.includes(state.direction)) state.direction = directions[0];
  switches("drivers", Object.keys(CELLS), "driver");
  switches("directions", directions, "direction");
  $("rare").setAttribute("aria-pressed", String(Boolean(state.rare)));
  $("head").replaceChildren(element("span", {}, "operator"),
    element("span", { class: "cells" }, ...columns().map((i) => element("span", {}, DATA.dtypes[i][0]))));
  drawChart();
  drawStatuses();
  drawList();
  writeAddress();
}

function options(id, first, entries) {
  $(id).replaceChildren(element("option", { value: "" }, first), ...entries.map(([value, text]) => element("option", { value }, text)));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function start() {
  readAddress();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("about").textContent = `What ran for ${DATA.operators.length} operators of PyTorch ${DATA.torch}'s test database, ` +
    "type by type: Metal kernels, the CPU's own libraries, or the fallback. Observed, not declared.";
  $("legend").replaceChildren(
    ...ORDER.map((s) => element("span", { title: DATA.statuses[s] }, element("i", { class: s }), `${LETTERS[s]} ${s}`)),
    element("span", {}, element("i", { class: "tick" }), "passes on PyTorch's MPS (a dot in a cell)"));
  $("rare").hidden = !DATA.dtypes.some(([tag]) => RARE.test(tag));
  $("rare").addEventListener("click", () => { state.rare = state.rare ? "" : "1"; draw(); });
  options("dtype", "all types", DATA.dtypes.map(([tag, full]) => [tag, full]));
  options("family", "all families", [...new Set(DATA.operators.map(([, family]) => family))].sort().map((f) => [f, f]));
  for (const id of ["search", "dtype", "family", "mps"]) {
    $(id).value = state[id];
    $(id).addEventListener("input", () => { state[id] = $(id).value; draw(); });
  }
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      $("search").focus();
    } else if (event.key === "Escape" && event.target === $("search")) {
      $("search").value = state.search = "";
      draw();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && (event.target.tagName === "SUMMARY" || event.target === $("search"))) {
      const all = [...$("list").querySelectorAll("summary")];
      const at = all.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
      (at < 0 ? $("search") : all[Math.min(at, all.length - 1)])?.focus();
    }
  });
  draw();
  addEventListener("resize", drawChart);
}

start();
