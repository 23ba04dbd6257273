// The table of a screen. Rows stay where they are from one look to the next, so that the focus does.
class Table {
  constructor(screens, { sort, open, deeds }) {
    this.screens = screens;
    this.sort = sort;
    this.open = open;
    this.deeds = deeds;
    this.rows = new Map();
  }

  // Another screen: nothing of the last one stays.
  turn(key) {
    this.screen = this.screens.find((screen) => screen.key === key);
    this.rows.clear();
    fill(at("rows"));
    this.acts = this.deeds(key);
    this.heads = this.screen.columns.map((column) => make("th",
      { scope: "col", class: `${column.align} rank-${column.rank}` },
      make("button", { type: "button", on: { click: () => this.sort(column.key) } }, column.title)));
    fill(at("head"), make("tr", {}, this.heads, this.acts.length ? make("th", { scope: "col" },
      make("span", { class: "hidden" }, "Acts")) : null));
    say(at("caption"), this.screen.title);
  }

  show(table) {
    this.screen.columns.forEach((column, i) => {
      const sorted = column.key === table.sort;
      if (sorted) this.heads[i].setAttribute("aria-sort", table.rising ? "ascending" : "descending");
      else this.heads[i].removeAttribute("aria-sort");
    });
    const found = table.rows.map((row) => this.row(row));
    const kept = new Set(found);
    for (const [id, row] of this.rows) if (!kept.has(row)) this.rows.delete(id);
    place(at("rows"), found.map((row) => row.element));
    const more = table.total > table.rows.length ? `, ${grouped(table.rows.length)} shown` : "";
    say(at("summary"), [`${grouped(table.total)} ${table.total === 1 ? "row" : "rows"}${more}`, table.note]
      .filter(Boolean).join(" · "));
  }

  row(data) {
    const id = String(data.id);
    let row = this.rows.get(id);
    if (!row) {
      row = this.build();
      this.rows.set(id, row);
    }
    row.data = data;
    row.element.className = data.mark === "alarm" ? "alarm-row" : "";
    this.screen.columns.forEach((column, i) => {
      const text = inUnit(data[column.key], column.unit);
      say(row.texts[i], text);
      if (column.wide) row.cells[i].title = text;
    });
    return row;
  }

  // The wide column, or the first one, is the one that opens a row.
  build() {
    const row = {};
    const columns = this.screen.columns;
    const opens = this.screen.opens ? Math.max(columns.findIndex((column) => column.wide), 0) : -1;
    row.texts = columns.map((column, i) => (i === opens
      ? make("button", { type: "button", class: "open", on: { click: () => this.open(row.data) } }) : make("span")));
    row.cells = columns.map((column, i) => make("td",
      { class: `${column.align} rank-${column.rank}${column.wide ? " wide" : ""}` }, row.texts[i]));
    const acts = this.acts.length ? make("td", { class: "deeds" }, this.acts.map((deed) => make("button",
      { type: "button", class: "deed", on: { click: () => perform(deed, row.data) } }, deed.title))) : null;
    row.element = make("tr", {}, row.cells, acts);
    return row;
  }

  // The next or previous row that can be opened gets the focus.
  step(by) {
    const all = [...at("rows").querySelectorAll("button.open")];
    const now = all.indexOf(document.activeElement);
    const next = all[now < 0 ? 0 : Math.min(Math.max(now + by, 0), all.length - 1)];
    if (next) next.focus();
  }
}

// Puts elements in this order, and moves as few as possible: one that is moved loses the focus.
function place(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  const focus = document.activeElement;
  elements.forEach((element, i) => {
    if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] || null);
  });
  if (focus && focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}
