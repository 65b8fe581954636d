/**
 * Where in the text the listener is: pure mapping from heard milliseconds to code points and phrases.
 *
 * Positions are Unicode code points, as on the wire; JavaScript counts UTF-16 units.
 */

const PHRASE_WORDS = 4;
const MS_PER_POINT = 62; // how fast speech uses text before anything better is known

/**
 * Cut text into phrases of up to four words that end at punctuation.
 *
 * @param {string} text
 * @returns {{words: {text: string, from: number, to: number}[]}[]} words keep the space after them
 */
export function phrases(text) {
  const result = [];
  let [at, words] = [0, []];
  for (const [word] of text.matchAll(/\s*\S+\s*/gu)) {
    const length = Array.from(word).length;
    words.push({ text: word, from: at, to: at + length });
    at += length;
    if (words.length === PHRASE_WORDS || /[.!?…,;:。！？，、]["”’)]?\s*$/u.test(word)) {
      result.push({ words });
      words = [];
    }
  }
  if (words.length > 0) result.push({ words });
  return result;
}

/** Collects `marks` of one utterance; later ones replace earlier ones that begin at the same place. */
export class Marks {
  constructor() {
    this.items = [];
    this.method = "proportional";
  }

  add({ items, method }) {
    const fresh = new Set(items.map(({ from }) => from));
    this.items = [...this.items.filter(({ from }) => !fresh.has(from)), ...items].sort((a, b) => a.start_ms - b.start_ms);
    this.method = method;
  }

  /** The code point that sounds at `heardMs`; null where no mark tells. */
  at(heardMs) {
    const item = this.items.findLast(({ start_ms: start }) => start <= heardMs);
    if (!item) return null;
    const length = Math.max(1, item.end_ms - item.start_ms);
    return item.from + Math.min(1, (heardMs - item.start_ms) / length) * (item.to - item.from);
  }
}

/**
 * The code point that sounds now.
 *
 * @param {{heardMs: number, receivedMs: number, audioMs?: number, length: number, marks: Marks}} progress
 *   `audioMs` is the whole length once known, `length` the text's in code points
 */
export function textPosition({ heardMs, receivedMs, audioMs, length, marks }) {
  if (heardMs <= 0) return 0;
  const marked = marks.at(heardMs);
  if (marked !== null) return Math.min(length, marked);
  const whole = audioMs ?? Math.max(receivedMs, length * MS_PER_POINT);
  return Math.min(length, (heardMs / Math.max(1, whole)) * length);
}
