/**
 * Turns chunks into 48 kHz samples: WebCodecs, else WASM, else PCM from the server.
 *
 * One decoder per utterance: Opus carries state, and a reused decoder spoils the next utterance.
 * `dur` of the header is the truth; what a chunk decodes to is cut or padded to it.
 */

import { WasmOpus, WebCodecsOpus } from "./opus.js";
import { CODEC, PACKET_TICKS } from "./protocol.js";
import { Doubler } from "./resample.js";

const SILENT_PACKET = new Uint8Array([0xf8, 0xff, 0xfe]); // 20 ms of digital silence
const PROOF_TIMEOUT = 1500; // ms; Firefox starts a media process first
const FAULTS_BEFORE_WASM = 3; // in one utterance
const DOUBLED_RATE = 24_000; // Hz; PCM of 48 000 needs nothing
const FADE = 240; // 5 ms around a lost packet

/** Makes the decoder of each utterance; keeps one warm in advance. */
export class DecoderPool {
  /** @param {"auto" | "webcodecs" | "wasm" | "pcm"} preference `auto` proves each by decoding a packet. */
  constructor(preference = "auto") {
    this.preference = preference;
    this.kind = "none"; // webcodecs, wasm, pcm
    this.warm = null;
    this.rate = DOUBLED_RATE; // of PCM, as the server's hello says
    this.preSkip = 312;
  }

  /** Find out what this browser can do; returns the codecs to offer, best first. */
  async prove(wanted = ["opus", "pcm_s16le"]) {
    this.kind = "pcm";
    if (!wanted.includes("opus") || this.preference === "pcm") return ["pcm_s16le"];
    for (const kind of ["webcodecs", "wasm"]) {
      if (this.preference !== "auto" && this.preference !== kind) continue;
      if (await this.#works(kind)) {
        this.kind = kind;
        return wanted;
      }
    }
    return ["pcm_s16le"];
  }

  async #works(kind) {
    const opus = await this.#make(kind).catch(() => null);
    if (!opus) return false;
    const { frames } = await opus.decode([SILENT_PACKET], PROOF_TIMEOUT);
    opus.close();
    const works = frames[0]?.length === PACKET_TICKS;
    if (works) this.warm = this.#make(kind);
    return works;
  }

  #make(kind) {
    return kind === "wasm" ? WasmOpus.create() : WebCodecsOpus.create();
  }

  /** An Opus decoder without history. */
  async fresh() {
    const ready = this.warm ?? this.#make(this.kind);
    this.warm = this.#make(this.kind);
    this.warm.catch(() => {}); // told when it is used
    try {
      return await ready;
    } catch (error) {
      if (!this.demote()) throw error;
      return this.fresh();
    }
  }

  /** WebCodecs failed for good: WASM for the rest of the session. @returns {boolean} whether that helps */
  demote() {
    if (this.kind !== "webcodecs" || this.preference === "webcodecs") return false;
    this.kind = "wasm";
    this.warm?.then((opus) => opus.close()).catch(() => {});
    this.warm = this.#make("wasm");
    return true;
  }

  /** The decoder of one utterance. */
  open() {
    return new UtteranceDecoder(this);
  }
}

/** Decodes the chunks of one utterance in order. */
class UtteranceDecoder {
  constructor(pool) {
    this.pool = pool;
    this.opus = null;
    this.doubler = null; // made with the first PCM chunk: the rate is known only then
    this.faults = 0;
    this.dropped = 0; // ticks replaced by silence
    this.level = 0; // last sample given out
    this.fadeIn = false;
    this.closed = false;
  }

  /** @returns {Promise<Float32Array>} the audible samples of `chunk`. */
  async decode(chunk) {
    if (chunk.codec === CODEC.pcm_s16le) return this.#pcm(chunk);
    const samples = new Float32Array(chunk.count * PACKET_TICKS);
    for (let at = 0; at < chunk.count && !this.closed; ) {
      at += await this.#packets(chunk.packets.slice(at), samples, at);
    }
    this.level = samples[samples.length - 1];
    return trim(samples, chunk, this.pool.preSkip);
  }

  /** Decode up to the first bad packet, and replace that one; returns how many packets are settled. */
  async #packets(packets, samples, at) {
    this.opus ??= await this.pool.fresh();
    if (this.closed) this.opus.close();
    const { frames, failed } = await this.opus.decode(packets);
    frames.forEach((frame, i) => this.#place(frame, samples, at + i));
    if (!failed || this.closed) return packets.length;
    this.#conceal(samples, at + frames.length);
    this.opus.close();
    this.opus = null;
    if (++this.faults >= FAULTS_BEFORE_WASM) this.pool.demote();
    return frames.length + 1;
  }

  #place(frame, samples, index) {
    if (this.fadeIn) for (let i = 0; i < FADE; i++) frame[i] *= i / FADE;
    this.fadeIn = false;
    samples.set(frame.subarray(0, PACKET_TICKS), index * PACKET_TICKS);
    this.level = frame[PACKET_TICKS - 1];
  }

  /** A lost packet: the last level dies away, then silence; the time line does not move. */
  #conceal(samples, index) {
    const start = index * PACKET_TICKS;
    for (let i = 0; i < FADE; i++) {
      samples[start + i] = this.level * (0.5 + 0.5 * Math.cos((Math.PI * i) / FADE));
    }
    this.level = 0;
    this.fadeIn = true;
    this.dropped += PACKET_TICKS;
  }

  #pcm(chunk) {
    const bytes = chunk.packets[0];
    const whole = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 1);
    const samples = Float32Array.from(whole, (value) => value / 32_768);
    if (this.pool.rate !== DOUBLED_RATE) return samples;
    this.doubler ??= new Doubler();
    const body = this.doubler.push(samples);
    return chunk.last ? concat(body, this.doubler.flush()) : body;
  }

  /** What is still inside when the end was not announced by a `last` chunk. */
  flush() {
    return this.doubler?.flush() ?? new Float32Array(0);
  }

  /** A decode in progress ends early; its samples are nobody's. */
  close() {
    this.closed = true;
    this.opus?.close();
  }
}

/** Cut the decoder's lookahead from the front of the first chunk and the padding off the end. */
function trim(samples, { first, last, dur }, preSkip) {
  const spare = Math.max(0, samples.length - dur);
  const front = first ? (last ? Math.min(preSkip, spare) : spare) : 0;
  const cut = samples.subarray(front, front + dur);
  return cut.length === dur ? cut.slice() : concat(cut, new Float32Array(dur - cut.length));
}

function concat(a, b) {
  const joined = new Float32Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
