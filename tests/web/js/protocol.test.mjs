import assert from "node:assert/strict";
import { test } from "node:test";

import { CODEC, ChunkError, backoff, hello, parseChunk, retryable, say, subprotocols, textMessages } from "../../../web/protocol.js";
import { randomOf } from "./random.mjs";

/** A chunk as the gateway builds it. */
function pack(packets, fields = {}) {
  const { codec = 1, flags = 0, n = 1, seq = 0, ts = 0, dur = 960, sentAt = 0 } = fields;
  const payload = packets.reduce((sum, packet) => sum + packet.length, 0);
  const view = new DataView(new ArrayBuffer(24 + 2 * packets.length + payload));
  view.setUint8(0, 0x11);
  view.setUint8(1, codec);
  [flags, n, packets.length].forEach((value, i) => view.setUint16(2 + 2 * i, value, true));
  [seq, ts, dur, sentAt].forEach((value, i) => view.setUint32(8 + 4 * i, value, true));
  let at = 24 + 2 * packets.length;
  packets.forEach((packet, i) => {
    view.setUint16(24 + 2 * i, packet.length, true);
    new Uint8Array(view.buffer, at, packet.length).set(packet);
    at += packet.length;
  });
  return view.buffer;
}

test("a chunk gives its fields and its packets back", () => {
  const packets = [[1, 2, 3], [], [4]].map((bytes) => new Uint8Array(bytes));

  const chunk = parseChunk(pack(packets, { flags: 3, n: 65535, seq: 7, ts: 2 ** 31, dur: 3528, sentAt: 9 }));

  assert.deepEqual(chunk.packets, packets);
  assert.deepEqual([chunk.codec, chunk.n, chunk.seq, chunk.ts], [CODEC.opus, 65535, 7, 2 ** 31]);
  assert.deepEqual([chunk.dur, chunk.sentAt, chunk.first, chunk.last], [3528, 9, true, true]);
});

test("unknown flag bits are ignored", () => {
  const chunk = parseChunk(pack([new Uint8Array(1)], { flags: 0xff00 }));

  assert.deepEqual([chunk.first, chunk.last], [false, false]);
});

test("10 000 mutilated chunks give nothing but the one expected error", () => {
  const random = randomOf(5);
  const good = new Uint8Array(pack([new Uint8Array(30), new Uint8Array(40)]));
  let refused = 0;
  for (let i = 0; i < 10_000; i++) {
    const bad = good.slice(0, random(good.length + 1));
    for (let j = random(4); j > 0 && bad.length > 0; j--) bad[random(bad.length)] = random(256);
    try {
      parseChunk(bad.buffer);
    } catch (error) {
      assert.ok(error instanceof ChunkError, String(error));
      refused++;
    }
  }
  assert.ok(refused > 9_000);
});

test("long text is cut at code points, never inside one, and only its end is last", () => {
  const messages = textMessages("u1", "😀".repeat(2500), true, 2000);

  assert.deepEqual(messages.map(({ text }) => Array.from(text).length), [2000, 500]);
  assert.deepEqual(messages.map(({ last }) => last), [false, true]);
});

test("ending an utterance needs a message even without text", () => {
  assert.deepEqual(textMessages("u1", "", true), [{ type: "text", utterance: "u1", text: "", last: true }]);
});

test("say leaves out what is not set", () => {
  const message = say("u1", "Hello", true, { voice: "Ada", seed: 0, mode: undefined, unknown: 1 });

  assert.deepEqual(message, { type: "say", utterance: "u1", text: "Hello", last: true, voice: "Ada", seed: 0 });
});

test("hello promises acks and asks for no prebuffer by default", () => {
  const message = hello({ codecs: ["opus"] });

  assert.equal(message.acks, true);
  assert.deepEqual(message.player, { prebuffer_ms: 0 });
});

test("a token travels as a subprotocol only if its characters allow it", () => {
  assert.deepEqual(subprotocols("abc_-9"), ["voice.v1", "voice.auth.abc_-9"]);
  assert.deepEqual(subprotocols("a b"), ["voice.v1"]);
  assert.deepEqual(subprotocols(undefined), ["voice.v1"]);
});

for (const [code, retry] of [[1000, false], [1001, true], [1006, true], [1008, false], [1011, true], [1013, true],
  [4400, false], [4401, false], [4408, true], [4412, true], [4499, false]]) {
  test(`close code ${code} ${retry ? "is retried" : "is final"}`, () => assert.equal(retryable(code), retry));
}

test("back-off doubles from 250 ms to 10 s, give or take a quarter", () => {
  assert.deepEqual([0, 1, 2, 9].map((attempt) => backoff(attempt, () => 0.5)), [250, 500, 1000, 10_000]);
  assert.equal(backoff(0, () => 0), 187.5);
});
