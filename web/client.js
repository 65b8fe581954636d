/**
 * Speak text through a Playhead gateway and hear it without gaps: the public SDK.
 *
 *     const voice = new VoiceClient({ url: "/v1/voice" });
 *     await voice.connect();
 *     const utterance = voice.speak("Hello there");   // in a click: that also unlocks the sound
 *     const { heard } = await utterance.interrupt();  // or: await utterance.finished
 *
 * `speak` never throws: before the connection, or before a gesture, it queues.
 */

import { AudioOutput } from "./audio.js";
import { Emitter } from "./emitter.js";
import { RATE, retryable } from "./protocol.js";
import { Utterance } from "./utterance.js";
import { wavBlob } from "./wav.js";

/** Why a promise of the SDK was rejected. */
export class VoiceError extends Error {
  /** @param {string} code @param {string} message @param {boolean} mayRetry */
  constructor(code, message, mayRetry = false) {
    super(message);
    this.code = code;
    this.retryable = mayRetry;
  }
}

export class VoiceClient extends Emitter {
  /**
   * @param {object} options
   * @param {string} options.url of the voice socket, relative to the page or absolute
   * @param {string} [options.token]
   * @param {string} [options.voice] and `language`, `instructions`: defaults of every utterance
   * @param {string} [options.language]
   * @param {string} [options.instructions]
   * @param {string[]} [options.codecs] in order of preference
   * @param {"auto" | "webcodecs" | "wasm" | "pcm"} [options.decoder]
   * @param {"auto" | number} [options.holdMs] sound to hold before starting; "auto": 0 on a calm network
   * @param {number} [options.maxLeadMs] the most unheard sound the server may send
   * @param {boolean} [options.reconnect]
   * @param {string[]} [options.want] optional messages of the server: "marks" (default), "stats"
   * @param {AudioContext} [options.audioContext] must run at 48 000 Hz
   * @param {string | URL} [options.workletUrl]
   * @param {string | URL} [options.workerUrl]
   */
  constructor(options) {
    super();
    this.options = options;
    this.state = "disconnected"; // connecting, connected, reconnecting, closed, refused
    this.server = null; // its hello
    this.utterances = new Map(); // unfinished ones, by id
    this.counter = 0;
    this.stops = 0;
    this.latest = {}; // for stats()
    this.opening = null; // resolves to the player's port for the worker
    this.attached = false;
    this.closing = new AbortController(); // ends what listens to the page
    this.audio = new AudioOutput({
      workletUrl: options.workletUrl,
      audioContext: options.audioContext,
      onReading: (reading) => this.post({ t: "clock", reading }),
      onState: () => this.#tellAudio(),
    });
    this.worker = new Worker(options.workerUrl ?? new URL("session-worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => data.forEach((message) => this.#fromWorker(message));
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.emit("error", { code: "worker_failed", message: event.message ?? "the worker did not load", fatal: true });
    };
    this.post({ t: "init", options: this.#workerOptions() });
    this.#watchPage();
  }

  #workerOptions() {
    const { token, codecs, decoder, holdMs, maxLeadMs, reconnect, want, voice, language, instructions } = this.options;
    const url = new URL(this.options.url, document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    const defaults = { voice, language, instructions };
    return { url: url.href, token, codecs, decoder, holdMs, maxLeadMs, reconnect, want, defaults };
  }

  #watchPage() {
    const { signal } = this.closing;
    const visibility = () => this.post({ t: "hidden", hidden: document.hidden });
    document.addEventListener("visibilitychange", visibility, { signal });
    window.addEventListener("pagehide", () => this.post({ t: "close" }), { signal });
    visibility();
  }

  post(message, transfer = []) {
    this.worker.postMessage(message, transfer);
  }

  /** Open the session; resolves with the server's hello. Needs no gesture. */
  async connect() {
    await this.#openAudio();
    if (this.state === "connected") return this.server;
    return new Promise((resolve, reject) => {
      const off = this.on("state", ({ state, code, reason, hello }) => {
        if (state === "connected") resolve(hello);
        else if (state === "refused" || state === "closed") {
          const text = `connect: the server closed the session: ${code}`;
          reject(new VoiceError(reason || String(code), text, retryable(code)));
        } else return;
        off();
      });
      this.post({ t: "connect" });
    });
  }

  async #openAudio() {
    this.opening ??= this.audio.open();
    const port = await this.opening;
    if (this.attached) return;
    this.attached = true;
    this.post({ t: "player", port, sink: this.audio.sink }, [port]);
    this.#tellAudio();
  }

  #tellAudio() {
    const { sink, locked, context } = this.audio;
    this.emit("audio", Object.freeze({ state: context.state, locked, sink }));
  }

