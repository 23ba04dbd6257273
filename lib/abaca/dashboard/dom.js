// Makes and changes elements. Content is text or other elements.
const at = (id) => document.getElementById(id);

function fill(element, ...content) {
  element.replaceChildren(...content.flat(Infinity).filter((one) => one !== null && one !== undefined));
  return element;
}

function make(name, options = {}, ...content) {
  const { on = {}, ...attributes } = options;
  const element = document.createElement(name);
  setAll(element, attributes);
  for (const [event, action] of Object.entries(on)) element.addEventListener(event, action);
  return fill(element, ...content);
}

function draw(name, attributes = {}, ...content) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  setAll(element, attributes);
  return fill(element, ...content);
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
}

// Changes text only where it differs, so that screen readers hear of nothing else.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Every state has its colour, wherever it is shown.
const STATES = ["run", "sched", "gvl", "queue", "db", "cache", "http", "io", "pool", "lock", "sleep", "body", "drain", "gc"];
const colour = (state) => `var(--${STATES.includes(state) ? state : "other"})`;

function swatch(state) {
  const element = make("span", { class: "swatch", "aria-hidden": "true" });
  element.style.background = colour(state);
  return element;
}
