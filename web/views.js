/**
 * What the page is told about an utterance: plain messages in milliseconds, built from a session's
 * entries. No decisions here.
 */

import { TICKS_PER_MS } from "./protocol.js";

export const ms = (ticks) => Math.round((10 * ticks) / TICKS_PER_MS) / 10;

/** A chunk that has just arrived; `slack` in ticks, null for the first one. */
export function chunkView({ id }, chunk, { bytes, slack, at, jitter }) {
  return {
    k: "chunk",
    id,
    n: chunk.n,
    seq: chunk.seq,
    start_ms: ms(chunk.ts),
    dur_ms: ms(chunk.dur),
    bytes,
    packets: chunk.count,
    slack_ms: slack === null ? null : ms(slack),
    jitter_ms: jitter,
    at,
  };
}

/** A report of the player, ten a second while something is unheard. */
export function reportView({ id, track }, message, { latency, source, decoder, at }) {
  return {
    k: "report",
    id,
    n: track.n,
    state: message.st,
    heard_ms: ms(track.heard),
    rendered_ms: ms(track.rendered),
    received_ms: ms(track.received),
    buffered_ms: ms(track.received - track.rendered),
    decoded_ms: ms(message.buf),
    least_ms: ms(message.minBuf),
    latency_ms: ms(latency),
    source,
    decoder,
    stalls: track.stalls,
    stalled_ms: ms(track.stalled),
    dropped_ms: ms(track.dropped),
    at,
  };
}

/** An event of the player: start, stall, resume, pause, end, cancelled. */
export function playView({ id, times }, message, at) {
  return {
    k: "play",
    event: message.k,
    id,
    seq: message.seq,
    frame: message.f,
    pos_ms: ms(message.pos),
    buffered_ms: ms(message.buf),
    gap_ms: message.gap === undefined ? undefined : ms(message.gap),
    stalls: message.stalls,
    times,
    at,
  };
}

/** The end of an utterance, after its last sample was heard or its sound was stopped. */
export function finishedView({ id, track, times, ended }) {
  return {
    k: "finished",
    id,
    ...ended,
    heard_ms: ms(track.heard),
    rendered_ms: ms(track.rendered),
    received_ms: ms(track.received),
    stalls: track.stalls,
    stalled_ms: ms(track.stalled),
    dropped_ms: ms(track.dropped),
    times,
  };
}
