"use strict";
// The page of a run that goes on. The server renders all text; this draws the charts.
(() => {
  const most = 900; // seconds that a chart keeps
  const $ = id => document.getElementById("live-" + id);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const units = {
    rate: [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]],
    rtt: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
  };
  const write = (kind, v) => {
    if (v == null) return "";
    if (v === 0) return "0";
    const [size, name] = units[kind].find(u => v >= u[0]) || units[kind][units[kind].length - 1];
    return (v / size).toPrecision(3) + "\u00a0" + name;
  };

  const clock = t => new Date(t * 1000).toLocaleTimeString([], {hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit"});

  // A chart is a figure with a plot that is made when it has something to show.
  class Chart {
    constructor(kind, place, small) {
      Object.assign(this, {kind, place, small, x: [], y: [], plot: null, trial: null, seen: false});
    }
    add(t, v, trial) {
      if (this.trial !== null && trial !== this.trial) { this.x.push(t - .001); this.y.push(null); } // no line from trial to trial
      if (trial !== this.trial) this.seen = false;
      this.trial = trial;
      this.seen ||= v > 0; // nothing is 0 once a trial has shown something, and unknown before
      this.x.push(t); this.y.push(v > 0 || this.kind === "rate" && this.seen ? v : null); // no round trip takes no time
      while (this.x.length > most) { this.x.shift(); this.y.shift(); }
    }
    // of begins anew with another kind of figure: a test of another kind.
    of(kind) {
      if (kind === this.kind) return;
      this.kind = kind;
      this.clear();
    }
    clear() {
      this.plot?.destroy();
      Object.assign(this, {x: [], y: [], plot: null, trial: null, seen: false});
    }
    draw() {
      if (!this.plot) this.make();
      this.plot.setData([this.x, this.y]);
    }
    make() {
      const stroke = colour(this.kind === "rate" ? "--c1" : "--c2"), soft = colour("--soft"), grid = {stroke: colour("--grid"), width: 1};
      const axis = {stroke: soft, grid, ticks: grid, font: "12px system-ui, sans-serif"};
      this.plot?.destroy();
      this.plot = new uPlot({
        width: this.place.clientWidth || 300, height: this.place.clientHeight,
        legend: {show: false}, cursor: {show: !this.small, drag: {x: false, y: false}}, padding: this.small ? [2, 0, 2, 0] : undefined,
        scales: {y: {range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1]}},
        axes: this.small ? [{show: false}, {show: false}] : [{...axis, space: 84, incrs: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600], values: (u, all) => all.map(clock)}, {...axis, size: 84, space: 34, values: (u, all) => all.map(v => write(this.kind, v).replace(/\.0+\u00a0/, "\u00a0"))}],
        series: [{}, {stroke, width: this.small ? 1.3 : 1.7, fill: this.small ? undefined : stroke + "22", spanGaps: false, points: {show: () => this.y.length < 4, filter: (u, i, all) => all ? null : this.alone()}}],
      }, [this.x, this.y], this.place);
    }
    // alone are the values without a neighbour, to which no line leads: trials of a second have one each.
    alone() {
      const y = this.y;
      return [...y.keys()].filter(i => y[i] != null && y[i - 1] == null && y[i + 1] == null);
    }
    fit() {
      if (this.plot && this.place.clientWidth) this.plot.setSize({width: this.place.clientWidth, height: this.place.clientHeight});
    }
  }

  const rate = new Chart("rate", $("rate").querySelector(".plot"), false);
  const rtt = new Chart("rtt", $("rtt").querySelector(".plot"), false);
  const pairs = new Map(); // by name
  let dirty = false;

  const pairOf = name => {
    let p = pairs.get(name);
    if (p) return p;
    const card = document.createElement("div"), title = document.createElement("span"), beside = document.createElement("span"), value = document.createElement("span"), place = document.createElement("div");
    card.className = "pair"; title.className = "name"; beside.className = "rtt"; value.className = "value"; place.className = "plot";
    title.textContent = title.title = name;
    card.append(title, beside, value, place);
    $("pairs").append(card);
    p = {card, value, beside, chart: new Chart("rate", place, true)};
    pairs.set(name, p);
    return p;
  };

  const second = s => {
    const drawn = {rate: s.rate > 0, rtt: s.rtt > 0};
    rate.add(s.t, s.rate, s.trial); rtt.add(s.t, s.rtt, s.trial);
    if (drawn.rate) $("rate").hidden = false;
    if (drawn.rtt) $("rtt").hidden = false;
    const all = s.pairs || [];
    for (const one of all) {
      const p = pairOf(one.name), rates = s.rate > 0;
      p.chart.of(rates ? "rate" : "rtt");
      p.chart.add(s.t, rates ? one.rate : one.rtt, s.trial);
      p.value.textContent = write(p.chart.kind, p.chart.y[p.chart.y.length - 1] ?? 0);
      p.beside.textContent = rates ? write("rtt", one.rtt || null) : "";
      p.card.classList.toggle("lost", !(rates ? one.rate > 0 : one.rtt > 0));
    }
    if (all.length) $("pairs-section").hidden = false;
    $("pairs-further").textContent = s.further ? "and " + s.further + " further ones" : "";
    dirty = true;
  };

  // Charts are drawn once for all that came at the same time.
  const draw = () => {
    requestAnimationFrame(draw);
    if (!dirty) return;
    dirty = false;
    if (!$("rate").hidden) rate.draw();
    if (!$("rtt").hidden) rtt.draw();
    for (const p of pairs.values()) p.chart.draw();
  };
  draw();

  let shown = ""; // report
  const report = async () => {
    const response = await fetch("report");
    if (!response.ok) return;
    const text = await response.text();
    if (text !== shown) {
      $("report").innerHTML = shown = text;
      furnish($("report"));
    }
  };

  const say = text => { $("connection").textContent = text; $("connection").hidden = !text; };
  const source = new EventSource("events");
  let reported = Promise.resolve();
  const rendered = {};
  let lost = ""; // a sentence, until another run begins
  source.addEventListener("run", () => { // another one begins
    lost = "";
    for (const c of [rate, rtt, ...[...pairs.values()].map(p => p.chart)]) c.clear();
    pairs.clear();
    $("pairs").replaceChildren();
    $("rate").hidden = $("rtt").hidden = $("pairs-section").hidden = true;
  });
  source.addEventListener("second", e => second(JSON.parse(e.data)));
  source.addEventListener("view", e => {
    const {parts, report: over} = JSON.parse(e.data);
    for (const [id, html] of Object.entries(parts)) {
      if (rendered[id] === html) continue;
      const left = $(id).querySelector(".scroll")?.scrollLeft; // a phone's reader stays where it was
      $(id).innerHTML = rendered[id] = html;
      if (left) $(id).querySelector(".scroll").scrollLeft = left;
    }
    if (over) reported = report().catch(() => say("The report could not be fetched; it is in the run's folder."));
    else if (shown) $("report").innerHTML = shown = "";
    document.title = document.querySelector("h1").textContent + " · hopbench";
    say(lost);
  });
  source.addEventListener("lost", e => say(lost = e.data + " events came before this page, or too fast for it, and are not in its charts."));
  source.addEventListener("over", async () => {
    await reported;
    source.close(); // the run's program ends now; the page stays
    document.documentElement.dataset.over = "true";
  });
  source.onerror = () => say(source.readyState === EventSource.CLOSED
    ? "The run's program is gone, and this page has its last state. hopbench ui shows what is kept."
    : "The run's program does not answer: it may have been ended. This page asks again every two seconds.");

  addEventListener("resize", () => { for (const c of [rate, rtt, ...[...pairs.values()].map(p => p.chart)]) c.fit(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const c of [rate, rtt, ...[...pairs.values()].map(p => p.chart)]) if (c.plot) c.make();
  });
})();
