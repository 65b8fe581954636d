/**
 * The worker: one voice session, away from the page's thread, so that a busy page cannot delay sound.
 *
 * The page sends commands and clock readings; the player sends reports through its own port. What
 * the page may know goes out in batches of 50 ms; urgent things at once.
 */

import { Session } from "./session.js";

const BATCH = 50; // ms

const outbox = [];
let timer = 0;
let session = null;

function flush() {
  clearTimeout(timer);
  timer = 0;
  postMessage(outbox.splice(0));
}

/** Tell the page. */
function tell(message, urgent = false) {
  outbox.push(message);
  if (urgent) flush();
  else timer ||= setTimeout(flush, BATCH);
}

onmessage = ({ data }) => {
  if (data.t === "init") {
    session = new Session({ ...data.options, tell });
    return;
  }
  session.command(data);
};
