/**
 * Plays without an AudioWorklet, for pages on plain http: the same core, rendered ahead on the page's
 * thread into short buffers that start on the sample grid.
 *
 * Second best: it janks with the page, and the position of a stop is exact only while sound is flowing.
 */

import { PlayoutCore, STOP_FADE } from "./playout-core.js";
import { RATE, TICKS_PER_MS } from "./protocol.js";

const BLOCK = 960; // samples
const AHEAD = 0.25; // s scheduled in advance
const EVERY = 50; // ms

export class ScheduledSink {
  /** @param {AudioContext} context @param {AudioNode} output @param {MessagePort} worker */
  constructor(context, output, worker) {
    this.context = context;
    this.output = output;
    this.fader = context.createGain();
    this.fader.connect(output);
    this.core = new PlayoutCore((message) => worker.postMessage({ ...message, ...this.#corrected(message) }));
    this.frame = 0;
    this.sources = new Set();
    this.stopFrame = null; // what lies beyond was scheduled but will not be heard
    worker.onmessage = ({ data }) => this.postMessage(data);
    setInterval(() => this.#schedule(), EVERY);
  }

  /** The commands of the worklet's ports. */
  postMessage(message) {
    if (message.t === "pcm") this.core.push(message);
    else if (message.t === "end") this.core.end(message.n);
    else if (message.t === "cancel") this.#cancel(message);
    else if (message.t === "pause") this.core.pause();
    else if (message.t === "resume") this.core.resume();
    else if (message.t === "hold") this.core.hold = Math.round(message.ms * TICKS_PER_MS);
    this.#schedule();
  }

  #cancel({ n, id, epoch }) {
    const current = this.core.queue[0];
    if (current && (n === null || n === current.n)) this.#silence();
    this.core.cancel(n, id, epoch);
    while (this.core.queue[0]?.stopLeft > 0) this.core.render(new Float32Array(STOP_FADE), this.frame);
    this.frame = this.stopFrame ?? this.frame;
    this.stopFrame = null;
  }

  /** Fade what is scheduled and forget it; the next block starts on a fresh fader. */
  #silence() {
    const { context, fader } = this;
    const end = context.currentTime + 0.015;
    this.stopFrame = Math.round(end * RATE);
    fader.gain.setValueAtTime(1, context.currentTime);
    fader.gain.linearRampToValueAtTime(0, end);
    for (const source of this.sources) source.stop(end);
    this.sources.clear();
    this.fader = context.createGain();
    this.fader.connect(this.output);
  }

  /** A stop takes back what was rendered but not yet played. */
  #corrected({ k, f, pos }) {
    if (k !== "cancelled" || this.stopFrame === null) return {};
    return { pos: Math.max(0, pos - Math.max(0, f - this.stopFrame)), f: this.stopFrame };
  }

  #schedule() {
    if (this.context.state !== "running") return;
    const earliest = Math.ceil((this.context.currentTime + 0.02) * RATE);
    if (this.frame < earliest) this.frame = earliest; // the page was busy: time has passed in silence
    while (this.frame < (this.context.currentTime + AHEAD) * RATE) this.#block();
  }

  #block() {
    const buffer = this.context.createBuffer(1, BLOCK, RATE);
    this.core.render(buffer.getChannelData(0), this.frame);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.fader);
    source.start(this.frame / RATE);
    source.onended = () => this.sources.delete(source);
    this.sources.add(source);
    this.frame += BLOCK;
  }
}
