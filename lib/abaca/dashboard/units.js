// Values as short texts: a column's unit says how, as on a terminal.
const grouped = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
const padded = (value) => String(value).padStart(2, "0");

function seconds(value) {
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 0.9995) return `${(value * 1e3).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return value < 600 ? `${value.toFixed(value < 10 ? 1 : 0)} s` : span(value);
}

function span(value) {
  const pair = (large, name, small, other) =>
    `${Math.floor(value / large)}${name}${padded(Math.floor((value % large) / small))}${other}`;
  if (value < 60) return `${Math.floor(value)}s`;
  if (value < 3600) return pair(60, "m", 1, "s");
  return value < 86400 ? pair(3600, "h", 60, "m") : pair(86400, "d", 3600, "h");
}

function bytes(value) {
  for (const [power, letter] of [[4, "T"], [3, "G"], [2, "M"], [1, "K"]]) {
    const scaled = value / 1024 ** power;
    if (scaled >= 1) return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${letter}`;
  }
  return `${Math.round(value)} B`;
}

function clock(value) {
  const time = new Date(typeof value === "number" ? value * 1000 : value);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map(padded).join(":");
}

const small = (value) => (value >= 100 ? grouped(value) : value.toFixed(1));

const UNITS = {
  seconds, span, bytes, count: grouped, percent: small, mean: small, time: clock,
  rate: (value) => (value < 10 && !Number.isInteger(value) ? value.toFixed(1) : grouped(value)),
  signed: (value) => (value < 0 ? "" : "+") + value.toFixed(1),
};

function inUnit(value, unit) {
  if (value === null || value === undefined || value === "") return "–";
  const known = UNITS[unit];
  return known && (typeof value === "number" || unit === "time") ? known(value) : visible(value);
}
