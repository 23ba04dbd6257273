// The line to the server: a look each second while somebody sees the page. It says what it is: live, paused or off.
class Line {
  constructor(base, question, take, help) {
    Object.assign(this, { base, question, take, help, paused: false });
    document.addEventListener("visibilitychange", () => this.open());
    setInterval(() => this.watch(), 1000);
  }

  // Also when something else is asked for.
  open() {
    this.close();
    if (this.paused || document.hidden) return this.state("paused", "paused");
    this.heard = performance.now();
    this.source = new EventSource(`${this.base}live?${new URLSearchParams(this.question())}`);
    this.source.onmessage = (event) => this.hear(event);
    this.source.onerror = () => this.lose();
    return true;
  }

  close() {
    clearTimeout(this.again);
    if (this.source) this.source.close();
    this.source = null;
  }

  hear(event) {
    this.heard = performance.now();
    this.lost = null;
    this.state("live", "live");
    this.take(JSON.parse(event.data));
  }

  // A server that is there and says nothing is as good as none.
  watch() {
    if (this.source && performance.now() - this.heard > 5000) this.lose();
  }

  async lose() {
    this.close();
    this.lost = this.lost || clock(Date.now() / 1000);
    this.state("off", `not connected since ${this.lost}`);
    this.again = setTimeout(() => this.open(), 2000);
    const answer = await fetch(`${this.base}request`).catch(() => null);
    if (answer && answer.status === 403 && this.lost) this.state("off", `not let in any more. ${this.help}`);
  }

  pause(paused) {
    this.paused = paused;
    this.open();
  }

  state(name, text) {
    at("state").className = `state ${name}`;
    say(at("state"), text);
  }
}
