/**
 * One voice session: utterances, commands of the page, messages of the server.
 *
 * Lives in the worker. Time is `performance.now()` on the wire and `absolute()` towards the page,
 * whose own clock has another origin.
 */

import { Track, Jitter } from "./acks.js";
import { DecoderPool } from "./decoder.js";
import { Feeder } from "./feeder.js";
import { Hearing } from "./hearing.js";
import { ChunkError, MESSAGE_POINTS, hello, parseChunk, say, textMessages } from "./protocol.js";
import { Socket } from "./socket.js";
import { chunkView, finishedView, ms } from "./views.js";

const STOP_TIMEOUT = 150; // ms to wait for the player's confirmation of a stop
const CANCEL_TIMEOUT = 1500; // ms to wait for the server's `cancelled`
const PING_EVERY = 5000;

const now = () => performance.now();
const absolute = () => performance.timeOrigin + performance.now();

/** What the session knows about one utterance beside its track and its feed. */
class Entry {
  constructor(id, feed, askedAt) {
    this.id = id;
    this.key = feed.key; // its number in the player; numbers on the wire begin anew with each session
    this.feed = feed;
    this.track = feed.track;
    this.times = { asked: askedAt }; // absolute ms: asked, arrived, decoded, started, heard
    this.sent = false; // `say` is on the wire
    this.acking = false; // between `started` and a stop or a lost connection
    this.ended = null; // the server's last word: {reason, …}
    this.stop = null; // {id, at, reason, confirmed}: stopped by the user
    this.finished = false;
  }
}

export class Session {
  /** @param {{url: string, tell: Function, token?: string, codecs?: string[], decoder?: string,
   *   holdMs?: number | "auto", maxLeadMs?: number, reconnect?: boolean, want?: string[],
   *   defaults?: object, rememberedJitter?: number}} options */
  constructor(options) {
    this.options = options;
    this.tell = options.tell;
    this.entries = new Map(); // by id, in the order of `say`
    this.numbers = new Map(); // by n, of the present connection
    this.keys = 0;
    this.codecs = null; // promise of what this browser can decode
    this.pending = []; // messages that wait for the connection or for a stop to be confirmed
    this.ready = false; // the server has said hello
    this.jitter = new Jitter();
    this.pool = new DecoderPool(options.decoder);
    this.hearing = new Hearing({
      tell: this.tell,
      ack: (message) => this.socket.send(message),
      rendered: (entry) => this.#rendered(entry),
      heard: (entry) => entry.ended && this.#finish(entry),
      decoder: () => this.pool.kind,
    });
    this.feeder = new Feeder({
      post: (message, transfer) => this.hearing.post(message, transfer),
      now: absolute,
      failed: (feed, error) => this.#undecodable(feed.track.id, error),
    });
    this.socket = new Socket(options.url, { token: options.token, reconnect: options.reconnect ?? true }, {
      open: () => this.socket.send(this.hello),
      message: (data) => this.#fromServer(data),
      closed: (info) => this.#disconnected(info),
      state: (name, info) => this.tell({ k: "state", state: name, ...info }, true),
    });
    setInterval(() => this.#ping(), PING_EVERY);
  }

  /** A command of the page; unknown ones are a bug of ours. */
  command(message) {
    const commands = {
      connect: () => this.#connect(),
      close: () => this.#close(),
      player: () => this.hearing.attach(message.port, message.sink),
      clock: () => this.hearing.clock.update(message.reading),
      hidden: () => (this.hearing.hidden = message.hidden),
      say: () => this.#say(message),
      text: () => this.#text(message),
      flush: () => this.#send({ type: "flush", utterance: message.id }),
      interrupt: () => this.#interrupt(message),
    };
    commands[message.t]();
  }

  async #connect() {
    const { options, pool } = this;
    this.codecs ??= pool.prove(options.codecs);
    this.hello = hello({
      codecs: await this.codecs,
      holdMs: typeof options.holdMs === "number" ? options.holdMs : 0,
      maxLeadMs: options.maxLeadMs,
      token: options.token,
      defaults: options.defaults,
      want: options.want ?? ["marks"],
    });
    this.socket.connect();
  }

