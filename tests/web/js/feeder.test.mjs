import assert from "node:assert/strict";
import { test } from "node:test";

import { Feeder } from "../../../web/feeder.js";

/** Decodes at once, unless told to wait or to fail. */
class FakeDecoder {
  constructor({ gate = Promise.resolve(), error = null } = {}) {
    Object.assign(this, { gate, error, dropped: 0, closed: false });
  }
  async decode({ dur }) {
    await this.gate;
    if (this.error) throw this.error;
    return new Float32Array(dur);
  }
  flush() {
    return new Float32Array(0);
  }
  close() {
    this.closed = true;
  }
}

const track = () => ({ rendered: 0, over: false, dropped: 0, seq: 0 });
const chunk = (seq, dur = 48_000, last = false) => ({ seq, dur, last });
const settle = () => new Promise((done) => setImmediate(done));

function feeding() {
  const posted = [];
  const failed = [];
  const feeder = new Feeder({ post: (message) => posted.push(message), now: () => 7, failed: (_, error) => failed.push(error.message) });
  return { feeder, posted, failed };
}

test("no more than 4 s are decoded ahead, and more follows as sound is rendered", async () => {
  const { feeder, posted } = feeding();
  const feed = feeder.open(1, track(), new FakeDecoder());
  for (let seq = 0; seq < 10; seq++) feeder.add(feed, chunk(seq));
  await settle();
  const before = posted.length;

  feed.track.rendered = 96_000;
  feeder.pump();
  await settle();

  assert.deepEqual([before, posted.length], [4, 6]);
  assert.equal(feed.decodedAt, 7);
});

test("a chunk longer than the window is decoded when nothing else is ahead", async () => {
  const { feeder, posted } = feeding();

  feeder.add(feeder.open(1, track(), new FakeDecoder()), chunk(0, 300_000));
  await settle();

  assert.equal(posted.length, 1);
});

test("the second utterance waits for the whole of the first", async () => {
  const { feeder, posted } = feeding();
  const first = feeder.open(1, track(), new FakeDecoder());
  const second = feeder.open(2, track(), new FakeDecoder());
  feeder.add(second, chunk(0, 960, true));
  await settle();
  const early = posted.length;

  feeder.add(first, chunk(0, 960, true));
  await settle();

  assert.equal(early, 0);
  assert.deepEqual(posted.map(({ n }) => n), [1, 2]);
});

test("an end that no chunk announced is passed on as an empty last one", async () => {
  const { feeder, posted } = feeding();
  const feed = feeder.open(1, track(), new FakeDecoder());
  feeder.add(feed, chunk(0, 960));

  feeder.finish(feed);
  await settle();

  assert.deepEqual(posted.map(({ pcm, last }) => [pcm.length, last]), [[960, false], [0, true]]);
  assert.ok(feed.decoder.closed);
});

test("what is being decoded when a stop comes is not posted", async () => {
  const { feeder, posted } = feeding();
  let open;
  const gate = new Promise((resolve) => (open = resolve));
  const feed = feeder.open(1, track(), new FakeDecoder({ gate }));
  feeder.add(feed, chunk(0));

  feeder.drop(feed);
  open();
  await settle();

  assert.deepEqual(posted, []);
});

test("a decoder that fails costs its utterance, not the next one", async () => {
  const { feeder, posted, failed } = feeding();
  const broken = feeder.open(1, track(), new FakeDecoder({ error: new Error("no codec") }));
  const good = feeder.open(2, track(), new FakeDecoder());

  feeder.add(broken, chunk(0));
  feeder.add(good, chunk(0, 960, true));
  await settle();

  assert.deepEqual(failed, ["no codec"]);
  assert.deepEqual(posted.map(({ n }) => n), [2]);
});
