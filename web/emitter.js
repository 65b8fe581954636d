/** Calls listeners by event name; the smallest thing that lets a page and a test subscribe. */
export class Emitter {
  #listeners = new Map();

  /** @param {string} name @param {(event: object) => void} listener @returns {() => void} unsubscribes */
  on(name, listener) {
    if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
    this.#listeners.get(name).add(listener);
    return () => this.#listeners.get(name).delete(listener);
  }

  emit(name, event) {
    for (const listener of this.#listeners.get(name) ?? []) listener(event);
  }
}
