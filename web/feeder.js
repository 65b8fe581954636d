/**
 * Feeds the player: decodes chunks in order, never more than 4 s ahead of what has been rendered.
 *
 * What waits stays undecoded (4 KB a second), so a stop throws little away and a server that sends a
 * minute at once costs no memory on the audio thread.
 */

import { TICKS_PER_MS } from "./protocol.js";

const AHEAD = 4000 * TICKS_PER_MS;

/** Sound of one utterance on its way from the socket to the player. */
export class Feed {
  constructor(key, track, decoder) {
    this.key = key; // its number in the player
    this.track = track;
    this.decoder = decoder;
    this.chunks = []; // not decoded yet
    this.posted = 0; // ticks given to the player
    this.complete = false; // no chunk will follow
    this.closed = false; // everything given away, or stopped
    this.decodedAt = null; // ms, when the first samples went to the player
  }

  get ahead() {
    return this.closed && this.track.over ? 0 : Math.max(0, this.posted - this.track.rendered);
  }
}

export class Feeder {
  /**
   * @param {{post(message: object, transfer?: Transferable[]): void, now(): number,
   *   failed(feed: Feed, error: Error): void}} owner `post` leads to the player
   */
  constructor({ post, now, failed }) {
    this.post = post;
    this.now = now;
    this.failed = failed;
    this.feeds = []; // in the order in which they will be heard
    this.epoch = 0;
    this.busy = false;
  }

  /** Utterances are heard in the order of this call. */
  open(key, track, decoder) {
    const feed = new Feed(key, track, decoder);
    this.feeds = this.feeds.filter(({ closed, posted, track: { over } }) => !closed || (posted > 0 && !over));
    this.feeds.push(feed);
    return feed;
  }

  add(feed, chunk) {
    if (feed.closed) return;
    feed.chunks.push(chunk);
    this.pump();
  }

  /** No chunk will follow: what has arrived is played to its end. */
  finish(feed) {
    feed.complete = true;
    this.pump();
  }

  /** Stop: what has arrived is forgotten. */
  drop(feed) {
    feed.chunks.length = 0;
    this.#close(feed);
  }

  /** Decode as far as the window allows; called whenever something arrived or was rendered. */
  async pump() {
    if (this.busy) return;
    this.busy = true;
    try {
      for (let feed = this.#next(); feed; feed = this.#next()) {
        await this.#advance(feed).catch((error) => {
          this.drop(feed);
          this.failed(feed, error);
        });
      }
    } finally {
      this.busy = false;
    }
  }

  #next() {
    const feed = this.feeds.find((entry) => !entry.closed);
    if (!feed || feed.chunks.length === 0) return feed?.complete ? feed : undefined;
    const ahead = this.feeds.reduce((sum, entry) => sum + entry.ahead, 0);
    return ahead === 0 || ahead + feed.chunks[0].dur <= AHEAD ? feed : undefined;
  }

  async #advance(feed) {
    const chunk = feed.chunks.shift();
    if (!chunk) {
      this.#give(feed, feed.decoder.flush(), feed.track.seq, true);
      return this.#close(feed);
    }
    const pcm = await feed.decoder.decode(chunk);
    if (feed.closed) return;
    feed.track.dropped = feed.decoder.dropped;
    this.#give(feed, pcm, chunk.seq, chunk.last);
    if (chunk.last) this.#close(feed);
  }

  #give(feed, pcm, seq, last) {
    feed.posted += pcm.length;
    feed.decodedAt ??= this.now();
    const message = { t: "pcm", n: feed.key, seq, pcm, last, epoch: this.epoch };
    this.post(message, [pcm.buffer]);
  }

  #close(feed) {
    feed.closed = true;
    feed.decoder.close();
  }
}
