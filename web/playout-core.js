/**
 * Decides, sample by sample, what the listener hears: a queue of utterances, their states and fades.
 *
 * Pure and deterministic: no clock, no port, no audio context. Time is the frame number handed to
 * `render`. It is pasted into playback-worklet.js by paste-core.mjs, because a worklet with imports
 * breaks in bundlers. All positions are ticks, 1/48000 s.
 */

const TICKS_PER_MS = 48;
const FADE = 240; // 5 ms: into and out of starvation and pause
const STOP_FADE = 720; // 15 ms: felt as instant, not heard as a click
const TAIL_FADE = 120; // 2.5 ms: only for sound that does not end in silence
const REBUFFER = 120 * TICKS_PER_MS; // doubles with every stall of an utterance
const REBUFFER_MAX = 480 * TICKS_PER_MS;
const REBUFFER_ENOUGH = 40 * TICKS_PER_MS; // accepted once a stall has lasted `REBUFFER_PATIENCE`
const REBUFFER_PATIENCE = 500 * TICKS_PER_MS;
const HOLD_PATIENCE = 250 * TICKS_PER_MS; // bounds what a hold may cost
const REPORT_EVERY = 100 * TICKS_PER_MS;
const REPORT_TAIL = 2000 * TICKS_PER_MS; // go on reporting while the device still plays the end
const REMEMBERED_CANCELS = 256;

/** Half a raised cosine: 0 at index 0, 1 at index `length`. */
function raisedCosine(length) {
  return Float32Array.from({ length: length + 1 }, (_, i) => 0.5 - 0.5 * Math.cos((Math.PI * i) / length));
}

const FADE_GAIN = raisedCosine(FADE);
const STOP_GAIN = raisedCosine(STOP_FADE);
const TAIL_GAIN = raisedCosine(TAIL_FADE);

/** One spoken reply inside the player: its waiting samples and how far it has come. */
class Voice {
  constructor(n, frame) {
    this.n = n;
    this.state = "waiting"; // waiting, playing, stalled
    this.chunks = []; // Float32Array, oldest first
    this.offset = 0; // samples of chunks[0] already rendered
    this.buffered = 0;
    this.pos = 0; // ticks rendered
    this.seq = -1;
    this.last = false;
    this.since = frame; // when the present state began
    this.phase = FADE; // index into FADE_GAIN
    this.stopLeft = -1; // samples of the stop fade still to come; -1: not stopping
    this.stopId = null;
    this.stalls = 0;
    this.stalled = 0;
    this.rebuffer = REBUFFER;
  }

  push(pcm, seq, last) {
    if (pcm.length > 0) this.chunks.push(pcm);
    this.buffered += pcm.length;
    this.seq = Math.max(this.seq, seq);
    this.last ||= last;
  }

  /** Copy the next `count` samples to `out` at `start`; the caller knows that there are so many. */
  take(out, start, count) {
    for (let done = 0; done < count; ) {
      const chunk = this.chunks[0];
      const part = Math.min(count - done, chunk.length - this.offset);
      out.set(chunk.subarray(this.offset, this.offset + part), start + done);
      done += part;
      this.offset += part;
      if (this.offset === chunk.length) {
        this.chunks.shift();
        this.offset = 0;
      }
    }
    this.buffered -= count;
    this.pos += count;
  }

  /** Whether the very last sample would click if it were followed by silence. */
  endsLoud() {
    const chunk = this.chunks[this.chunks.length - 1];
    return this.last && chunk !== undefined && Math.abs(chunk[chunk.length - 1]) > 1 / 512;
  }
}

class PlayoutCore {
  /** @param {(message: object) => void} emit receives reports (`k: "r"`) and events, all integers. */
  constructor(emit) {
    this.emit = emit;
    this.queue = [];
    this.cancelled = new Set();
    this.epoch = 0; // sound pushed under an older epoch was meant for before the last "stop all"
    this.hold = 0;
    this.pausing = false;
    this.frame = 0; // first frame not yet rendered
    this.nextReport = 0;
    this.quietSince = 0;
    this.minBuffered = 0;
    this.heldBack = false; // the last render gave silence because of a pause
  }

