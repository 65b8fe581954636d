/**
 * Knows which context frame leaves the speaker at a given moment, from readings of the page.
 *
 * Pure: every moment is passed in. The page reads the context four times a second; a reading is a
 * point on a straight line, so it may come seconds late without harm.
 */

import { RATE } from "./protocol.js";

const ASSUMED_LATENCY = 0.04; // s, where a browser reports none (Safari before 18.4)
const SMOOTHING = 0.1; // of reported latencies, which jump between 0 and 48 ms

/**
 * @typedef {object} Reading what the page saw in one go; times in ms since the epoch
 * @property {number} now when it was read
 * @property {number} current `currentTime` of the context, s
 * @property {number} contextTime of `getOutputTimestamp`, s
 * @property {number} performanceTime of `getOutputTimestamp`, already absolute, ms
 * @property {number | undefined} outputLatency s
 */

export class EarClock {
  constructor() {
    this.point = null; // {context: s, at: ms}: `context` leaves the speaker at `at`
    this.source = "none"; // timestamp, latency, assumed
    this.latency = ASSUMED_LATENCY;
    this.bad = 0;
    this.previous = null;
  }

  /** Take in a reading. */
  update(reading) {
    const latency = reading.outputLatency;
    if (latency !== undefined) this.latency += SMOOTHING * (latency - this.latency);
    const pair = { context: reading.contextTime, at: reading.performanceTime };
    if (this.#plausible(pair, reading)) {
      this.bad = 0;
      this.previous = this.point = pair;
      this.source = "timestamp";
      return;
    }
    this.bad++;
    if (this.source === "timestamp" && this.bad < 2) return;
    this.point = { context: reading.current - this.latency, at: reading.now };
    this.source = latency === undefined ? "assumed" : "latency";
  }

  /** Whether a timestamp pair may be believed: recent, not in the future, on a line with the last. */
  #plausible({ context, at }, { now, current }) {
    if (!Number.isFinite(context) || !Number.isFinite(at) || context <= 0) return false;
    if (at > now + 5 || at < now - 250) return false;
    const behind = current - (context + (now - at) / 1000);
    if (behind < -0.02 || behind > 1) return false;
    const elapsed = this.previous ? at - this.previous.at : 0;
    if (elapsed < 200 || elapsed > 2000) return true;
    const slope = (1000 * (context - this.previous.context)) / elapsed;
    return slope > 0.95 && slope < 1.05;
  }

  /** The frame that leaves the speaker at `now`; without any reading, a guess from `rendered`. */
  frameAt(now, rendered) {
    if (!this.point) return rendered - RATE * this.latency;
    return RATE * (this.point.context + (now - this.point.at) / 1000);
  }

  /** When `frame` leaves the speaker, ms. */
  timeOf(frame, now, rendered) {
    return now + (frame - this.frameAt(now, rendered)) / (RATE / 1000);
  }
}
