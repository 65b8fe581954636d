import assert from "node:assert/strict";
import { test } from "node:test";

import { FADE, PlayoutCore, STOP_FADE } from "../../../web/playout-core.js";
import { randomOf } from "./random.mjs";

const QUANTUM = 128;

/** A core with its output, its events and its time. */
function player() {
  const events = [];
  const core = new PlayoutCore((event) => events.push(event));
  const out = [];
  let frame = 0;
  const render = (quanta = 1) => {
    for (let i = 0; i < quanta; i++, frame += QUANTUM) {
      const block = new Float32Array(QUANTUM);
      core.render(block, frame);
      for (const sample of block) out.push(sample);
    }
  };
  const named = (kind) => events.filter(({ k }) => k === kind);
  return { core, events, named, out, render };
}

const ones = (length) => new Float32Array(length).fill(1);

/** Samples that say where they come from; the end is silent, as codecs leave it. */
function coded(from, length) {
  return Float32Array.from({ length }, (_, i) => (from + i + 1) / 2 ** 20);
}

test("chunks pushed in time come out sample for sample", () => {
  const { core, out, render } = player();
  for (let i = 0; i < 5; i++) core.push({ n: 1, seq: i, pcm: coded(i * 1000, 1000), last: i === 4 });

  render(45);

  assert.deepEqual(Float32Array.from(out.slice(0, 4800)), coded(0, 4800));
});

test("starvation fades to zero on the last sample and reports one stall", () => {
  const { core, named, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(3840) });

  render(40);

  assert.equal(out[3840 - FADE - 1], 1);
  assert.equal(out[3839], 0);
  assert.equal(Math.max(...out.slice(3840)), 0);
  assert.deepEqual(named("stall").map(({ f, pos }) => [f, pos]), [[3840, 3840]]);
});

test("80 ms frames, which end exactly on a quantum, fade as well", () => {
  const { core, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(30 * QUANTUM) });

  render(30);

  const steepest = Math.max(...out.slice(1).map((sample, i) => Math.abs(sample - out[i])));
  assert.ok(steepest < 0.01, String(steepest));
});

test("after a stall sound resumes only when 120 ms are there, and fades in", () => {
  const { core, named, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(1280) });
  render(20);

  core.push({ n: 1, seq: 1, pcm: ones(3840) });
  render(10);
  const early = named("resume").length;
  core.push({ n: 1, seq: 2, pcm: ones(3840) });
  render(10);

  assert.equal(early, 0);
  assert.deepEqual(named("resume").map(({ f, gap }) => [f, gap]), [[3840, 2560]]);
  assert.ok(out[3840] < 0.001 && out[3840 + FADE] === 1);
});

test("little sound is enough after half a second of silence", () => {
  const { core, named, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(1280) });
  render(20);

  core.push({ n: 1, seq: 1, pcm: ones(2000) });
  render(200);

  assert.equal(named("resume").length, 1);
  assert.ok(named("resume")[0].gap >= 24_000);
});

test("a stop is silent 15 ms later and says exactly how far it came", () => {
  const { core, named, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(48_000) });
  render(10);

  core.cancel(null, 7);
  render(20);

  const heard = 10 * QUANTUM + STOP_FADE;
  assert.deepEqual(named("cancelled").map(({ pos, id }) => [pos, id]), [[heard, 7]]);
  assert.equal(out[heard - 1], 0);
  assert.equal(Math.max(...out.slice(heard)), 0);
});

test("nothing of a stopped utterance sounds later, and nothing sent before a stop of all", () => {
  const { core, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(4800), epoch: 0 });
  core.cancel(null, 1, 1);

  core.push({ n: 1, seq: 1, pcm: ones(4800), epoch: 1 });
  core.push({ n: 2, seq: 0, pcm: ones(4800), epoch: 0 });
  render(40);

  assert.equal(Math.max(...out), 0);
});

test("the next utterance begins on the sample after the last one", () => {
  const { core, named, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: coded(0, 1000), last: true });
  core.push({ n: 2, seq: 0, pcm: coded(1000, 1000), last: true });

  render(20);

  const joined = coded(0, 2000);
  joined.fill(0, 2000);
  assert.equal(named("end")[0].f, 1000);
  assert.equal(named("start")[1].f, 1000);
  assert.equal(out[1000], joined[1000]);
});

test("a pause fades, keeps the position and is no stall", () => {
  const { core, named, out, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(9600), last: true });
  render(10);

  core.pause();
  render(10);
  core.resume();
  render(80);

  assert.deepEqual(named("pause").map(({ pos }) => pos), [10 * QUANTUM + FADE]);
  assert.equal(named("resume")[0].pos, 10 * QUANTUM + FADE);
  assert.equal(named("end")[0].stalls, 0);
  assert.equal(Math.max(...out.slice(12 * QUANTUM, 20 * QUANTUM)), 0);
});