  /** Accept decoded sound; `pcm` belongs to the core from now on. */
  push({ n, seq, pcm, last = false, epoch = this.epoch }) {
    if (epoch < this.epoch || this.cancelled.has(n)) return;
    let voice = this.queue.find((entry) => entry.n === n);
    if (!voice) {
      voice = new Voice(n, this.frame);
      if (this.queue.length === 0) this.minBuffered = pcm.length;
      this.queue.push(voice);
    }
    voice.push(pcm, seq, last);
  }

  /** No more sound will come for `n`, although its last chunk did not say so. */
  end(n) {
    const voice = this.queue.find((entry) => entry.n === n);
    if (voice) voice.last = true;
  }

  /** Silence one utterance, or all of them (`n` null); `cancelled` follows when nothing more sounds. */
  cancel(n, id = 0, epoch = this.epoch) {
    if (n === null) this.epoch = Math.max(this.epoch, epoch);
    for (const voice of [...this.queue]) {
      if (n !== null && voice.n !== n) continue;
      this.#remember(voice.n);
      if (voice.stopLeft >= 0) continue;
      voice.stopId = id;
      const sounding = voice === this.queue[0] && voice.state === "playing" && !this.heldBack;
      if (sounding && voice.buffered > 0) voice.stopLeft = STOP_FADE;
      else this.#drop(voice, this.frame);
    }
    if (n !== null) this.#remember(n);
  }

  pause() {
    this.pausing = true;
  }

  resume() {
    this.pausing = false;
  }

  /** Fill `out`; its first sample leaves at context frame `frame`. */
  render(out, frame) {
    this.frame = frame;
    let at = 0;
    while (at < out.length) {
      const voice = this.queue[0];
      if (!voice || !this.#ready(voice, frame + at)) break;
      at += this.#play(this.queue[0], out, at, frame + at);
    }
    out.fill(0, at);
    this.frame = frame + out.length;
    this.#report();
  }

  /** Bring `voice` to `playing` if it may sound now. */
  #ready(voice, frame) {
    const silent = voice.state !== "playing" || voice.phase === 0 || this.heldBack;
    if (this.#pauses(voice) && silent) return this.#holdBack(voice, frame);
    if (!this.pausing && this.heldBack) this.#letGo(voice, frame);
    if (voice.buffered === 0 && voice.last) {
      this.#finish(voice, frame);
      return this.queue.length > 0 && this.#ready(this.queue[0], frame);
    }
    if (voice.state === "playing") return true;
    const waited = frame - voice.since;
    if (voice.state === "waiting") {
      const enough = voice.buffered >= this.hold || voice.last || waited >= HOLD_PATIENCE;
      return voice.buffered > 0 && enough && this.#start(voice, frame);
    }
    const little = voice.buffered >= REBUFFER_ENOUGH && waited >= REBUFFER_PATIENCE;
    return (voice.buffered >= voice.rebuffer || voice.last || little) && this.#resume(voice, frame);
  }

  /** A stop outranks a pause: its fade runs to the end. */
  #pauses(voice) {
    return this.pausing && voice.stopLeft < 0;
  }

