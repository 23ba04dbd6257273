// One request: what it is, where its time went, and its last waits as a waterfall.
const FACTS = [["route", "Route"], ["status", "Status"], ["peer", "Client"], ["mode", "Runs on"], ["phase", "Phase"],
  ["waits_for", "Waits for"], ["worker", "Worker"], ["id", "Number"], ["reasons", "Kept since it was"], ["end", "Ended"],
  ["children", "Fibers started"], ["trace", "Trace"]];

class Detail {
  constructor(base, deeds) {
    this.base = base;
    this.deeds = deeds;
    this.dialog = at("detail");
  }

  async show(worker, id) {
    const answer = await fetch(`${this.base}request?worker=${encodeURIComponent(worker)}&id=${encodeURIComponent(id)}`)
      .catch(() => null);
    if (!answer || !answer.ok) return notify(answer && answer.status === 404
      ? "This request has ended, and was not kept." : "The server did not answer.");
    this.fill(await answer.json());
    this.dialog.showModal();
    return true;
  }

  fill(request) {
    const data = { worker: request.worker, id: `${request.worker}.${request.id}` };
    say(at("detail-title"), `${visible(request.method || "")} ${visible(request.path || "")}`);
    fill(at("detail-deeds"), (request.ended ? [] : this.deeds).map((deed) => make("button",
      { type: "button", class: "deed", on: { click: () => perform(deed, data) } }, deed.title)));
    const state = request.ended ? "ended" : `${visible(request.state)} since ${seconds(request.since)}`;
    fill(at("detail-body"), make("dl", { class: "facts" }, fact(request.ended ? "Took" : "Age", seconds(request.age)),
      fact("State", state), FACTS.filter(([key]) => known(request[key])).map(([key, name]) =>
        fact(name, [request[key]].flat().map(visible).join(", ")))),
    this.sums(request), this.waits(request));
  }

  sums(request) {
    const all = Object.entries(request.sums);
    const whole = all.reduce((sum, [, time]) => sum + time, 0);
    const bar = make("div", { class: "bar", "aria-hidden": "true" }, all.map(([state, time]) => {
      const part = make("span");
      part.style.flexGrow = time;
      part.style.background = colour(state);
      return part;
    }));
    return make("section", {}, make("h3", {}, "Where its time went"), bar, make("ul", { class: "legend" },
      all.map(([state, time]) => make("li", {}, swatch(state),
        `${visible(state)} ${seconds(time)} (${((time / whole) * 100).toFixed(0)} %)`))));
  }

  waits(request) {
    if (!request.waits.length) return null;
    const stalls = request.stalls || [];
    const share = (time) => `${Math.min(Math.max((time / Math.max(request.age, 1e-6)) * 100, 0), 100)}%`;
    // Behind each wait: when others have kept the loop.
    const columns = () => stalls.map((stall) => {
      const column = make("b");
      column.style.left = share(stall.at);
      column.style.width = share(stall.time);
      return column;
    });
    const lane = (wait) => {
      const bar = make("i");
      bar.style.left = share(wait.at);
      bar.style.width = share(wait.time);
      bar.style.background = colour(wait.state);
      return make("td", { class: "lane", "aria-hidden": "true" }, columns(), bar);
    };
    return make("section", {}, make("h3", {}, "Its last waits, from its begin on"), make("div", { class: "scroll" },
      make("table", { class: "fall" },
        make("thead", {}, make("tr", {}, ["At", "State", "", "Time", "For"].map((title) => make("th", { scope: "col" }, title)))),
        make("tbody", {}, request.waits.map((wait) => make("tr", {}, make("td", { class: "right" }, seconds(wait.at)),
          make("td", {}, swatch(wait.state), visible(wait.state)), lane(wait),
          make("td", { class: "right" }, seconds(wait.time)), make("td", {}, inUnit(wait.target, "text"))))))),
    stalls.length ? make("section", {}, make("h3", {}, "Others that have kept its loop (grey)"), make("ul", {},
      stalls.map((stall) => make("li", {}, `at ${seconds(stall.at)} for ${seconds(stall.time)}: ` +
        `${stall.request ? `request ${visible(stall.request)}, ` : ""}${visible(stall.text || "")}`)))) : null);
  }
}

const known = (value) => value !== null && value !== undefined && value !== "";
const fact = (name, text) => [make("dt", {}, name), make("dd", {}, text)];
