/** Shows the text of an utterance with what has been heard bright, and what never was struck through. */

import { phrases } from "./captions.js";

export class CaptionView {
  /** @param {HTMLElement} element @param {HTMLElement} log gets each sentence once it has been heard */
  constructor(element, log) {
    this.element = element;
    this.log = log;
    this.announcing = false;
    this.clear();
  }

  clear() {
    this.text = "";
    this.parts = [];
    this.position = 0;
    this.logged = 0;
    this.element.replaceChildren();
  }

  /** Show `text`; a longer one than before keeps the place. */
  setText(text) {
    if (text === this.text) return;
    this.text = text;
    this.parts = phrases(text).map(({ words }) => {
      const phrase = document.createElement("span");
      const spans = words.map((word) => {
        const span = Object.assign(document.createElement("span"), { textContent: word.text, className: "future" });
        phrase.append(span);
        return { ...word, span };
      });
      return { phrase, words: spans };
    });
    // The space between two phrases belongs to neither, so that the plate ends with the word.
    const spaced = this.parts.flatMap(({ phrase, words }) => {
      const { span } = words[words.length - 1];
      const space = span.textContent.match(/\s*$/)[0];
      span.textContent = span.textContent.trimEnd();
      return [phrase, document.createTextNode(space)];
    });
    this.element.replaceChildren(...spaced);
  }

  /** Mark the place; `precise` when single words are known, else the phrase is lit. */
  show(position, precise) {
    this.position = Math.max(this.position, position);
    for (const { phrase, words } of this.parts) {
      const [begin, end] = [words[0].from, words[words.length - 1].to];
      const lit = this.position > begin && this.position < end;
      for (const { span, from, to } of words) {
        const current = lit && (!precise || (this.position > from && this.position <= to));
        this.#mark(span, current ? "current" : this.position >= (precise ? to : end) ? "heard" : "future");
      }
      if (phrase.classList.contains("now") !== lit) {
        phrase.classList.toggle("now", lit);
        if (lit) this.#follow(phrase);
      }
    }
    this.#announce();
  }

  /** The sound is over: all was heard up to `position`, and the rest will not be. */
  finish(position, complete) {
    for (const { phrase, words } of this.parts) {
      phrase.classList.remove("now");
      for (const { span, from } of words) {
        this.#mark(span, complete || from < position ? "heard" : "unheard");
      }
    }
    this.position = complete ? Infinity : position;
    this.#announce();
  }

  #mark(span, name) {
    if (span.className !== name) span.className = name;
  }

  /** Keep the current phrase in view without moving the page. */
  #follow(phrase) {
    const { element } = this;
    const bottom = phrase.offsetTop + phrase.offsetHeight;
    if (bottom > element.scrollTop + element.clientHeight || phrase.offsetTop < element.scrollTop) {
      element.scrollTop = Math.max(0, phrase.offsetTop - 40);
    }
  }

  #announce() {
    if (!this.announcing) return;
    const heard = Array.from(this.text).slice(0, this.position).join("");
    const sentences = heard.slice(this.logged).match(/[^.!?。！？]+[.!?。！？]+/gu) ?? [];
    for (const sentence of sentences) {
      this.logged += sentence.length;
      this.log.append(Object.assign(document.createElement("p"), { textContent: sentence.trim() }));
    }
  }
}
