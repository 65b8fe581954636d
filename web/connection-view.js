/** What the connection is doing, in the pill and in banners, and what to do about it. */

const RETRYING = new Map([
  [1013, "Server is busy"],
  [1012, "Server restarts"],
  [1001, "Server is shutting down"],
]);

export class ConnectionView {
  /** @param {HTMLElement} pill @param {import("./banners.js").Banners} banners @param {object} voice */
  constructor(pill, banners, voice) {
    this.pill = pill;
    this.banners = banners;
    this.voice = voice;
    this.timer = 0;
    this.roundTrip = null;
  }

  /** A `state` event of the SDK. */
  show(event) {
    clearInterval(this.timer);
    const { state } = event;
    if (state === "connected") this.#connected();
    else if (state === "connecting") this.#say(event.attempt ? `Connecting… (${event.attempt})` : "Connecting…", "warn");
    else if (state === "reconnecting") this.#reconnecting(event);
    else if (state === "refused") this.#refused(event);
    else this.#say("Disconnected", "off");
  }

  rtt(ms) {
    this.roundTrip = ms;
    if (this.voice.state === "connected") this.#connected();
  }

  #say(text, tone) {
    this.pill.textContent = text;
    this.pill.dataset.tone = tone;
  }

  #connected() {
    for (const key of ["lost", "refused", "token"]) this.banners.hide(key);
    const ms = this.roundTrip === null ? "" : ` · ${Math.max(1, Math.round(this.roundTrip))} ms`;
    this.#say(`Connected${ms}`, "ok");
  }

  #reconnecting({ code, attempt, wait_ms: wait }) {
    this.#say(`Reconnecting… (${attempt})`, "warn");
    const until = performance.now() + wait;
    const why = RETRYING.get(code) ?? "Connection lost. Playing what already arrived";
    const tell = () => {
      const left = Math.max(0, Math.ceil((until - performance.now()) / 1000));
      this.banners.show("lost", `${why}; trying again in ${left} s.`, { action: ["Now", () => this.voice.retry()] });
    };
    tell();
    this.timer = setInterval(tell, 500);
  }

  #refused({ code, reason }) {
    this.#say("Refused", "bad");
    this.banners.hide("lost");
    if (code === 4401) return this.#askToken();
    this.banners.show("refused", `The server refused the session: ${reason || code}.`, { tone: "bad" });
  }

  #askToken() {
    const field = Object.assign(document.createElement("input"), { type: "password", autocomplete: "off" });
    field.ariaLabel = "Access token";
    const use = () => {
      sessionStorage.setItem("playhead-token", field.value.trim());
      location.reload();
    };
    field.onkeydown = ({ key }) => key === "Enter" && use();
    this.banners.show("token", "Access token missing or wrong.", { tone: "bad", extra: field, action: ["Connect", use] });
  }
}
