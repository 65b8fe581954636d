/** One spoken reply as the embedding page sees it. */

/**
 * @typedef {object} Finished
 * @property {string} id
 * @property {string} reason complete, max_audio, runaway, empty, cancelled, failed or connection_lost
 * @property {number} heard_ms at the ear
 * @property {{audio_ms: number, text: string, text_to: number, source: string, text_method: string}} [heard]
 *   the server's account after an interruption
 * @property {number} stalls
 * @property {number} stalled_ms
 * @property {object} ttfa milliseconds: server, network, decode, start, device, total
 * @property {number} [stopped_in_ms] from the call of `interrupt` to silence
 */

export class Utterance {
  /** Made by `VoiceClient.speak`. */
  constructor(client, id) {
    this.client = client;
    this.id = id;
    this.n = null; // its number on the wire, once started
    this.key = null; // its number in the player
    this.text = "";
    this.position = { heardMs: 0, renderedMs: 0, bufferedMs: 0, receivedMs: 0 };
    this.stoppedIn = undefined;
    /** @type {Promise<Finished>} resolves when all was heard or the sound was stopped; never rejects */
    this.finished = new Promise((resolve) => (this.settle = resolve));
  }

  /** Add text as it comes; pieces are joined as they are, no spaces added. */
  appendText(text) {
    this.text += text;
    this.client.post({ t: "text", id: this.id, text, last: false });
  }

  /** Speak what has been sent so far, more may follow. */
  flush() {
    this.client.post({ t: "flush", id: this.id });
  }

  /** No more text will follow. */
  end() {
    this.client.post({ t: "text", id: this.id, text: "", last: true });
  }

  /** Send a stream of pieces, such as the answer of a language model; one that breaks off is spoken so far. */
  async pipe(pieces) {
    let open = true;
    this.finished.then(() => (open = false));
    try {
      for await (const piece of pieces) {
        if (!open) return;
        this.appendText(piece);
      }
    } finally {
      if (open) this.end();
    }
  }

  /** Stop this utterance; the others go on. @returns {Promise<Finished>} */
  interrupt({ reason = "barge_in" } = {}) {
    return this.client.interruptOne(this, reason);
  }

  /** A message of the worker about this utterance. */
  receive(kind, event) {
    if (kind === "started") Object.assign(this, { n: event.n, key: event.key });
    if (kind === "stopped") this.stoppedIn = event.took_ms;
    if (kind === "heard") this.position.heardMs = event.heard_ms;
    if (kind === "report") {
      this.position = {
        heardMs: event.heard_ms,
        renderedMs: event.rendered_ms,
        bufferedMs: event.buffered_ms,
        receivedMs: event.received_ms,
      };
    }
    if (kind === "finished") {
      this.settle(Object.freeze({ ...event, ttfa: firstAudio(event), stopped_in_ms: this.stoppedIn }));
    }
  }
}

/** Where the time to the first audible sample went, ms; undefined parts are unknown. */
export function firstAudio({ times: { asked, arrived, decoded, started, heard }, first_audio_ms: server }) {
  const known = server === undefined || arrived === undefined ? undefined : Math.min(server, arrived - asked);
  return {
    server: known,
    network: arrived - asked - (known ?? 0),
    decode: decoded - arrived,
    start: started - decoded,
    device: Math.max(0, heard - started),
    total: heard - asked,
  };
}
