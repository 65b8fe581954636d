/** Keeps what an utterance sounded like, if asked to, and offers it as a file. */

const LONGEST = 120; // s

export class Recording {
  /** @param {object} voice @param {HTMLInputElement} wanted @param {HTMLAnchorElement} link */
  constructor(voice, wanted, link) {
    this.voice = voice;
    this.wanted = wanted;
    this.link = link;
    this.recorder = null;
  }

  /** An utterance begins. */
  begin() {
    this.link.hidden = true;
    this.recorder = this.wanted.checked ? this.voice.record(LONGEST) : null;
  }

  /** It has ended: offer what was recorded. */
  async finish() {
    const recorder = this.recorder;
    this.recorder = null;
    if (!recorder) return;
    URL.revokeObjectURL(this.link.href);
    this.link.href = URL.createObjectURL(await recorder.wav());
    this.link.hidden = false;
  }
}
