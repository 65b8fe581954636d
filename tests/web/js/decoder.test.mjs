import assert from "node:assert/strict";
import { test } from "node:test";

import { DecoderPool } from "../../../web/decoder.js";
import { CODEC } from "../../../web/protocol.js";

const SILENCE = new Uint8Array([0xf8, 0xff, 0xfe]);
const BAD = new Uint8Array([0xff, 0xff, 0xfe]);

function chunk(packets, more = {}) {
  return { codec: CODEC.opus, count: packets.length, packets, first: false, last: false, dur: 960 * packets.length, ...more };
}

async function opusPool() {
  const pool = new DecoderPool("wasm");
  assert.deepEqual(await pool.prove(), ["opus", "pcm_s16le"]);
  return pool;
}

/** libopus tells about bad packets on the console. */
function quietly(work) {
  const { error } = console;
  console.error = () => {};
  return work().finally(() => (console.error = error));
}

test("node has no WebCodecs, so a pool that insists on it offers PCM", async () => {
  assert.deepEqual(await new DecoderPool("webcodecs").prove(), ["pcm_s16le"]);
});

for (const [name, more, length] of [
  ["first", { first: true, dur: 3528 }, 3528],
  ["middle", {}, 3840],
  ["last", { last: true, dur: 1234 }, 1234],
  ["only", { first: true, last: true, dur: 2000 }, 2000],
  ["longer than its packets", { dur: 4000 }, 4000],
]) {
  test(`the ${name} chunk is as long as its header says`, async () => {
    const decoder = (await opusPool()).open();

    const samples = await decoder.decode(chunk([SILENCE, SILENCE, SILENCE, SILENCE], more));

    assert.equal(samples.length, length);
    assert.equal(decoder.dropped, 0);
  });
}

for (const [name, packet] of [["corrupt", BAD], ["empty", new Uint8Array(0)]]) {
  test(`a ${name} packet costs 20 ms and not the time line`, async () => {
    const decoder = (await opusPool()).open();

    const samples = await quietly(() => decoder.decode(chunk([SILENCE, packet, SILENCE])));

    assert.equal(samples.length, 2880);
    assert.equal(decoder.dropped, 960);
  });
}

function pcmChunk(values, more) {
  return { ...chunk([new Uint8Array(Int16Array.from(values).buffer)], more), codec: CODEC.pcm_s16le };
}

test("PCM at 48 kHz passes as it is", async () => {
  const pool = new DecoderPool("pcm");
  pool.rate = 48_000;

  const samples = await pool.open().decode(pcmChunk([16_384, -32_768, 0], {}));

  assert.deepEqual([...samples], [0.5, -1, 0]);
});

test("PCM at 24 kHz is doubled, and its end comes with the last chunk or with flush", async () => {
  const values = Array.from({ length: 100 }, (_, i) => 100 * i);
  const announced = new DecoderPool("pcm").open();
  const silent = new DecoderPool("pcm").open();

  const whole = await announced.decode(pcmChunk(values, { last: true }));
  const most = await silent.decode(pcmChunk(values, {}));

  assert.equal(whole.length, 200);
  assert.deepEqual([...most, ...silent.flush()], [...whole]);
});
