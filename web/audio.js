/**
 * Owns the AudioContext: unlocking, the node that plays, volume, and the readings of the output clock.
 *
 * Sound never passes through here; the worker talks to the player through its own port.
 */

import { RATE } from "./protocol.js";
import { ScheduledSink } from "./scheduled-sink.js";

const CLOCK_EVERY = 250; // ms
const FROZEN_AFTER = 1000; // ms in which a running context must have moved
const here = (name) => new URL(name, import.meta.url);

export class AudioOutput {
  /**
   * @param {{workletUrl?: string | URL, audioContext?: AudioContext,
   *   onReading(reading: object): void, onState(state: string): void}} options
   */
  constructor(options) {
    this.options = options;
    this.context = options.audioContext ?? new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    this.gain = this.context.createGain();
    this.gain.connect(this.context.destination);
    this.sink = null; // worklet, scheduled
    this.control = null; // port or object with postMessage: the fast path for stop and pause
    this.moved = { time: -1, at: 0 };
    this.context.onstatechange = () => this.#changed();
  }

  get locked() {
    return this.context.state !== "running";
  }

  /** Build the player; resolves to the port for the worker. */
  async open() {
    const { port1, port2 } = new MessageChannel();
    if (this.context.audioWorklet) {
      await this.context.audioWorklet.addModule(this.options.workletUrl ?? here("playback-worklet.js"));
      const node = new AudioWorkletNode(this.context, "playhead-playback", {
        numberOfInputs: 0,
        outputChannelCount: [1],
      });
      node.connect(this.gain);
      node.port.postMessage({ t: "port", port: port1 }, [port1]);
      this.control = node.port;
      this.sink = "worklet";
    } else {
      this.control = new ScheduledSink(this.context, this.gain, port1);
      this.sink = "scheduled";
    }
    this.timer = setInterval(() => this.#read(), CLOCK_EVERY);
    return port2;
  }

  /** Ask the browser to let sound out; call it in every gesture until `locked` is false. */
  unlock() {
    if (navigator.audioSession) navigator.audioSession.type = "playback"; // iOS: despite the silent switch
    // An interrupted context must not be resumed: WebKit then runs with a frozen clock.
    if (this.context.state === "suspended") this.context.resume().catch(() => {});
  }

  setVolume(volume) {
    this.gain.gain.setTargetAtTime(volume, this.context.currentTime, 0.01);
  }

  #changed() {
    this.#read();
    this.options.onState(this.context.state);
  }

  #read() {
    const { context } = this;
    if (context.state !== "running") return;
    const stamp = context.getOutputTimestamp?.() ?? {};
    const now = performance.now();
    this.options.onReading({
      now: performance.timeOrigin + now,
      current: context.currentTime,
      contextTime: stamp.contextTime,
      performanceTime: performance.timeOrigin + stamp.performanceTime,
      outputLatency: context.outputLatency,
    });
    this.#revive(now);
  }

  /** A context that claims to run but stands still comes back after a suspend and a resume. */
  async #revive(now) {
    const { context, moved } = this;
    if (context.currentTime !== moved.time) {
      this.moved = { time: context.currentTime, at: now };
    } else if (now - moved.at > FROZEN_AFTER) {
      this.moved = { time: context.currentTime, at: now };
      await context.suspend();
      await context.resume();
    }
  }

  async close() {
    clearInterval(this.timer);
    if (!this.options.audioContext) await this.context.close();
  }
}
