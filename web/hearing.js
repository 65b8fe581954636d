/**
 * The player's side of a session: what was rendered and heard, and the acks that tell the server.
 *
 * Acks follow from the player's reports, which count frames; a timer speaks only when those cease.
 */

import { EarClock } from "./clock.js";
import { ms, playView, reportView } from "./views.js";

const SILENT_PLAYER = 350; // ms without a report: the audio clock stands still
const WATCH_EVERY = 100; // ms

const absolute = () => performance.timeOrigin + performance.now();

export class Hearing {
  /**
   * @param {{tell(message: object, urgent?: boolean): void, ack(message: object): void,
   *   rendered(entry: object): void, heard(entry: object): void, decoder(): string}} owner `rendered` is
   *   called after each of the player's messages, `heard` when nothing of an utterance is left to hear
   */
  constructor(owner) {
    this.owner = owner;
    this.entries = new Map(); // by the key under which the player knows them
    this.clock = new EarClock();
    this.player = null;
    this.sink = "none";
    this.hidden = false;
    this.interval = 100; // ms between acks, as the server wishes
    this.reportAt = absolute();
    setInterval(() => this.#watch(), WATCH_EVERY);
  }

  attach(port, sink) {
    this.player = port;
    this.sink = sink;
    port.onmessage = ({ data }) => this.#receive(data);
  }

  post(message, transfer) {
    this.player?.postMessage(message, transfer);
  }

  /** The frame that leaves the speaker now. */
  ear(rendered) {
    return this.clock.frameAt(absolute(), rendered);
  }

  /** A report or an event of the player. */
  #receive(message) {
    const at = absolute();
    this.reportAt = at;
    const ear = this.clock.frameAt(at, message.f);
    const entry = this.entries.get(message.n);
    if (entry) {
      entry.track.apply(message, ear);
      if (message.k !== "r") this.#event(entry, message, at);
    }
    this.#listen(ear, at, false);
    if (message.k === "r" && entry && !entry.finished) {
      const { source } = this.clock;
      const seen = { latency: message.f - ear, source, decoder: this.owner.decoder(), at };
      this.owner.tell(reportView(entry, message, seen));
    }
    this.owner.rendered(entry);
  }

  #event(entry, message, at) {
    if (message.k === "start") {
      entry.times.decoded = entry.feed.decodedAt;
      entry.times.started = at;
      entry.times.heard = this.clock.timeOf(message.f, at, message.f);
    }
    this.owner.tell(playView(entry, message, at), message.k !== "resume");
  }

  /** Move every utterance to what is heard at absolute time `at`, and send the acks that are due. */
  #listen(ear, at, clockStopped) {
    const wire = at - performance.timeOrigin;
    const told = { clockStopped, hidden: this.hidden, sink: this.sink, latencySource: this.clock.source };
    for (const entry of this.entries.values()) {
      const { track } = entry;
      const before = track.heard;
      if (!clockStopped) track.listen(ear);
      if (entry.acking && track.due(wire, this.interval)) this.owner.ack(track.ack(wire, told));
      if (track.heard !== before) this.owner.tell({ k: "heard", id: entry.id, heard_ms: ms(track.heard) });
      if (track.state === "ended") this.owner.heard(entry);
    }
  }

  /** Silence from the player must not look like playing. */
  #watch() {
    if (absolute() - this.reportAt >= SILENT_PLAYER) this.#listen(0, absolute(), true);
  }
}
