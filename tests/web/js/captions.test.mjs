import assert from "node:assert/strict";
import { test } from "node:test";

import { Marks, phrases, textPosition } from "../../../web/captions.js";
import { settled, wordByWord } from "../../../web/sending.js";

const wordsOf = (text) => phrases(text).map(({ words }) => words.map((word) => word.text.trim()).join(" "));

test("phrases have at most four words and end at punctuation", () => {
  assert.deepEqual(wordsOf("Well, the quick brown fox jumps. Done"), ["Well,", "the quick brown fox", "jumps.", "Done"]);
});

test("phrases cover every code point of the text", () => {
  const text = "  Grüße 😀 an alle!\n\nبسم الله ";

  const words = phrases(text).flatMap((phrase) => phrase.words);

  assert.equal(words.map((word) => word.text).join(""), text);
  assert.equal(words.at(-1).to, Array.from(text).length);
});

const progress = (more) => ({ heardMs: 0, receivedMs: 0, length: 100, marks: new Marks(), ...more });

test("without marks the place is proportional to the whole length, once that is known", () => {
  assert.equal(textPosition(progress({ heardMs: 500, audioMs: 1000 })), 50);
  assert.equal(textPosition(progress({ heardMs: 500, receivedMs: 600 })), 500 / 62);
});

test("nothing is heard before the first sample", () => {
  assert.equal(textPosition(progress({ audioMs: 1000 })), 0);
});

test("marks tell the place, and later ones correct earlier ones", () => {
  const marks = new Marks();
  marks.add({ method: "proportional", items: [{ from: 0, to: 10, start_ms: 0, end_ms: 1000 }] });
  marks.add({ method: "proportional", items: [{ from: 10, to: 20, start_ms: 1000, end_ms: 2000 }] });
  marks.add({ method: "proportional", items: [{ from: 10, to: 20, start_ms: 900, end_ms: 1400 }] });

  const at = (heardMs) => textPosition(progress({ heardMs, marks }));

  assert.deepEqual([at(500), at(1150), at(5000)], [5, 15, 20]);
});

test("typed text goes out up to the last boundary", () => {
  assert.equal(settled("The mee"), "The ");
  assert.equal(settled("meeting"), "");
  assert.equal(settled("done."), "done.");
});

test("streamed words join to the text they came from", async () => {
  const pieces = [];
  for await (const piece of wordByWord("The  meeting\nstarts now.", () => 1e6)) pieces.push(piece);

  assert.equal(pieces.length, 4);
  assert.equal(pieces.join(""), "The  meeting\nstarts now.");
});
