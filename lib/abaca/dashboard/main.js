// Puts a look on the page, and does what keys and buttons say.
const DATA = document.body.dataset;
const SCREENS = JSON.parse(DATA.screens);
const DEEDS = JSON.parse(DATA.deeds);
// Screens whose rows are opened, and those whose rows stand for requests.
const REQUESTS = ["requests", "slow"];
const NARROWS = { workers: "worker", routes: "route", waits: "target", clients: "address" };
for (const screen of SCREENS) screen.opens = REQUESTS.includes(screen.key) || screen.key in NARROWS;

const deedsOn = (what) => DEEDS.filter((deed) => deed.on === what);
const view = { screen: SCREENS[0].key, ways: {}, filter: "", worker: "" };
const way = () => (view.ways[view.screen] ||= { sort: "", turned: false });

actsFor = { base: DATA.base, token: DATA.token || secretOfTab(), numbers: Number(DATA.numbers), help: DATA.help };
if (DEEDS.length && !actsFor.token) readOnly();
const past = new Past(JSON.parse(DATA.history));
const detail = new Detail(DATA.base, deedsOn("request"));
const line = new Line(DATA.base, () => ({ screen: view.screen, sort: way().sort, turned: way().turned ? "1" : "",
  filter: view.filter, worker: view.worker, width: past.width }), take, DATA.help);
const table = new Table(SCREENS, { sort: sortBy, open: openRow, deeds: (key) => (key === "workers" ? deedsOn("worker") : []) });

// --- a look ---

function take(look) {
  if (look.screen !== view.screen) return;
  shown = look;
  overview(look.overview);
  workers(look.workers);
  table.show(look.table);
  if (look.width === past.width) past.take(look.at, look.history, look.events);
}
let shown = null;

function overview(figures) {
  const name = ["Abaca", figures.version, figures.tag].filter(Boolean).map(visible).join(" ");
  say(at("name"), name);
  document.title = `${inUnit(figures.rate, "rate")} r/s · ${name}`;
  say(at("facts"), `up ${inUnit(figures.up, "span")} · ${figures.ready} of ${figures.workers} ${
    figures.workers === 1 ? "worker" : "workers"}${figures.stopped.length ? ` · stopped: ${figures.stopped.join(", ")}` : ""}`);
  const stalls = figures.stalls.map((stall) => ["Stall", `worker ${stall.worker}`, seconds(stall.age), stall.method, stall.path,
    stall.text].filter(Boolean).map(visible).join("  "));
  const list = at("stalls");
  while (list.children.length > stalls.length) list.lastChild.remove();
  stalls.forEach((text, i) => say(list.children[i] || list.appendChild(make("li")), text));
  cards(figures);
  states(figures.states);
}

function cards(figures) {
  const near = (value, most) => value !== null && most > 0 && value >= 0.85 * most;
  const of = (value, most, unit) => [inUnit(value, unit), most ? `of ${inUnit(most, unit)}` : ""];
  const pressure = Object.entries(figures.pressure || {}).sort((one, other) => other[1] - one[1])[0];
  fill(at("cards"), [
    ["Requests / s", [inUnit(figures.rate, "rate"), `5xx ${inUnit(figures.failed, "percent")} %`], figures.failed >= 1],
    ["Rejected / s", [inUnit(figures.rejected, "rate"), figures.reasons.map(visible).join(", ")], figures.reasons.length > 0],
    ["Median", [inUnit(figures.p50, "seconds"), `p95 ${inUnit(figures.p95, "seconds")}`]],
    ["p99", [inUnit(figures.p99, "seconds"), ""]],
    ["In the app", of(figures.in_app, figures.places, "count"), near(figures.in_app, figures.places)],
    ["Queue", of(figures.queue, figures.queue_most, "count"), near(figures.queue, figures.queue_most)],
    ["Processor", [`${inUnit(figures.cpu, "count")} %`, `of ${inUnit(figures.cpu_most, "count")} %${
      figures.throttled ? `, throttled ${inUnit(figures.throttled, "percent")} %` : ""}`], near(figures.cpu, figures.cpu_most)],
    ["Memory", of(figures.memory, figures.memory_most, "bytes"), near(figures.memory, figures.memory_most)],
    ["Pressure", pressure ? [`${inUnit(pressure[1], "percent")} %`, visible(pressure[0])] : ["–", ""], pressure && pressure[1] >= 20],
  ].map(([name, [value, rest], alarm]) => make("div", { class: alarm ? "near" : null }, make("dt", {}, name),
    make("dd", {}, value, make("small", {}, rest || "\u00a0")))));
}

