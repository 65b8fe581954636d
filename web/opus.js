/**
 * Two Opus decoders behind one method: the browser's WebCodecs and libopus compiled to WASM.
 *
 * `decode(packets)` resolves to `{frames, failed}`: mono 48 kHz `Float32Array`s of the packets before
 * the first bad one. After `failed` the decoder is used up; the caller makes another.
 */

import { PACKET_TICKS, RATE } from "./protocol.js";

const TIMEOUT = 1500; // ms without any output before a decoder counts as dead

export class WebCodecsOpus {
  static async create() {
    if (typeof AudioDecoder === "undefined") throw new Error("opus: WebCodecs needs a secure context");
    return new WebCodecsOpus();
  }

  constructor() {
    this.frames = [];
    this.wanted = 0;
    this.settle = null;
    this.time = 0; // µs; decoders only want it to grow
    this.decoder = new AudioDecoder({ output: (data) => this.#output(data), error: () => this.#finish(true) });
    // 48 000 always: Safari fails at 44 100, and every browser gives 48 kHz whatever is asked.
    // No description: with an OpusHead browsers trim the start and shift later timestamps.
    this.decoder.configure({ codec: "opus", sampleRate: RATE, numberOfChannels: 1 });
  }

  decode(packets, timeout = TIMEOUT) {
    return new Promise((resolve) => {
      this.frames = [];
      const empty = packets.findIndex((packet) => packet.length === 0); // a closed decoder, were it fed
      const good = empty < 0 ? packets : packets.slice(0, empty);
      this.wanted = good.length;
      this.failsAfter = empty >= 0;
      const timer = setTimeout(() => this.#finish(true), timeout);
      this.settle = (failed) => {
        clearTimeout(timer);
        resolve({ frames: this.frames, failed });
      };
      if (good.length === 0) this.#finish(true);
      else this.#feed(good);
    });
  }

  #feed(packets) {
    try {
      for (const data of packets) {
        this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: this.time, data }));
        this.time += 20_000;
      }
    } catch {
      this.#finish(true); // closed by an error that its callback has not told yet
    }
  }

  #output(data) {
    const usable = data.sampleRate === RATE && data.numberOfFrames === PACKET_TICKS;
    const frame = new Float32Array(data.numberOfFrames);
    data.copyTo(frame, { planeIndex: 0, format: "f32-planar" });
    data.close();
    if (!usable) return this.#finish(true);
    this.frames.push(frame);
    if (this.frames.length === this.wanted) this.#finish(this.failsAfter);
  }

  #finish(failed) {
    const settle = this.settle;
    this.settle = null; // late callbacks of a finished call are ignored
    settle?.(failed);
  }

  close() {
    this.#finish(true);
    if (this.decoder.state !== "closed") this.decoder.close();
  }
}

export class WasmOpus {
  static async create() {
    const { OpusDecoder } = await import("./vendor/opus-decoder.js");
    const decoder = new OpusDecoder({
      sampleRate: RATE,
      channels: 1,
      streamCount: 1,
      coupledStreamCount: 0,
      channelMappingTable: [0],
      preSkip: 0,
    });
    await decoder.ready;
    return new WasmOpus(decoder);
  }

  constructor(decoder) {
    this.decoder = decoder;
  }

  async decode(packets) {
    const frames = [];
    for (const packet of packets) {
      if (packet.length === 0) return { frames, failed: true }; // libopus would conceal 120 ms
      const { channelData, samplesDecoded, errors } = this.decoder.decodeFrame(packet);
      if (errors.length > 0 || samplesDecoded !== PACKET_TICKS) return { frames, failed: true };
      frames.push(channelData[0]);
    }
    return { frames, failed: false };
  }

  close() {
    this.decoder?.free();
    this.decoder = null;
  }
}
