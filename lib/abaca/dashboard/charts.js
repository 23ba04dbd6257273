// The charts: what the page of the server remembers, as lines over time, with events as marks.
const WIDE = 600;
const HIGH = 100;
// What changes a server is marked by a line from top to bottom, what may come each second by a short one; those of one
// kind that are nearer than this stand for each other.
const CHANGES = ["boot", "death", "drain", "mode", "memory", "mark"];
const TICK = 14;
const NEAR = 4;

// Each series: the key of a record, its name, its colour, and what a tick's value is in the chart's unit.
const CHARTS = [
  { title: "Requests per second", unit: "rate", series: [
    ["requests", "all", "run", (value, tick) => value / tick], ["failed", "5xx", "lock", (value, tick) => value / tick]] },
  { title: "Response time", unit: "seconds", series: [
    ["p50", "p50", "run", (value) => value / 1e6], ["p95", "p95", "gvl", (value) => value / 1e6],
    ["p99", "p99", "lock", (value) => value / 1e6]] },
  { title: "Requests", unit: "count", series: [
    ["in_app", "in the app", "db", (value) => value], ["waiting", "in the queue", "pool", (value) => value]] },
  { title: "Waiting for, on average", unit: "mean", series: ["run", "db", "pool", "http"].map(
    (key) => [key, key, key, (value, tick) => value / 1e3 / tick]) },
  { title: "Processor", unit: "percent", suffix: " %", series: [
    ["cpu", "computing", "run", (value, tick) => value / 10 / tick],
    ["gc", "collecting garbage", "gc", (value, tick) => value / 10 / tick],
    ["stalls", "stalled", "lock", (value, tick) => value / 10 / tick]] },
  { title: "Memory", unit: "bytes", series: [["rss", "resident", "http", (value) => value * 1024 * 1024]] },
];

class Chart {
  constructor(options) {
    this.options = options;
    this.now = make("span");
    this.picture = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img" });
    this.times = make("div", { class: "times", "aria-hidden": "true" });
    this.legend = make("ul", { class: "legend" });
    this.figure = make("figure", {}, make("figcaption", {}, options.title, this.now), this.picture, this.times, this.legend);
  }

  text(value) { return inUnit(value, this.options.unit) + (value === null ? "" : this.options.suffix || ""); }

  show(records, marks, from, to, tick) {
    const lines = this.options.series.map(([key, name, state, convert]) => ({ name, state,
      points: records.map((record) => [record.at, convert(record[key], tick)]) }));
    const most = Math.max(...lines.flatMap((line) => line.points.map((point) => point[1])), 0);
    const top = most > 0 ? most * 1.08 : 1;
    const x = (time) => ((time - from) / (to - from)) * WIDE;
    const y = (value) => HIGH - (value / top) * (HIGH - 2) - 1;
    fill(this.picture, [0.25, 0.5, 0.75].map((part) => draw("line",
      { class: "grid", x1: 0, x2: WIDE, y1: HIGH * part, y2: HIGH * part })),
    apart(marks, x).map((mark) => draw("line",
      { class: "mark", x1: x(mark.at), x2: x(mark.at), y1: CHANGES.includes(mark.kind) ? 0 : HIGH - TICK, y2: HIGH },
      fill(draw("title"), `${clock(mark.at)} ${visible(mark.kind)} ${visible(mark.text || "")}`))),
    lines.map((line) => draw("path", { d: path(line.points, x, y, tick * 2.5), style: null, stroke: colour(line.state) })));
    this.describe(lines, most, marks);
    fill(this.times, make("span", {}, clock(from)), make("span", {}, `most ${this.text(most)}`), make("span", {}, clock(to)));
  }

  // A list of what the lines are, which is also the picture's text.
  describe(lines, most, marks) {
    const last = lines.map((line) => {
      const values = line.points.map((point) => point[1]);
      return { line, value: values.length ? values[values.length - 1] : null };
    });
    fill(this.legend, last.map(({ line, value }) => make("li", {}, swatch(line.state), `${line.name} ${this.text(value)}`)));
    const events = marks.length ? ` ${marks.length} marked events.` : "";
    this.picture.setAttribute("aria-label", `${this.options.title}: ${last.map(({ line, value }) =>
      `${line.name} now ${this.text(value)}`).join(", ")}; at most ${this.text(most)}.${events}`);
  }
}

function apart(marks, x) {
  const last = {};
  return marks.filter((mark) => {
    const far = !(x(mark.at) - last[mark.kind] < NEAR);
    if (far) last[mark.kind] = x(mark.at);
    return far;
  });
}

// A line that is broken where there is nothing.
function path(points, x, y, gap) {
  let before = -Infinity;
  return points.map(([time, value]) => {
    const command = time - before > gap ? "M" : "L";
    before = time;
    return `${command}${x(time).toFixed(1)} ${y(value).toFixed(1)}${command === "M" ? "h.01" : ""}`;
  }).join("");
}

class Past {
  constructor(keys) {
    this.keys = keys;
    this.width = "seconds";
    this.records = new Map();
    this.events = [];
    this.charts = CHARTS.map((options) => new Chart(options));
    fill(at("charts"), this.charts.map((chart) => chart.figure));
  }

  get tick() { return this.width === "tens" ? 10 : 1; }
  get span() { return this.width === "tens" ? 6 * 3600 : 600; }

  turn(width) {
    this.width = width;
    this.records.clear();
  }

  take(now, rows, events) {
    for (const row of rows) {
      const record = Object.fromEntries(this.keys.map((key, i) => [key, row[i]]));
      this.records.set(record.tick, record);
    }
    for (const event of events) {
      const known = this.events.some((one) => one.at === event.at && one.worker === event.worker && one.kind === event.kind);
      if (!known) this.events.push(event);
    }
    this.events = this.events.sort((one, other) => one.at - other.at).slice(-256);
    for (const [tick, record] of this.records) if (record.at < now - this.span - 60) this.records.delete(tick);
    this.show(now);
  }

  show(now) {
    const from = now - this.span;
    const shown = [...this.records.values()].sort((one, other) => one.tick - other.tick)
      .filter((record) => record.at >= from && record.at + this.tick <= now + 0.5);
    const marks = this.events.filter((event) => event.at >= from);
    for (const chart of this.charts) chart.show(shown, marks, from, now, this.tick);
  }
}
