/**
 * Turns what arrived and what the worklet rendered into positions at the ear and into acks.
 *
 * Pure: moments (ms) and the ear's frame are passed in. One `Track` per utterance. Ticks inside,
 * milliseconds in the results.
 */

import { TICKS_PER_MS } from "./protocol.js";

const SEGMENTS_KEPT = 16;
const MIN_INTERVAL = 100; // ms between acks that no change asked for
const WAITING_INTERVAL = 500; // ms, for utterances that are still queued behind another

const round = (ms) => Math.round(ms * 10) / 10;

/** One utterance between the wire and the ear. */
export class Track {
  constructor(n, id) {
    this.n = n;
    this.id = id;
    this.state = "waiting"; // waiting, playing, stalled, paused, ended
    this.seq = -1;
    this.received = 0; // ticks: end of the last chunk
    this.rendered = 0;
    this.heard = 0; // never goes back, although reported latencies do
    this.segments = []; // {frame, pos, end}: stretches that sounded without a break; `end` null: still open
    this.frame = 0; // context frame of the last message of the worklet
    this.ear = 0; // frame that left the speaker when it came
    this.dryFrame = null; // where silence began, while stalled
    this.stalls = 0;
    this.stalled = 0;
    this.dropped = 0;
    this.rx = 0;
    this.echo = 0;
    this.over = false; // the worklet will render nothing more
    this.ackedAt = -Infinity;
    this.ackedSeq = -1;
    this.urgent = false; // something changed since the last ack
  }

  /** A chunk has arrived. */
  receive({ seq, ts, dur, sentAt }, now) {
    this.seq = seq;
    this.received = ts + dur;
    this.rx = now;
    this.echo = sentAt;
  }

  /** A message of the worklet about this utterance, a report or an event; `ear` as of its arrival. */
  apply({ k, f, pos, stalls, stalled }, ear) {
    this.frame = f;
    this.ear = ear;
    this.rendered = Math.max(this.rendered, pos);
    this.stalls = stalls;
    this.stalled = stalled;
    if (k === "r") return;
    this.urgent = true;
    if (k === "start" || k === "resume") this.#open(f, pos);
    else this.#close(pos);
    if (k === "stall") this.dryFrame = f;
    else if (k !== "pause") this.dryFrame = null;
    if (k === "end" || k === "cancelled") this.over = true;
    else this.state = { start: "playing", resume: "playing", stall: "stalled", pause: "paused" }[k];
  }

  #open(frame, pos) {
    this.segments.push({ frame, pos, end: null });
    if (this.segments.length > SEGMENTS_KEPT) this.segments.shift();
  }

  #close(pos) {
    const segment = this.segments[this.segments.length - 1];
    if (segment && segment.end === null) segment.end = pos;
  }

  /** Move the heard position to what leaves the speaker now; `ear` is a context frame. */
  listen(ear) {
    const segment = this.segments.findLast((entry) => entry.frame <= ear);
    if (segment) {
      const heard = Math.min(segment.pos + Math.floor(ear - segment.frame), segment.end ?? this.rendered);
      this.heard = Math.max(this.heard, heard);
    }
    if (this.over && this.heard >= this.rendered && this.state !== "ended") {
      this.state = "ended";
      this.urgent = true;
    }
  }

  /** Ticks of sound that are left unrendered; negative: silence has lasted so long. */
  slack(ear) {
    const since = Math.max(0, ear - this.ear); // rendering and the ear advance alike
    if (this.dryFrame !== null) return this.dryFrame - this.frame - since;
    const running = this.state === "playing" && !this.over;
    return this.received - this.rendered - (running ? since : 0);
  }

  /** Whether an ack is due: at once after a change, else every `interval` ms until all is heard. */
  due(now, interval) {
    if (this.urgent) return true;
    if (this.state === "ended" || this.seq < 0) return false;
    const queued = this.state === "waiting" && this.seq === this.ackedSeq;
    const wait = queued ? WAITING_INTERVAL : Math.max(MIN_INTERVAL, interval);
    return now - this.ackedAt >= wait - 15; // reports come in bursts of 10 ms
  }

  /** The ack of voice.v1; `listen` has been called for `now`. */
  ack(now, { clockStopped = false, hidden = false, sink = "worklet", latencySource = "none" } = {}) {
    this.urgent = false;
    this.ackedAt = now;
    this.ackedSeq = this.seq;
    return {
      type: "ack",
      n: this.n,
      seq: this.seq,
      played_ms: round(this.heard / TICKS_PER_MS),
      t_ms: round(now),
      state: clockStopped && this.state !== "waiting" ? "paused" : this.state,
      ...(clockStopped ? { reason: "clock" } : {}),
      buffered_ms: round(Math.max(0, this.received - this.heard) / TICKS_PER_MS),
      stalls: this.stalls,
      stalled_ms: round(this.stalled / TICKS_PER_MS),
      rx_ms: round(this.rx),
      echo: this.echo,
      latency_ms: round(Math.min(2000, Math.max(0, this.rendered - this.heard) / TICKS_PER_MS)),
      dropped_ms: round(this.dropped / TICKS_PER_MS),
      hidden,
      sink,
      latency_source: latencySource,
    };
  }
}

/** 95th percentile of how much later than the best one the last 64 chunks of a connection came. */
export class Jitter {
  constructor() {
    this.delays = [];
  }

  /** @param {number} rx client ms @param {number} sentAt server ms modulo 2³² */
  add(rx, sentAt) {
    this.delays.push(rx - sentAt);
    if (this.delays.length > 64) this.delays.shift();
  }

  /** Milliseconds. */
  p95() {
    if (this.delays.length < 2) return 0;
    const sorted = [...this.delays].sort((a, b) => a - b);
    return sorted[Math.ceil(0.95 * sorted.length) - 1] - sorted[0];
  }

  /** How long to hold the first chunk: nothing on a calm connection. */
  hold() {
    const p95 = this.p95();
    return p95 > 40 ? Math.min(p95 + 20, 300) : 0;
  }
}