// How many requests were in each state, on average.
function states(means) {
  const all = Object.entries(means);
  const some = all.filter(([, mean]) => mean >= 0.05);
  const bar = make("div", { class: "bar", "aria-hidden": "true" }, some.map(([state, mean]) => {
    const part = make("span", { title: `${state} ${small(mean)}` });
    part.style.flexGrow = mean;
    part.style.background = colour(state);
    return part;
  }));
  fill(at("states"), bar, make("ul", { class: "legend", "aria-label": "Requests by state, on average" },
    all.map(([state, mean]) => make("li", {}, swatch(state), `${visible(state)} ${mean < 0.05 ? "0" : small(mean)}`))));
}

function workers(numbers) {
  const select = at("worker");
  const wanted = ["", ...numbers.map(String)];
  if ([...select.options].map((option) => option.value).join() === wanted.join()) return;
  fill(select, wanted.map((value) => make("option", { value }, value === "" ? "all" : value)));
  select.value = wanted.includes(view.worker) ? view.worker : "";
}

// --- what is shown ---

function show(key) {
  view.screen = key;
  table.turn(key);
  for (const button of at("screens").querySelectorAll("button")) {
    button.setAttribute("aria-current", button.dataset.screen === key ? "true" : "false");
  }
  line.open();
}

function sortBy(key) {
  const now = shown && shown.table.sort;
  const turned = key === now ? !way().turned : false;
  Object.assign(way(), { sort: key, turned });
  line.open();
}

function filterBy(text) {
  view.filter = text.trim();
  at("filter").value = text;
  line.open();
}

function pickWorker(value) {
  view.worker = value;
  at("worker").value = value;
  line.open();
}

function openRow(row) {
  if (REQUESTS.includes(view.screen)) return detail.show(row.worker, String(row.id).split(".").pop());
  if (view.screen === "workers") pickWorker(String(row.worker));
  else filterBy(String(row[NARROWS[view.screen]] || row.kind || ""));
  return show("requests");
}

function freeze(paused) {
  at("pause").setAttribute("aria-pressed", String(paused));
  say(at("pause"), paused ? "Go on" : "Pause");
  line.pause(paused);
}

// --- keys and buttons ---

const otherColumn = (by) => {
  const keys = SCREENS.find((screen) => screen.key === view.screen).columns.map((column) => column.key);
  const now = keys.indexOf(shown ? shown.table.sort : keys[0]);
  sortBy(keys[(now + by + keys.length) % keys.length]);
};

const KEYS = {
  "/": () => at("filter").focus(), "?": () => at("help").showModal(), "<": () => otherColumn(-1), ">": () => otherColumn(1),
  r: () => { way().turned = !way().turned; line.open(); }, f: () => freeze(!line.paused), j: () => table.step(1),
  k: () => table.step(-1), Escape: () => { if (view.filter) filterBy(""); },
  w: () => {
    const all = [...at("worker").options].map((option) => option.value);
    pickWorker(all[(all.indexOf(view.worker) + 1) % all.length]);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select")) {
    if (event.key === "Escape" && event.target === at("filter")) { filterBy(""); event.target.blur(); }
    return;
  }
  const number = /^[1-9]$/.test(event.key) && SCREENS[Number(event.key) - 1];
  const action = number ? () => show(number.key) : KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

fill(at("screens"), SCREENS.map((screen, i) => make("li", {}, make("button",
  { type: "button", "data-screen": screen.key, on: { click: () => show(screen.key) } },
  make("kbd", { "aria-hidden": "true" }, String(i + 1)), screen.title))));
fill(at("server-deeds"), deedsOn("server").map((deed) => make("button",
  { type: "button", class: "deed", on: { click: () => perform(deed, {}) } }, deed.title)));
at("pause").addEventListener("click", () => freeze(!line.paused));
at("keys").addEventListener("click", () => at("help").showModal());
at("worker").addEventListener("change", (event) => pickWorker(event.target.value));
at("filter").addEventListener("input", (event) => {
  clearTimeout(filterBy.timer);
  filterBy.timer = setTimeout(() => { view.filter = event.target.value.trim(); line.open(); }, 300);
});
for (const button of document.querySelectorAll("[data-closes]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
for (const button of document.querySelectorAll("[data-width]")) {
  button.addEventListener("click", () => {
    past.turn(button.dataset.width);
    for (const other of document.querySelectorAll("[data-width]")) other.setAttribute("aria-pressed", String(other === button));
    line.open();
  });
}
show(view.screen);