test("a stop during a pause needs no resume", () => {
  const { core, named, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(48_000) });
  render(10);
  core.pause();
  render(1);

  core.cancel(1, 3);
  render(20);

  assert.equal(named("cancelled").length, 1);
});

test("a hold delays the start until it is full or has cost 250 ms", () => {
  const { core, named, render } = player();
  core.hold = 9600;
  core.push({ n: 1, seq: 0, pcm: ones(4800) });

  render(200);

  assert.equal(named("start")[0].f, 94 * QUANTUM);
});

test("reports come every 100 ms while something is unheard, then cease", () => {
  const { core, named, render } = player();
  core.push({ n: 1, seq: 0, pcm: ones(48_000), last: true });

  render(5000);

  const frames = named("r").map(({ f }) => f);
  const gaps = frames.slice(1).map((f, i) => f - frames[i]);
  assert.ok(gaps.every((gap) => gap >= 4800 && gap < 4800 + QUANTUM), String(gaps));
  assert.ok(frames.at(-1) <= 3 * 48_000 + 4800);
});

/** A chunk of an utterance that swells in 60 samples at its start and dies away at its end. */
function swelling(length, first, last) {
  const pcm = ones(length);
  for (let i = 0; i < 60; i++) {
    if (first) pcm[i] *= i / 60;
    if (last) pcm[length - 1 - i] *= i / 60;
  }
  return pcm;
}

const STEEPEST = 0.04; // per sample: a swell meeting a fade

/** One random life of a player; throws where an invariant breaks. */
function randomLife(seed) {
  const random = randomOf(seed);
  const events = [];
  const core = new PlayoutCore((event) => events.push(event));
  const block = new Float32Array(240);
  const totals = new Map();
  const utterances = 1 + random(3);
  const life = { level: 0, silentFrom: Infinity, frame: 0, silence: 0 };
  let [n, seq] = [1, 0];
  const render = (blocks) => {
    for (let i = 0; i < blocks; i++, life.frame += block.length) {
      core.render(block, life.frame);
      listen(block, life);
    }
  };
  for (let step = 0; step < 25; step++) {
    const action = random(12);
    if (action < 5 && n <= utterances) {
      const length = 120 + random(3000);
      const last = random(4) === 0;
      core.push({ n, seq, pcm: swelling(length, seq === 0, last), last });
      totals.set(n, (totals.get(n) ?? 0) + length);
      [n, seq] = last ? [n + 1, 0] : [n, seq + 1];
    } else if (action === 5 && random(4) === 0) {
      life.silentFrom = Math.min(life.silentFrom, core.frame + STOP_FADE);
      core.cancel(null, 1, 1);
      n = utterances + 1;
    } else if (action === 6) core.pause();
    else if (action === 7) core.resume();
    else render(1 + random(12));
  }
  core.resume();
  for (const voice of totals.keys()) core.end(voice);
  while (core.queue.length > 0) render(1);
  return { events, totals };
}

/** Clicks, and sound after a stop, are found in the very block where they happen. */
function listen(block, life) {
  for (let i = 0; i < block.length; i++) {
    if (Math.abs(block[i] - life.level) >= STEEPEST) assert.fail(`a click: ${block[i] - life.level}`);
    if (block[i] !== 0 && life.frame + i >= life.silentFrom) assert.fail("sound after a stop");
    life.level = block[i];
  }
}

function check({ events, totals }) {
  for (const [n, total] of totals) {
    const own = events.filter((event) => event.n === n);
    const over = own.filter(({ k }) => k === "end" || k === "cancelled");
    assert.equal(over.length, 1, "an utterance ends once");
    assert.equal(own.at(-1).k, over[0].k, "and nothing is told of it later");
    own.reduce((before, { pos }) => (assert.ok(pos >= before, "positions never go back"), pos), 0);
    if (over[0].k === "end") assert.equal(over[0].pos, total, "all of it was rendered");
    assert.equal(over[0].pos + (over[0].dropped ?? 0), total, "or listed as dropped");
    assert.equal(over[0].stalls, own.filter(({ k }) => k === "stall").length, "every stall is counted");
    assert.ok(over[0].stalled >= own.reduce((sum, { gap = 0 }) => sum + gap, 0), "and its length");
    assertTimeline(own);
  }
}

/** Between two events of one utterance the position moves with the frame, or stands still. */
function assertTimeline(own) {
  const moments = own.filter(({ k }) => k !== "r");
  for (const [i, { f, pos, k }] of moments.slice(0, -1).entries()) {
    const next = moments[i + 1];
    const sounding = k === "start" || k === "resume";
    assert.equal(next.pos - pos, sounding ? next.f - f : 0, `from ${k} to ${next.k}`);
  }
}

test("10 000 random schedules keep the invariants", () => {
  for (let seed = 1; seed <= 10_000; seed++) {
    try {
      check(randomLife(seed));
    } catch (error) {
      error.message = `seed ${seed}: ${error.message}`;
      throw error;
    }
  }
});
