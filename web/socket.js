/**
 * Keeps one WebSocket to the gateway open: offers the subprotocols, backs off, says when to give up.
 *
 * Knows nothing of the messages except that the page must be told what is going on.
 */

import { backoff, retryable, subprotocols } from "./protocol.js";

export class Socket {
  /**
   * @param {string} url `ws:` or `wss:`
   * @param {{token?: string, reconnect: boolean}} options
   * @param {{open(): void, message(data: string | ArrayBuffer): void, closed(info: object): void,
   *   state(name: string, info?: object): void}} owner
   */
  constructor(url, options, owner) {
    this.url = url;
    this.options = options;
    this.owner = owner;
    this.socket = null;
    this.attempt = 0;
    this.timer = 0;
    this.retryAfter = 0; // ms the server asked for
    this.wanted = false;
  }

  /** Connect, or connect now if a retry is pending. */
  connect() {
    this.wanted = true;
    clearTimeout(this.timer);
    if (this.socket) return;
    this.owner.state("connecting", { attempt: this.attempt });
    const socket = new WebSocket(this.url, subprotocols(this.options.token));
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => this.owner.open();
    socket.onmessage = ({ data }) => this.owner.message(data);
    socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  /** The server has answered `hello`: the next failure starts counting anew. */
  established() {
    this.attempt = 0;
    this.retryAfter = 0;
  }

  /** @returns {boolean} whether the message is on its way. */
  send(message) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  /** Leave for good. */
  close(code = 1000, reason = "bye") {
    this.wanted = false;
    clearTimeout(this.timer);
    this.socket?.close(code, reason);
  }

  #closed(code, reason) {
    this.socket = null;
    const retry = this.wanted && this.options.reconnect && retryable(code);
    this.owner.closed({ code, reason, retry });
    if (!retry) {
      const refused = this.wanted && !retryable(code) && code !== 1000;
      return this.owner.state(refused ? "refused" : "closed", { code, reason });
    }
    const wait = Math.max(backoff(this.attempt++), this.retryAfter);
    this.timer = setTimeout(() => this.connect(), wait);
    this.owner.state("reconnecting", { code, reason, attempt: this.attempt, wait_ms: Math.round(wait) });
  }
}
