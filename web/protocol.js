/**
 * The wire format `voice.v1` without any socket: builds client messages, parses binary chunks.
 *
 * Milliseconds in JSON, 48 kHz ticks in the binary header, little-endian throughout.
 */

export const SUBPROTOCOL = "voice.v1";
export const RATE = 48_000; // ticks a second: of the wire, of decoders and of the audio context
export const TICKS_PER_MS = RATE / 1000;
export const PACKET_TICKS = 960; // one Opus packet is 20 ms
export const CODEC = Object.freeze({ pcm_s16le: 0, opus: 1 });
export const FLAG = Object.freeze({ first: 1, last: 2, discontinuity: 4, segmentEnd: 8, silence: 16 });

export const MESSAGE_POINTS = 2000; // code points in one message

const HEADER_BYTES = 24;
const AUDIO_V1 = 0x11; // high nibble: version, low nibble: kind
const MAX_PACKETS = 50;

/** A binary message that does not follow the format; the text says where. */
export class ChunkError extends Error {}

/**
 * Read one binary message.
 *
 * @param {ArrayBuffer} buffer
 * @returns {{codec: number, flags: number, first: boolean, last: boolean, n: number, count: number,
 *   seq: number, ts: number, dur: number, sentAt: number, packets: Uint8Array[]}} `packets` are
 *   views into `buffer`; PCM is one packet. `ts` and `dur` are ticks, `sentAt` is the server's ms.
 * @throws {ChunkError}
 */
export function parseChunk(buffer) {
  if (buffer.byteLength < HEADER_BYTES) {
    throw new ChunkError(`chunk: shorter than its header of ${HEADER_BYTES} bytes: ${buffer.byteLength}`);
  }
  const view = new DataView(buffer);
  const kind = view.getUint8(0);
  if (kind !== AUDIO_V1) throw new ChunkError(`chunk: unknown version or kind, 17 would be right: ${kind}`);
  const codec = view.getUint8(1);
  const flags = view.getUint16(2, true);
  const count = view.getUint16(6, true);
  return {
    codec,
    flags,
    first: (flags & FLAG.first) !== 0,
    last: (flags & FLAG.last) !== 0,
    n: view.getUint16(4, true),
    count,
    seq: view.getUint32(8, true),
    ts: view.getUint32(12, true),
    dur: view.getUint32(16, true),
    sentAt: view.getUint32(20, true),
    packets: codec === CODEC.opus ? opusPackets(view, count) : [new Uint8Array(buffer, HEADER_BYTES)],
  };
}

/** Cut the payload by the table of lengths. */
function opusPackets(view, count) {
  if (count < 1 || count > MAX_PACKETS) {
    throw new ChunkError(`chunk: packet count must be 1 to ${MAX_PACKETS}: ${count}`);
  }
  let at = HEADER_BYTES + 2 * count;
  if (at > view.byteLength) throw new ChunkError(`chunk: table of lengths is cut off: ${view.byteLength}`);
  const packets = [];
  for (let i = 0; i < count; i++) {
    const length = view.getUint16(HEADER_BYTES + 2 * i, true);
    if (at + length > view.byteLength) break;
    packets.push(new Uint8Array(view.buffer, at, length));
    at += length;
  }
  if (packets.length < count || at !== view.byteLength) {
    throw new ChunkError(`chunk: lengths do not add up to the message: ${view.byteLength}`);
  }
  return packets;
}

/** The first message of a session. */
export function hello({ codecs, sampleRate = 24000, holdMs = 0, maxLeadMs, token, defaults = {}, want = [] }) {
  const player = { prebuffer_ms: holdMs };
  if (maxLeadMs !== undefined) player.max_lead_ms = maxLeadMs;
  return {
    type: "hello",
    ...(token ? { token } : {}),
    audio: { codecs, sample_rate: sampleRate },
    acks: true,
    player,
    ...defined(defaults, ["voice", "language", "instructions"]),
    want,
    client: { name: "playhead-web", version: "1" },
  };
}

const SAY_FIELDS = ["voice", "language", "instructions", "seed", "mode", "before", "max_audio_ms"];

/** Open an utterance; `options` are the optional fields of `say`. */
export function say(utterance, text, last, options = {}) {
  return { type: "say", utterance, text, last, ...defined(options, SAY_FIELDS) };
}

/** Keep `names` of `source` that are set. */
function defined(source, names) {
  return Object.fromEntries(names.filter((name) => source[name] != null).map((name) => [name, source[name]]));
}

/** The messages of at most `limit` code points that append `text`; the last one ends it if `last`. */
export function textMessages(utterance, text, last, limit = MESSAGE_POINTS) {
  const points = Array.from(text);
  const messages = [];
  do {
    messages.push({ type: "text", utterance, text: points.splice(0, limit).join(""), last: false });
  } while (points.length > 0);
  messages[messages.length - 1].last = last;
  return messages;
}

/** The subprotocols to offer: browsers cannot send a header, so a token travels beside the version. */
export function subprotocols(token) {
  return /^[A-Za-z0-9_-]+$/.test(token ?? "") ? [SUBPROTOCOL, `voice.auth.${token}`] : [SUBPROTOCOL];
}

const NO_RETRY = new Set([1000, 1003, 1007, 1008, 1009, 4400, 4401, 4403]);

/** Whether a connection closed with `code` may be opened again. */
export function retryable(code) {
  return !NO_RETRY.has(code) && (code < 4400 || code === 4408 || code === 4412);
}

/** Milliseconds before attempt number `attempt` (0, 1, …): 250 doubling to 10 000, with jitter. */
export function backoff(attempt, random = Math.random) {
  return Math.min(250 * 2 ** attempt, 10_000) * (0.75 + 0.5 * random());
}
