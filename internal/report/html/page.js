"use strict";
// What a reader may do with a page: sort, filter and copy its tables, copy its commands,
// magnify its charts. All that is to be read is there without it. Texts go into the page
// as text alone, never as markup.

const make = (name, text, attributes = {}) => {
  const e = document.createElement(name);
  e.textContent = text;
  for (const a in attributes) e.setAttribute(a, attributes[a]);
  return e;
};

// copy puts a text on the clipboard and says on the button that it did.
const copy = async (text, button) => {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // an older browser, or one that asks first
    const area = make("textarea", text);
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const name = button.textContent;
  button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => { button.textContent = name; }, 1500);
};

const copyButton = (text, name) => {
  const b = make("button", "Copy", {type: "button", title: name});
  b.addEventListener("click", () => copy(text(), b));
  return b;
};

const plain = s => s.replace(/\s+/g, " ").trim();

// size is the number that a cell begins with, in base units, or undefined: "1.2 Gbit/s" is 1.2e9.
const prefixes = {p: 1e-12, n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 1024, Mi: 1048576, Gi: 1073741824};
const size = text => {
  const s = text.replace(/^< /, ""); // what is less than a number is next to it
  const m = /^[+−-]?[\d  ,]*\.?\d+(?:e[+−-]?\d+)?/.exec(s);
  if (!m) return undefined;
  // A count in thousands has a prefix and no unit.
  const unit = /^\s*((?:[KMG]i)|[pnµmkKMGT])(?=bit|B|s|Hz|packets|pps|\/)|^\s*([kM])(?![^\s,;)])/.exec(s.slice(m[0].length));
  return parseFloat(m[0].replace(/−/g, "-").replace(/[  ,]/g, "")) * (unit ? prefixes[unit[1] ?? unit[2]] : 1);
};

// byCell orders rows by one cell: numbers before words, empty cells last.
const byCell = (i, down) => (a, b) => {
  const x = plain(a.cells[i]?.textContent ?? ""), y = plain(b.cells[i]?.textContent ?? "");
  const empty = s => s === "" || s === "—";
  if (empty(x) !== empty(y)) return empty(x) ? 1 : -1;
  const p = size(x), q = size(y);
  let order = p !== undefined && q !== undefined ? p - q : p !== undefined ? -1 : q !== undefined ? 1 : x.localeCompare(y, "en", {numeric: true});
  return down ? -order : order;
};

const sortable = table => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, i) => {
    const b = make("button", "", {type: "button", class: "sort", title: "sort by this column"});
    b.append(...head.childNodes);
    head.append(b);
    b.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...[...body.rows].sort(byCell(i, down)));
    });
  });
};

// filter shows the rows that have every word.
const filter = table => {
  const input = make("input", "", {type: "search", placeholder: "Filter rows", "aria-label": "Filter rows"}), count = make("span", "", {"aria-live": "polite"});
  input.addEventListener("input", () => {
    const words = plain(input.value).toLowerCase().split(" ");
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = plain([...row.cells].map(c => c.textContent).join(" ")).toLowerCase();
      row.hidden = !words.every(w => text.includes(w));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = input.value === "" ? "" : `${shown} of ${table.tBodies[0].rows.length}`;
  });
  return [input, count];
};

// sheet is a table as lines of cells with tabs between, as spreadsheets take them.
const sheet = table => [...table.rows].filter(r => !r.hidden).map(r => [...r.cells].map(c => plain(c.textContent)).join("\t")).join("\n");

// The groups of a chart's data say in data-x and data-y where its plot is, what its edges are
// worth, and what its axis shows: from to low high kind. It is magnified by a drag; a click on
// the button, or Escape, shows all of it again.
const axis = text => {
  const [from, to, low, high, kind] = text.split(" ");
  const log = kind === "log";
  return {from: +from, to: +to, low: log ? Math.log(+low) : +low, high: log ? Math.log(+high) : +high, kind, log};
};
const value = (a, at) => a.low + (at - a.from) / (a.to - a.from) * (a.high - a.low);

// labels writes the values of an axis of some step.
const decimals = step => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
const labels = {
  // Each further nine takes the same room: 1 is the 90th percentile.
  nines: (v, step) => (100 * (1 - 10 ** -v)).toFixed(Math.min(Math.max(0, Math.ceil(v) - 2) + decimals(step), 12)),
  moment: (v, step) => new Date(v * 1000).toISOString().slice(...(step < 60 ? [11, 19] : step < 43200 ? [5, 16] : [0, 10])).replace("T", " "),
};
const steps = (a, low, high, n) => {
  const raw = (high - low) / n, p = 10 ** Math.floor(Math.log10(raw));
  const step = a.kind === "moment" ? raw : [1, 2, 5, 10].map(f => f * p).find(s => s >= raw * (1 - 1e-9));
  const write = labels[a.kind] ?? ((v, step) => v.toFixed(decimals(step)));
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push([i * step, write(i * step, step)]);
  return out;
};