  #start(voice, frame) {
    voice.state = "playing";
    voice.since = frame;
    this.#event("start", voice, frame);
    return true;
  }

  #resume(voice, frame) {
    const gap = frame - voice.since;
    voice.stalled += gap;
    voice.rebuffer = Math.min(2 * voice.rebuffer, REBUFFER_MAX);
    voice.phase = 0;
    voice.state = "playing";
    voice.since = frame;
    this.#event("resume", voice, frame, { gap });
    return true;
  }

  #holdBack(voice, frame) {
    if (!this.heldBack) {
      this.heldBack = true;
      if (voice.state === "stalled") voice.stalled += frame - voice.since;
      this.#event("pause", voice, frame);
    }
    return false;
  }

  #letGo(voice, frame) {
    this.heldBack = false;
    if (voice.state === "stalled") voice.since = frame;
    if (voice.state === "playing") {
      voice.phase = voice.pos === 0 ? FADE : 0;
      this.#event("resume", voice, frame, { gap: 0 });
    }
  }

  /** Render as much of `voice` as its state allows; returns the number of samples. */
  #play(voice, out, at, frame) {
    let count = Math.min(out.length - at, voice.buffered);
    if (voice.stopLeft >= 0) count = Math.min(count, voice.stopLeft);
    if (this.#pauses(voice)) count = Math.min(count, voice.phase);
    const before = voice.buffered;
    const loudEnd = before <= count + FADE && voice.endsLoud();
    voice.take(out, at, count);
    this.#shape(voice, out.subarray(at, at + count), before, loudEnd);
    if (voice.stopLeft === 0 || (voice.stopLeft > 0 && voice.buffered === 0)) {
      this.#drop(voice, frame + count);
    } else if (voice.buffered === 0) {
      if (voice.last) this.#finish(voice, frame + count);
      else this.#stall(voice, frame + count);
    }
    this.minBuffered = Math.min(this.minBuffered, voice.buffered);
    return count;
  }

  /** Apply the fades to samples just copied; `left` counts down to the end of what is buffered. */
  #shape(voice, part, left, loudEnd) {
    const pausing = this.#pauses(voice);
    const steady = voice.phase === FADE && !pausing && voice.stopLeft < 0 && !loudEnd;
    if (steady && (voice.last || left - part.length >= FADE)) return;
    for (let i = 0; i < part.length; i++, left--) {
      const faded = loudEnd && voice.phase < FADE; // goes on fading rather than start a second fade
      const down = (!voice.last || faded) && left <= FADE;
      if (pausing || down) voice.phase = Math.max(0, Math.min(voice.phase, down ? left : FADE) - 1);
      else if (voice.phase < FADE) voice.phase++;
      let gain = FADE_GAIN[voice.phase];
      if (voice.stopLeft > 0) gain *= STOP_GAIN[--voice.stopLeft];
      if (loudEnd && !faded && left <= TAIL_FADE) gain *= TAIL_GAIN[left - 1];
      part[i] *= gain;
    }
  }

  #stall(voice, frame) {
    voice.state = "stalled";
    voice.since = frame;
    voice.stalls++;
    this.#event("stall", voice, frame);
  }

  #finish(voice, frame) {
    if (voice.state === "stalled") voice.stalled += frame - voice.since;
    this.#leave(voice, frame);
    this.#event("end", voice, frame);
  }

  #drop(voice, frame) {
    const dropped = voice.buffered;
    voice.buffered = 0;
    this.#leave(voice, frame);
    this.#event("cancelled", voice, frame, { id: voice.stopId, dropped });
  }

  #leave(voice, frame) {
    this.queue.splice(this.queue.indexOf(voice), 1);
    this.quietSince = frame;
    if (this.queue.length === 0) this.heldBack = false;
    else this.queue[0].since = Math.max(this.queue[0].since, frame);
    this.minBuffered = this.queue[0]?.buffered ?? 0;
  }

  #remember(n) {
    this.cancelled.add(n);
    if (this.cancelled.size > REMEMBERED_CANCELS) {
      this.cancelled.delete(this.cancelled.values().next().value);
    }
  }

  #report() {
    if (this.frame < this.nextReport) return;
    const voice = this.queue[0];
    if (!voice && this.frame - this.quietSince > REPORT_TAIL) return;
    this.nextReport = this.frame + REPORT_EVERY;
    this.emit(this.#status("r", voice, this.frame));
    this.minBuffered = voice?.buffered ?? 0;
  }

  #event(kind, voice, frame, extra) {
    this.emit({ ...this.#status(kind, voice, frame), ...extra });
  }

  #status(kind, voice, frame) {
    const stalling = voice?.state === "stalled" && !this.heldBack ? frame - voice.since : 0;
    return {
      k: kind,
      f: frame,
      n: voice?.n ?? -1,
      seq: voice?.seq ?? -1,
      pos: voice?.pos ?? 0,
      buf: voice?.buffered ?? 0,
      minBuf: this.minBuffered,
      st: voice ? (this.heldBack ? "paused" : voice.state) : "idle",
      stalls: voice?.stalls ?? 0,
      stalled: (voice?.stalled ?? 0) + stalling,
    };
  }
}

export { FADE, STOP_FADE, PlayoutCore };
