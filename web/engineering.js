/** The column of numbers: tiles, events, first audio, session facts. Reads the store, writes the DOM. */

const PARTS = ["server", "network", "decode", "start", "device"];
const round = (value) => (Number.isFinite(value) ? String(Math.round(value)) : "–");

function tile(name, text, tone = "") {
  const element = document.getElementById(`tile-${name}`);
  if (element.textContent !== text) element.textContent = text;
  if (element.dataset.tone !== tone) element.dataset.tone = tone;
}

/** Write the six tiles; coloured only where a value is good or bad in itself. */
export function showTiles(store) {
  const { shown, firstAudio } = store;
  tile("first-audio", round(firstAudio[0]?.total));
  const left = shown?.samples.at(-1)?.buffered;
  tile("buffer", shown?.stopped ? "–" : round(left), shown?.stopped ? "off" : "");
  const slack = shown?.minSlack ?? Infinity;
  tile("slack", round(slack), slack < 0 ? "bad" : Number.isFinite(slack) ? "ok" : "");
  tile("underruns", String(store.underruns), store.underruns > 0 ? "bad" : "");
  tile("jitter", store.jitter === null ? "–" : round(store.jitter));
  tile("device", store.device === null ? "–" : round(store.device));
}

function row(cells, tone) {
  const line = document.createElement("tr");
  line.dataset.tone = tone;
  line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return line;
}

/** Write the table of events, newest first. */
export function showEvents(store, filter) {
  const wanted = filter.toLowerCase();
  const rows = store.events
    .filter(({ event, note }) => `${event} ${note}`.toLowerCase().includes(wanted))
    .map(({ t, event, seq, buffer, note, tone }) => row([t, event, seq, buffer, note], tone));
  document.getElementById("events").replaceChildren(...rows);
}

/** Write the bars of the last five first sounds. */
export function showFirstAudio(store) {
  if (store.firstAudio.length === 0) return;
  const longest = Math.max(...store.firstAudio.map(({ total }) => total));
  const rows = store.firstAudio.map((times) => {
    const line = document.createElement("div");
    line.className = "bar-row";
    const stack = document.createElement("div");
    stack.className = "stack";
    for (const part of PARTS) {
      const piece = document.createElement("span");
      piece.className = part;
      piece.style.width = `${(100 * Math.max(0, times[part] || 0)) / longest}%`;
      piece.title = `${part} ${round(times[part])} ms`;
      stack.append(piece);
    }
    const text = (content) => Object.assign(document.createElement("span"), { textContent: content });
    line.append(text(times.label), stack, text(`${round(times.total)} ms`));
    return line;
  });
  document.getElementById("first-audio").replaceChildren(...rows);
}

const DECODERS = { webcodecs: "Opus · WebCodecs", wasm: "Opus · WASM", pcm: "PCM", none: "–" };
const SINKS = { worklet: "audio worklet", scheduled: "scheduled buffers", none: "–" };

/** Write the facts of the session. */
export function showSession(stats, model) {
  const { context, server, report } = stats;
  const facts = {
    decoder: DECODERS[report?.decoder ?? stats.decoder] ?? "–",
    sink: SINKS[stats.sink] ?? "–",
    "audio context": `${context.state}, ${context.sampleRate} Hz, base ${round(1000 * context.baseLatency)} ms`,
    "latency source": report?.source ?? "–",
    "device underruns": context.underruns ?? "not reported",
    "round trip": stats.rtt ? `${stats.rtt.rtt_ms.toFixed(1)} ms` : "–",
    "playhead model": model ?? "–",
    server: server ? `${server.server} · ${server.model}` : "–",
    session: server?.session ?? "–",
    codec: server ? `${server.audio.codec}, ${server.audio.sample_rate} Hz, acks every ${server.ack.interval_ms} ms` : "–",
  };
  const items = Object.entries(facts).flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }),
    Object.assign(document.createElement("dd"), { textContent: value }),
  ]);
  document.getElementById("session").replaceChildren(...items);
}