const svgNS = "http://www.w3.org/2000/svg";
const magnifiable = svg => {
  const plots = [...svg.querySelectorAll(".plot")], x = axis(plots[0].dataset.x), y = axis(plots[0].dataset.y);
  const top = Math.min(y.from, y.to), bottom = Math.max(y.from, y.to);
  const clip = document.createElementNS(svgNS, "clipPath"), room = document.createElementNS(svgNS, "rect"), select = document.createElementNS(svgNS, "rect"), ticks = document.createElementNS(svgNS, "g");
  const place = (r, left, upper, right, lower) => { for (const [k, v] of [["x", left], ["y", upper], ["width", right - left], ["height", lower - upper]]) r.setAttribute(k, v); };
  clip.id = svg.getAttribute("aria-labelledby").split(" ")[0] + "-clip";
  clip.append(room);
  place(room, x.from, top, x.to, bottom);
  select.setAttribute("class", "select");
  for (const plot of plots) { // what cuts must not be magnified
    const frame = document.createElementNS(svgNS, "g");
    plot.replaceWith(frame);
    frame.append(plot);
  }
  svg.append(clip, ticks, select);
  const back = make("button", "Show all", {type: "button", class: "back", hidden: ""});
  svg.after(back);
  const axes = [...svg.querySelectorAll(".scale")];
  let view = null;

  const draw = () => {
    back.hidden = !view;
    axes.forEach(a => { a.style.display = view ? "none" : ""; });
    ticks.replaceChildren();
    if (!view) {
      for (const plot of plots) {
        plot.parentNode.removeAttribute("clip-path");
        plot.removeAttribute("transform");
      }
      return;
    }
    const kx = (x.to - x.from) / (view.right - view.left), ky = (bottom - top) / (view.bottom - view.top);
    for (const plot of plots) {
      plot.parentNode.setAttribute("clip-path", `url(#${clip.id})`);
      plot.setAttribute("transform", `matrix(${kx} 0 0 ${ky} ${x.from - view.left * kx} ${top - view.top * ky})`);
    }
    const line = (x1, y1, x2, y2, name) => {
      const l = document.createElementNS(svgNS, "line");
      Object.entries({x1, y1, x2, y2, class: name}).forEach(([k, v]) => l.setAttribute(k, v));
      ticks.append(l);
    };
    const text = (px, py, anchor, s) => {
      const t = document.createElementNS(svgNS, "text");
      Object.entries({x: px, y: py, "text-anchor": anchor, class: "tick"}).forEach(([k, v]) => t.setAttribute(k, v));
      t.textContent = s;
      ticks.append(t);
    };
    const of = (a, first, last, n, put) => {
      const ends = [value(a, first), value(a, last)].sort((p, q) => p - q), [low, high] = a.log ? ends.map(Math.exp) : ends;
      for (const [v, label] of steps(a, low, high, n)) {
        const inner = a.log ? Math.log(v) : v;
        if (Number.isFinite(inner)) put((inner - ends[0]) / (ends[1] - ends[0]), label);
      }
    };
    of(x, view.left, view.right, x.kind === "moment" ? 4 : 6, (f, label) => {
      const px = x.from + f * (x.to - x.from);
      line(px, bottom, px, bottom + 4, "rule");
      text(px, bottom + 16, "middle", label);
    });
    of(y, view.bottom, view.top, 4, (f, label) => {
      const py = bottom - f * (bottom - top);
      line(x.from, py, x.to, py, "grid");
      text(x.from - 6, py + 4, "end", label);
    });
  };

  const at = e => {
    const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return {x: Math.min(Math.max(p.x, x.from), x.to), y: Math.min(Math.max(p.y, top), bottom), inside: p.x >= x.from - 4 && p.x <= x.to + 4 && p.y >= top - 4 && p.y <= bottom + 4};
  };
  let start = null;
  // A drag that is nearly level takes the whole height.
  const chosen = p => {
    const level = Math.abs(p.y - start.y) < 12;
    return {left: Math.min(start.x, p.x), right: Math.max(start.x, p.x), top: level ? top : Math.min(start.y, p.y), bottom: level ? bottom : Math.max(start.y, p.y)};
  };
  svg.addEventListener("pointerdown", e => {
    const p = at(e);
    if (!p.inside || e.button !== 0) return;
    start = p;
    svg.setPointerCapture(e.pointerId);
  });
  svg.addEventListener("pointermove", e => {
    if (!start) return;
    const c = chosen(at(e));
    place(select, c.left, c.top, c.right, c.bottom);
  });
  const end = e => {
    if (!start) return;
    const c = chosen(at(e));
    start = null;
    place(select, 0, 0, 0, 0);
    if (e.type !== "pointerup" || c.right - c.left < 8) return;
    const v = view ?? {left: x.from, right: x.to, top, bottom};
    const within = (low, high, f) => low + f * (high - low);
    const next = {left: within(v.left, v.right, (c.left - x.from) / (x.to - x.from)), right: within(v.left, v.right, (c.right - x.from) / (x.to - x.from)),
      top: within(v.top, v.bottom, (c.top - top) / (bottom - top)), bottom: within(v.top, v.bottom, (c.bottom - top) / (bottom - top))};
    if (next.right - next.left < (x.to - x.from) / 5000) return;
    view = next;
    draw();
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  const all = () => { view = null; draw(); };
  back.addEventListener("click", all);
  document.addEventListener("keydown", e => { if (e.key === "Escape" && view) all(); });
  addEventListener("beforeprint", all);
};
const fewestToFilter = 8; // rows

// furnish gives all that is below a root what this file has for it.
const furnish = root => {
  for (const table of root.querySelectorAll("table.plain")) {
    if (!table.tHead || !table.tBodies[0]) continue;
    const tools = make("div", "", {class: "tools"});
    if (table.tBodies[0].rows.length > 1) sortable(table);
    if (table.tBodies[0].rows.length >= fewestToFilter) tools.append(...filter(table));
    tools.append(copyButton(() => sheet(table), "copy the rows shown, for a spreadsheet"));
    (table.closest(".scroll") ?? table).before(tools);
  }
  for (const pre of root.querySelectorAll("pre")) {
    const tools = make("div", "", {class: "tools"});
    tools.append(copyButton(() => pre.textContent, "copy this text"));
    pre.before(tools);
  }
  new Set([...root.querySelectorAll(".plot")].map(plot => plot.ownerSVGElement)).forEach(magnifiable);
};
