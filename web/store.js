/**
 * What the page remembers for its plots and tables: the utterance on show, and a ring of events.
 *
 * Filled from the SDK's events; knows nothing of the DOM.
 */

import { Marks } from "./captions.js";
import { firstAudio } from "./utterance.js";

const EVENTS_KEPT = 200;
const SAMPLES_KEPT = 3000; // five minutes of reports
const FIRST_AUDIO_KEPT = 5;

/** Everything shown about one utterance. Times in `samples` are seconds since its first chunk. */
class Shown {
  constructor(id) {
    this.id = id;
    this.n = null;
    this.begun = null; // absolute ms of the first chunk
    this.samples = []; // {t, buffered, received, rendered, belief}
    this.chunks = []; // {seq, start, dur, slack, promised}
    this.stalls = []; // {from, to}: seconds; `to` null while it lasts
    this.marks = new Marks();
    this.heard = 0;
    this.heardAt = 0; // absolute ms when `heard` was true
    this.playing = false;
    this.received = 0;
    this.audio = undefined; // ms, once the server has said it
    this.stopped = false;
    this.finished = null;
    this.latency = 0;
  }

  seconds(at) {
    return this.begun === null ? 0 : (at - this.begun) / 1000;
  }

  get minSlack() {
    return this.chunks.reduce((least, { slack }) => (slack === null ? least : Math.min(least, slack)), Infinity);
  }

  /** Milliseconds at the ear by `now`, between reports. */
  heardBy(now) {
    const since = this.playing ? Math.max(0, Math.min(250, now - this.heardAt)) : 0;
    return Math.min(this.received, this.heard + since);
  }
}

export class Store {
  constructor() {
    this.shown = null;
    this.events = []; // newest first
    this.firstAudio = []; // newest first: {label, server, network, decode, start, device, total}
    this.jitter = null;
    this.device = null;
    this.underruns = 0;
    this.origin = performance.timeOrigin + performance.now();
  }

  /** Show another utterance from now on. */
  show(id) {
    this.shown = new Shown(id);
  }

  log(event, { at = performance.timeOrigin + performance.now(), seq = "", buffer = "", note = "", tone = "" } = {}) {
    this.events.unshift({ t: Math.round(at - this.origin), event, seq, buffer, note, tone });
    this.events.length = Math.min(this.events.length, EVENTS_KEPT);
  }

  #of(id) {
    return this.shown?.id === id ? this.shown : null;
  }

  chunk(event) {
    const { id, at, seq, start_ms: start, dur_ms: dur, slack_ms: slack, jitter_ms: jitter, packets, bytes } = event;
    this.jitter = jitter;
    const shown = this.#of(id);
    if (shown) {
      shown.begun ??= at;
      shown.received = start + dur;
      shown.chunks.push({ seq, start, dur, slack, promised: null });
      const last = shown.samples.at(-1);
      this.#sample(shown, at, { buffered: (last?.buffered ?? 0) + dur, rendered: last?.rendered ?? 0 });
    }
    const buffer = slack === null ? "" : Math.round(slack);
    this.log("chunk", { at, seq, buffer, note: `${packets} × 20 ms, ${bytes} B`, tone: slack < 0 ? "bad" : "" });
  }

  report(event) {
    this.device = event.latency_ms;
    const shown = this.#of(event.id);
    if (!shown) return;
    shown.heard = event.heard_ms;
    shown.heardAt = event.at;
    shown.playing = event.state === "playing";
    shown.latency = event.latency_ms;
    this.#sample(shown, event.at, { buffered: event.buffered_ms, rendered: event.rendered_ms });
  }

  #sample(shown, at, { buffered, rendered }) {
    const t = Math.max(shown.seconds(at), (shown.samples.at(-1)?.t ?? -1) + 1e-4);
    shown.samples.push({ t, buffered, rendered, received: shown.received, belief: shown.belief ?? null });
    if (shown.samples.length > SAMPLES_KEPT) shown.samples.shift();
  }

  stats({ n, seq, lead_ms: lead, slack_ms: slack }) {
    const { shown } = this;
    if (!shown || shown.n !== n) return;
    shown.belief = Math.max(0, lead - shown.latency);
    const chunk = shown.chunks.find((entry) => entry.seq === seq);
    if (chunk) chunk.promised = slack;
  }

  play({ id, event, at, seq, buffered_ms: buffered, gap_ms: gap, pos_ms: pos, times }) {
    const shown = this.#of(id);
    if (event === "start") this.#firstSound(id, firstAudio({ times }));
    if (event === "stall") this.underruns++;
    if (shown) this.#moved(shown, event, at);
    const notes = {
      resume: gap ? `after ${Math.round(gap)} ms of silence` : "",
      cancelled: `at ${(pos / 1000).toFixed(2)} s`,
      end: `${(pos / 1000).toFixed(2)} s rendered`,
    };
    const tone = event === "stall" ? "bad" : event === "start" || event === "resume" ? "ok" : "";
    this.log(event, { at, seq, buffer: Math.round(buffered), note: notes[event] ?? "", tone });
  }

  #moved(shown, event, at) {
    shown.playing = event === "start" || event === "resume";
    const open = shown.stalls.at(-1);
    if (event === "stall") shown.stalls.push({ from: shown.seconds(at), to: null });
    else if (open && open.to === null) open.to = shown.seconds(at);
    if (event === "cancelled") shown.stopped = true;
  }

  /** @param {object} result what `finished` resolved with */
  finish(result) {
    const shown = this.#of(result.id);
    if (shown) {
      Object.assign(shown, { finished: result, playing: false, heard: result.heard_ms });
      const last = shown.samples.at(-1);
      if (last && result.reason !== "cancelled") {
        this.#sample(shown, performance.timeOrigin + performance.now(), { buffered: 0, rendered: result.rendered_ms });
      }
    }
    if (Number.isFinite(result.ttfa.total)) this.#firstSound(result.id, result.ttfa);
  }

  /** Known at the start; the server's part follows when it says so. */
  #firstSound(label, times) {
    const known = this.firstAudio.find((entry) => entry.label === label);
    if (known) Object.assign(known, times);
    else this.firstAudio = [{ label, ...times }, ...this.firstAudio].slice(0, FIRST_AUDIO_KEPT);
  }
}
