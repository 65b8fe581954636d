/** Three ways to send text: whole, as it is typed, or word by word as a language model would. */

const REST = 400; // ms without a key after which a typed word goes out
const BOUNDARY = /[\s.,;:!?…。！？，、]/u;

/** The pieces of `text`, `pace()` words a second. */
export async function* wordByWord(text, pace) {
  for (const [word] of text.matchAll(/\s*\S+\s*/gu)) {
    yield word;
    await new Promise((done) => setTimeout(done, 1000 / pace()));
  }
}

/** The part of `text` that may go out while typing: up to the last space or punctuation. */
export function settled(text) {
  const at = Math.max(...[...text].map((letter, i) => (BOUNDARY.test(letter) ? i : -1)), -1);
  return [...text].slice(0, at + 1).join("");
}

/** Sends what is typed as soon as it is settled; what has gone out can no longer be edited. */
export class Typing {
  /**
   * @param {HTMLTextAreaElement} box @param {HTMLElement} committed shows what has gone out
   * @param {() => {appendText(text: string): void, end(): void}} open begins an utterance
   */
  constructor(box, committed, open) {
    this.box = box;
    this.committed = committed;
    this.open = open;
    this.utterance = null;
    this.timer = 0;
  }

  get active() {
    return this.utterance !== null;
  }

  /** The box has changed. */
  input() {
    clearTimeout(this.timer);
    this.#commit(settled(this.box.value));
    if (this.box.value) this.timer = setTimeout(() => this.#commit(this.box.value), REST);
  }

  #commit(text) {
    if (!text.trim() && !this.utterance) return;
    if (!text) return;
    if (!this.utterance) this.committed.textContent = "";
    this.utterance ??= this.open();
    this.utterance.appendText(text);
    this.committed.textContent += text;
    this.committed.hidden = false;
    this.committed.scrollTop = this.committed.scrollHeight;
    this.box.value = this.box.value.slice(text.length);
  }

  /** The text is complete. */
  finish() {
    clearTimeout(this.timer);
    this.#commit(this.box.value);
    this.utterance?.end();
    this.utterance = null;
  }

  /** Stopped, or another mode: what was sent stays visible until the next text. */
  abandon() {
    clearTimeout(this.timer);
    this.utterance = null;
  }

  clear() {
    this.abandon();
    this.committed.hidden = true;
    this.committed.textContent = "";
  }
}
