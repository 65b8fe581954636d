import assert from "node:assert/strict";
import { test } from "node:test";

import { Doubler } from "../../../web/resample.js";

const tone = (length) => Float32Array.from({ length }, (_, i) => Math.sin((2 * Math.PI * 440 * i) / 24_000));

function doubled(signal, pieces) {
  const doubler = new Doubler();
  const out = [];
  for (const piece of pieces(signal)) out.push(...doubler.push(piece));
  out.push(...doubler.flush());
  return out;
}

const whole = (signal) => [signal];
const crumbs = (signal) => Array.from({ length: Math.ceil(signal.length / 7) }, (_, i) => signal.subarray(7 * i, 7 * i + 7));

test("every input sample comes out untouched at twice its index", () => {
  const signal = tone(500);

  const out = doubled(signal, whole);

  assert.equal(out.length, 1000);
  assert.deepEqual(Float32Array.from(out.filter((_, i) => i % 2 === 0)), signal);
});

test("in crumbs or whole, the result is the same", () => {
  const signal = tone(500);

  assert.deepEqual(doubled(signal, crumbs), doubled(signal, whole));
});

test("a tone stays a tone: error below -60 dB away from the edges", () => {
  const out = doubled(tone(2000), whole);

  const errors = out.slice(100, 3900).map((sample, i) => sample - Math.sin((Math.PI * 440 * (i + 100)) / 24_000));
  assert.ok(Math.max(...errors.map(Math.abs)) < 0.001);
});
