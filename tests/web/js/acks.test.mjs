import assert from "node:assert/strict";
import { test } from "node:test";

import { Jitter, Track } from "../../../web/acks.js";
import { EarClock } from "../../../web/clock.js";
import { PlayoutCore } from "../../../web/playout-core.js";
import { randomOf } from "./random.mjs";

const LATENCY = 1920; // ticks: 40 ms between rendering and the ear

const message = (k, f, pos, more = {}) => ({ k, f, pos, stalls: 0, stalled: 0, ...more });
const chunk = (seq, ts, dur) => ({ seq, ts, dur, sentAt: 100 + seq });

function playing() {
  const track = new Track(1, "u1");
  track.receive(chunk(0, 0, 48_000), 10);
  track.apply(message("start", 10_000, 0), 10_000 - LATENCY);
  return track;
}

test("the first sample is heard one latency after it is rendered", () => {
  const track = playing();
  track.apply(message("r", 14_800, 4800), 14_800 - LATENCY);

  track.listen(14_800 - LATENCY);

  assert.equal(track.heard, 4800 - LATENCY);
  const ack = track.ack(200);
  assert.equal(ack.played_ms + ack.latency_ms, 100);
});

test("an ack carries what arrived last and how long ago the clock says", () => {
  const track = playing();

  const ack = track.ack(50.04, { sink: "worklet", latencySource: "timestamp" });

  assert.deepEqual([ack.seq, ack.rx_ms, ack.echo, ack.t_ms], [0, 10, 100, 50]);
  assert.deepEqual([ack.state, ack.buffered_ms, ack.hidden], ["playing", 1000, false]);
});

test("heard never goes back when the reported latency jumps", () => {
  const track = playing();
  track.apply(message("r", 20_000, 10_000), 20_000);
  track.listen(20_000);
  const before = track.heard;

  track.listen(18_000);

  assert.equal(track.heard, before);
});

test("silence between two stretches is not heard as sound", () => {
  const track = playing();
  track.apply(message("stall", 20_000, 10_000, { stalls: 1 }), 18_000);
  track.apply(message("resume", 30_000, 10_000, { stalls: 1, stalled: 10_000 }), 28_000);

  track.listen(29_000);
  assert.equal(track.heard, 10_000);
  track.apply(message("r", 34_800, 14_800), 32_800);
  track.listen(31_000);

  assert.equal(track.heard, 11_000);
});

test("an utterance has ended when its last sample was heard, not when it was rendered", () => {
  const track = playing();
  track.apply(message("end", 58_000, 48_000), 58_000 - LATENCY);

  track.listen(58_000 - LATENCY);
  const early = track.state;
  track.listen(58_000);

  assert.deepEqual([early, track.state], ["playing", "ended"]);
});

test("a change is acked at once, everything else at the interval, nothing after the end", () => {
  const track = playing();
  assert.ok(track.due(0, 100));
  track.ack(0);

  assert.ok(!track.due(50, 100));
  assert.ok(track.due(100, 100));
  track.apply(message("end", 58_000, 48_000), 58_000);
  track.listen(58_000);
  track.ack(150);
  assert.ok(!track.due(1000, 100));
});

test("a chunk that comes during silence has negative slack", () => {
  const track = playing();
  track.apply(message("stall", 58_000, 48_000, { stalls: 1 }), 58_000 - LATENCY);

  assert.equal(track.slack(58_000 - LATENCY + 480), -480);
});

test("a standing audio clock reads as paused, or as waiting before the first sample", () => {
  assert.equal(playing().ack(0, { clockStopped: true }).state, "paused");
  assert.equal(new Track(1, "u1").ack(0, { clockStopped: true }).state, "waiting");
});

test("a calm connection needs no hold, a jittery one 20 ms more than its jitter", () => {
  const calm = new Jitter();
  const jittery = new Jitter();
  for (let i = 0; i < 64; i++) {
    calm.add(1000 + 80 * i + (i % 3), 80 * i);
    jittery.add(1000 + 80 * i + (i % 8 === 0 ? 100 : 0), 80 * i);
  }

  assert.deepEqual([calm.hold(), jittery.hold()], [0, 120]);
});

const reading = (now, lag = 40, more = {}) => ({
  now, current: now / 1000, contextTime: (now - lag) / 1000, performanceTime: now, outputLatency: 0.032, ...more,
});

test("the clock follows a plausible timestamp", () => {
  const clock = new EarClock();
  clock.update(reading(10_000));

  assert.equal(Math.round(clock.frameAt(10_100, 0)), 48 * 10_060);
  assert.equal(clock.source, "timestamp");
});

for (const [name, bad] of [
  ["in the future", { performanceTime: 20_000 }],
  ["stale", { performanceTime: 5000 }],
  ["not a number", { contextTime: NaN }],
  ["off the line", { contextTime: 9.7 }],
  ["missing", { contextTime: undefined }],
]) {
  test(`a timestamp ${name} is not believed, and two of them end the trust`, () => {
    const clock = new EarClock();
    clock.update(reading(10_000));
    clock.update(reading(10_250, 40, bad));
    const once = clock.source;
    clock.update(reading(10_500, 40, bad));

    assert.deepEqual([once, clock.source], ["timestamp", "latency"]);
  });
}

test("without any latency report 40 ms are assumed and said to be assumed", () => {
  const clock = new EarClock();
  clock.update({ now: 1000, current: 1, contextTime: undefined, performanceTime: NaN, outputLatency: undefined });

  assert.equal(clock.source, "assumed");
  assert.equal(Math.round(clock.frameAt(1000, 0)), 48 * 960);
});

/** A core and a track through one random life; every ack is checked against what really sounded. */
function randomLife(seed) {
  const random = randomOf(seed);
  const track = new Track(1, "u1");
  let ear = 0;
  const core = new PlayoutCore((event) => event.n === 1 && track.apply(event, ear));
  const block = new Float32Array(480);
  let [frame, seq, sent] = [0, 0, 0];
  let before = { played_ms: 0, stalled_ms: 0, stalls: 0 };
  for (let step = 0; step < 60; step++) {
    const action = random(6);
    if (action === 0) {
      const dur = 480 + random(9000);
      track.receive(chunk(seq, sent, dur), frame / 48);
      core.push({ n: 1, seq: seq++, pcm: new Float32Array(dur).fill(1) });
      sent += dur;
    } else if (action === 1 && random(4) === 0) core.pause();
    else if (action === 2) core.resume();
    for (let i = random(12); i > 0; i--, frame += block.length) {
      ear = Math.max(0, frame + block.length - LATENCY - random(1400));
      core.render(block, frame);
    }
    track.listen(ear);
    const ack = track.ack(frame / 48);
    if (track.heard > track.rendered || track.rendered > track.received) assert.fail("heard, rendered, received");
    if (ack.played_ms < before.played_ms) assert.fail("played went back");
    if (ack.stalled_ms < before.stalled_ms || ack.stalls < before.stalls) assert.fail("a counter decreased");
    if (ack.latency_ms < 0 || ack.latency_ms > 2000) assert.fail("latency out of range");
    if (Math.abs(ack.played_ms + ack.latency_ms - track.rendered / 48) > 0.2) assert.fail("played + latency");
    before = ack;
  }
}

test("10 000 random lives give only honest acks", () => {
  for (let seed = 1; seed <= 10_000; seed++) {
    try {
      randomLife(seed);
    } catch (error) {
      error.message = `seed ${seed}: ${error.message}`;
      throw error;
    }
  }
});