  #close() {
    this.socket.send({ type: "bye" });
    this.socket.close();
  }

  // ------------------------------------------------------------------ utterances

  #say({ id, text = "", last = false, options = {}, askedAt }) {
    const feed = this.feeder.open(++this.keys, new Track(-1, id), this.pool.open());
    const entry = new Entry(id, feed, askedAt);
    this.entries.set(id, entry);
    this.hearing.entries.set(entry.key, entry);
    const points = Array.from(text);
    const rest = points.slice(MESSAGE_POINTS).join("");
    this.#send(say(id, points.slice(0, MESSAGE_POINTS).join(""), last && !rest, options));
    if (rest) this.#text({ id, text: rest, last });
  }

  #text({ id, text, last }) {
    if (!this.entries.get(id) || this.entries.get(id).stop) return;
    for (const message of textMessages(id, text, last)) this.#send(message);
  }

  /** In order and only on an open session; while a stop is being confirmed, after its `cancel`. */
  #send(message) {
    this.pending.push(message);
    this.#release();
  }

  #deliver(message) {
    if (message.type === "say") {
      const entry = this.entries.get(message.utterance);
      if (!entry || entry.stop) return; // stopped before it was sent
      entry.sent = true;
    } else if (this.entries.get(message.utterance)?.sent !== true) {
      return;
    }
    this.socket.send(message);
  }

  #release() {
    const stopping = [...this.entries.values()].some(({ stop }) => stop && !stop.confirmed);
    if (!this.ready || stopping) return;
    for (const message of this.pending.splice(0)) this.#deliver(message);
  }

  /** Barge-in. The page has muted the player already; here the server learns what was heard. */
  #interrupt({ id, utterance, reason = "user", at }) {
    if (!utterance) this.feeder.epoch = Math.max(this.feeder.epoch, id);
    for (const entry of this.entries.values()) {
      if (entry.finished || entry.stop || (utterance && entry.id !== utterance)) continue;
      entry.stop = { id, at, reason, confirmed: false };
      entry.ended = null; // even after `done` the server tells how much was heard
      this.#mute(entry);
      const sounding = entry.feed.posted > 0 && !entry.track.over;
      if (sounding) setTimeout(() => this.#stopped(entry), STOP_TIMEOUT);
      else this.#stopped(entry);
    }
    this.tell({ k: "interrupted", id }, true);
  }

  /** No decoder could be made: the utterance is given up, with words. */
  #undecodable(id, error) {
    this.tell({ k: "error", code: "decode_failed", message: error.message, fatal: false, id }, true);
    this.#interrupt({ id: 0, utterance: id, reason: "other", at: absolute() });
  }

  #mute(entry) {
    entry.acking = false;
    this.feeder.drop(entry.feed);
    this.hearing.post({ t: "cancel", n: entry.key, id: entry.stop.id, epoch: this.feeder.epoch });
  }

  /** The player is silent, or was never heard: tell the server the exact position. */
  #stopped(entry) {
    const { stop, track } = entry;
    if (stop.confirmed) return;
    stop.confirmed = true;
    const played = ms(track.rendered);
    const took = absolute() - stop.at;
    this.tell({ k: "stopped", id: entry.id, stop: stop.id, played_ms: played, took_ms: took }, true);
    const cancel = { type: "cancel", utterance: entry.id, played_ms: played, t_ms: now(), reason: stop.reason };
    const sent = entry.sent && this.ready && this.socket.send(cancel);
    if (sent) setTimeout(() => this.#end(entry, { reason: "cancelled" }), CANCEL_TIMEOUT);
    else this.#end(entry, { reason: "cancelled" });
    this.#release();
  }

  /** The player has moved on. */
  #rendered(entry) {
    if (entry?.stop && entry.track.over) this.#stopped(entry);
    this.feeder.pump();
  }

  /** The server's last word about an utterance; the page hears of the end when all of it was heard. */
  #end(entry, ended) {
    if (entry.finished) return;
    entry.ended ??= ended;
    const silent = entry.track.received === 0;
    if (silent) this.feeder.drop(entry.feed);
    else if (!entry.feed.closed) this.feeder.finish(entry.feed);
    if (entry.stop || silent || entry.track.state === "ended") this.#finish(entry);
  }

  #finish(entry) {
    if (entry.finished) return;
    entry.finished = true;
    this.entries.delete(entry.id);
    this.hearing.entries.delete(entry.key);
    if (this.numbers.get(entry.track.n) === entry) this.numbers.delete(entry.track.n);
    this.tell(finishedView(entry), true);
  }

  // ------------------------------------------------------------------ server

  #fromServer(data) {
    if (typeof data !== "string") return this.#chunk(data);
    const message = JSON.parse(data);
    const entry = this.entries.get(message.utterance);
    const answers = {
      hello: () => this.#welcome(message),
      started: () => entry && this.#started(entry, message),
      done: () => entry && this.#done(entry, message),
      cancelled: () => entry && this.#cancelled(entry, message),
      error: () => this.#error(entry, message),
      pong: () => this.tell({ k: "rtt", rtt_ms: now() - message.t_ms }),
      bye: () => this.tell({ k: "bye", reason: message.reason }, true),
    };
    const answer = answers[message.type];
    if (answer) answer();
    else this.tell({ k: "server", message }); // marks, flushed, stats, warning and what is to come
  }

  #welcome(message) {
    this.ready = true;
    this.hearing.interval = message.ack?.interval_ms ?? 100;
    this.pool.rate = message.audio?.sample_rate ?? 24_000;
    this.pool.preSkip = message.audio?.pre_skip ?? 312;
    this.jitter = new Jitter();
    this.socket.established();
    this.tell({ k: "state", state: "connected", hello: message, decoder: this.pool.kind }, true);
    this.#ping();
    this.#release();
  }

  #started(entry, { n, hold_ms: serverHold = 0 }) {
    entry.track.n = n;
    entry.acking = !entry.stop;
    this.numbers.set(n, entry);
    const own = typeof this.options.holdMs === "number" ? this.options.holdMs : this.jitter.hold();
    this.hearing.post({ t: "hold", ms: Math.max(own, serverHold) });
    this.tell({ k: "started", id: entry.id, n, key: entry.key }, true);
  }

  #chunk(buffer) {
    let chunk;
    try {
      chunk = parseChunk(buffer);
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      return this.tell({ k: "warning", code: "bad_chunk", message: error.message });
    }
    const entry = this.numbers.get(chunk.n);
    if (!entry || entry.stop || entry.finished) return;
    const { track, feed, times } = entry;
    const rx = now();
    const slack = chunk.seq === 0 ? null : track.slack(this.hearing.ear(track.frame));
    times.arrived ??= absolute();
    track.receive(chunk, rx);
    this.jitter.add(rx, chunk.sentAt);
    const seen = { bytes: buffer.byteLength, slack, at: absolute(), jitter: this.jitter.p95() };
    this.tell(chunkView(entry, chunk, seen));
    this.feeder.add(feed, chunk);
  }

  #done(entry, message) {
    const { type, utterance, ...ended } = message;
    this.tell({ k: "done", id: entry.id, ...ended });
    this.#end(entry, ended);
  }

  #cancelled(entry, { heard, generated_ms, sent_ms }) {
    if (!entry.stop) {
      entry.stop = { id: 0, at: absolute(), reason: "server", confirmed: true };
      this.#mute(entry);
    }
    this.#end(entry, { reason: "cancelled", heard, generated_ms, sent_ms });
  }

  #error(entry, { code, message, fatal = false, retry_after_ms: retryAfter, ref, param, heard }) {
    if (retryAfter) this.socket.retryAfter = retryAfter;
    if (code === "utterance_closed" && entry?.stop) return this.#end(entry, { reason: "cancelled", heard });
    this.tell({ k: "error", code, message, fatal, retry_after_ms: retryAfter, id: entry?.id, ref, param }, true);
    if (entry) this.#end(entry, { reason: "failed", code, message });
  }

  #disconnected(info) {
    this.ready = false;
    this.numbers.clear();
    for (const entry of [...this.entries.values()]) {
      entry.acking = false;
      if (entry.sent || !info.retry) this.#end(entry, { reason: "connection_lost", code: String(info.code) });
    }
    this.pending = this.pending.filter(({ utterance }) => this.entries.get(utterance)?.sent === false);
  }

  #ping() {
    if (this.ready) this.socket.send({ type: "ping", id: 0, t_ms: now() });
  }
}
