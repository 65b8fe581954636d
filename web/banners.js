/** Messages above the captions: one per situation, each with at most one thing to do about it. */

export class Banners {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    this.shown = new Map();
  }

  /**
   * Show or change the banner `key`.
   *
   * @param {string} key @param {string} text
   * @param {{tone?: "warn" | "bad" | "note", action?: [string, () => void], extra?: Node}} [options]
   */
  show(key, text, { tone = "warn", action, extra } = {}) {
    const known = this.shown.get(key);
    if (known) {
      known.querySelector("p").textContent = text;
      return;
    }
    const banner = document.createElement("div");
    banner.className = "banner";
    banner.dataset.tone = tone;
    banner.append(Object.assign(document.createElement("p"), { textContent: text }));
    if (extra) banner.append(extra);
    if (action) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: action[0] });
      button.onclick = action[1];
      banner.append(button);
    }
    this.shown.set(key, banner);
    this.element.append(banner);
  }

  hide(key) {
    this.shown.get(key)?.remove();
    this.shown.delete(key);
  }
}
