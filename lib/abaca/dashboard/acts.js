// What can be done: a question, then a POST with a secret. An app's page has its own. Elsewhere it is the fragment of
// the link, which no server is sent: the tab keeps it, and another tab can only look.
const SECRET = "abaca-acts";
let actsFor = { base: "/", token: "", numbers: 1, help: "" };

function secretOfTab() {
  const given = /^#([0-9a-f]{64})$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(SECRET, given[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(SECRET) || "";
}

function readOnly() {
  sessionStorage.removeItem(SECRET);
  document.body.classList.add("read-only");
  say(at("read-only"), `Read-only. ${actsFor.help}`);
}

function notify(text) {
  clearTimeout(notify.timer);
  say(at("message"), text);
  notify.timer = setTimeout(() => say(at("message"), ""), 6000);
  return false;
}

const filled = (text, row, change = (word) => word) => text.replace(/\{(\w+)\}/g, (_, name) => change(String(row[name])));

// A worker's number is that of its slot, or of the other slot that its number has.
function perform(deed, given) {
  const row = { ...given, number: given.worker % actsFor.numbers };
  say(at("ask-text"), filled(deed.question, row, visible));
  at("ask-yes").onclick = () => {
    at("ask").close();
    post(deed, row);
  };
  at("ask").showModal();
  at("ask").querySelector("[data-closes]").focus();
}

async function post(deed, row) {
  const path = actsFor.base + filled(deed.path, row, encodeURIComponent);
  if (deed.chart) say(at("chart"), `${deed.title}: goes on`);
  const answer = await fetch(path, { method: "POST", headers: { "X-Abaca-Token": actsFor.token } }).catch(() => null);
  if (!answer && deed.chart) say(at("chart"), "");
  if (!answer) return notify(`${deed.title}: no answer`);
  const text = await answer.text().catch(() => "");
  if (deed.chart) { answer.ok ? showChart(deed) : say(at("chart"), ""); }
  if (answer.status === 403 && sessionStorage.getItem(SECRET)) readOnly(); // it is of another link
  return notify(answer.ok ? `${deed.title}: done` : `${deed.title}: ${visible(text).slice(0, 200)} (${answer.status})`);
}

// The server keeps the last one.
function showChart(deed) {
  fill(at("chart"), make("a", { href: `${actsFor.base}chart`, target: "_blank", rel: "noopener" },
    `Chart of ${clock(Date.now() / 1000)}: ${deed.title}`));
}