  /** Retry at once instead of waiting for the back-off. */
  retry() {
    this.post({ t: "connect" });
  }

  /** Allow sound; call it in a gesture. Idempotent. */
  unlock() {
    this.audio.unlock();
  }

  /**
   * Say something.
   *
   * @param {string | AsyncIterable<string>} [text] whole, or a stream of pieces; without it, use
   *   `appendText` and `end` of the result
   * @param {{voice?: string, language?: string, instructions?: string, seed?: number, before?: string,
   *   mode?: "queue" | "replace"}} [options] `replace` stops what is being said
   * @returns {Utterance}
   */
  speak(text, options = {}) {
    this.unlock();
    if (options.mode === "replace") this.interrupt({ reason: "replaced" });
    const id = `u${++this.counter}`;
    const utterance = new Utterance(this, id);
    this.utterances.set(id, utterance);
    const whole = typeof text === "string";
    const askedAt = performance.timeOrigin + performance.now();
    utterance.text = whole ? text : "";
    this.post({ t: "say", id, text: utterance.text, last: whole, options, askedAt });
    if (text && !whole) utterance.pipe(text);
    return utterance;
  }

  /**
   * Stop everything at once, even if the connection is dead.
   *
   * @returns {Promise<object[]>} what each stopped utterance resolves `finished` with
   */
  interrupt({ reason = "barge_in" } = {}) {
    const id = ++this.stops;
    const stopped = [...this.utterances.values()];
    this.audio.control?.postMessage({ t: "cancel", n: null, id, epoch: id });
    this.post({ t: "interrupt", id, utterance: null, reason, at: performance.timeOrigin + performance.now() });
    return Promise.all(stopped.map(({ finished }) => finished));
  }

  interruptOne(utterance, reason) {
    const id = this.stops; // not a new epoch: the others go on
    if (utterance.key !== null) this.audio.control?.postMessage({ t: "cancel", n: utterance.key, id, epoch: id });
    const at = performance.timeOrigin + performance.now();
    this.post({ t: "interrupt", id, utterance: utterance.id, reason, at });
    return utterance.finished;
  }

  pause() {
    this.audio.control?.postMessage({ t: "pause" });
  }

  resume() {
    this.unlock();
    this.audio.control?.postMessage({ t: "resume" });
  }

  /** @param {number} volume 0 to 1 */
  setVolume(volume) {
    this.audio.setVolume(volume);
  }

  /** A snapshot for a debug panel. */
  stats() {
    const { context, sink } = this.audio;
    const { sampleRate, baseLatency, outputLatency, state } = context;
    const device = context.playbackStats ?? context.playoutStats;
    return {
      state: this.state,
      sink,
      context: { state, sampleRate, baseLatency, outputLatency, underruns: device?.underrunEvents },
      server: this.server,
      ...this.latest,
    };
  }

  /**
   * Record what is rendered, for tests and bug reports; stops by itself after `seconds`.
   *
   * @returns {{take(): Promise<{frame: number, samples: Float32Array}>, wav(): Promise<Blob>}} `frame` is
   *   the context frame of the first sample
   */
  record(seconds) {
    const node = this.audio.control;
    if (this.audio.sink !== "worklet") throw new VoiceError("no_recorder", "record: needs the worklet player");
    node.postMessage({ t: "record", samples: Math.ceil(seconds * RATE) });
    const take = () =>
      new Promise((resolve) => {
        node.onmessage = ({ data }) => resolve({ frame: data.frame, samples: data.samples });
        node.postMessage({ t: "take" });
      });
    return { take, wav: async () => wavBlob((await take()).samples, RATE) };
  }

  async close() {
    this.closing.abort();
    this.post({ t: "close" });
    await this.audio.close();
    setTimeout(() => this.worker.terminate(), 500);
  }

  #fromWorker(message) {
    const { k, ...event } = message;
    if (k === "state") this.#stateChanged(event);
    if (k === "report" || k === "chunk" || k === "rtt") Object.assign(this.latest, { [k]: event });
    const utterance = this.utterances.get(event.id ?? event.message?.utterance);
    utterance?.receive(k, event);
    if (k === "finished") this.utterances.delete(event.id);
    if (k === "server") this.emit(event.message.type, Object.freeze(event.message));
    else this.emit(k, Object.freeze(event));
  }

  #stateChanged(event) {
    this.state = event.state;
    if (event.hello) this.server = event.hello;
    if (event.decoder) this.latest.decoder = event.decoder;
  }
}
