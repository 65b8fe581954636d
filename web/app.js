/**
 * The demo page: buttons and keys in, what the SDK reports out. Draws; never touches sound.
 *
 * For the console: `playhead.voice.stats()`, `playhead.store`.
 */

import { Banners } from "./banners.js";
import { CaptionView } from "./caption-view.js";
import { textPosition } from "./captions.js";
import { VoiceClient, VoiceError } from "./client.js";
import { ConnectionView } from "./connection-view.js";
import { showEvents, showFirstAudio, showSession, showTiles } from "./engineering.js";
import { bindKeys, bindRadios } from "./keys.js";
import { Plots } from "./plots.js";
import { Recording } from "./recording.js";
import { Runway } from "./runway.js";
import { SAMPLES } from "./sample-texts.js";
import { Typing, wordByWord } from "./sending.js";
import { Store } from "./store.js";

const REFRESH = 100; // ms between updates of captions, tiles and plots
const LOCKED_AFTER = 400; // ms without sound after Speak before a click is asked for
const $ = (id) => document.getElementById(id);
const absolute = () => performance.timeOrigin + performance.now();

const query = new URLSearchParams(location.search);
const link = new URLSearchParams(location.hash.slice(1));
const voice = new VoiceClient({
  url: "v1/voice",
  token: sessionStorage.getItem("playhead-token") ?? undefined,
  decoder: query.get("decoder") ?? "auto",
  want: ["marks", "stats"],
});
const store = new Store();
const banners = new Banners($("banners"));
const captions = new CaptionView($("captions"), $("spoken-log"));
const connection = new ConnectionView($("connection"), banners, voice);
const runway = new Runway($("runway"));
const plots = new Plots(() => store.shown);
const recording = new Recording(voice, $("record"), $("download"));
const typing = new Typing($("text"), $("committed"), () => present(voice.speak(undefined, options())));

let mode = "whole";
let utterance = null; // the one on show
let paused = false;
let model = null; // of the playhead, as the server says
let dirty = true; // something happened since the last refresh
Object.assign(window, { playhead: { voice, store } });

// ------------------------------------------------------------------ speaking

const speaking = () => utterance !== null && store.shown?.finished === null;
const options = () => ({ voice: $("voice").value || undefined, mode: voice.utterances.size > 0 ? "replace" : "queue" });

function speak() {
  if (mode === "typed") return typing.finish();
  const text = $("text").value.trim();
  if (!text) return $("text").focus();
  typing.clear();
  const streamed = mode === "streamed" ? wordByWord(text, () => Number($("words").value)) : text;
  present(voice.speak(streamed, options()));
}

/** Put an utterance on show. */
function present(spoken) {
  utterance = spoken;
  resume();
  store.show(spoken.id);
  store.log("speak", { note: `${spoken.id}, ${mode}` });
  captions.clear();
  $("captions").lang = voice.options.language ?? "";
  $("problem").hidden = true;
  say("Waiting for first audio…");
  recording.begin();
  setTimeout(askForClick, LOCKED_AFTER);
  spoken.finished.then(finished);
  dirty = true;
  return spoken;
}

function stop() {
  typing.abandon();
  if (speaking()) voice.interrupt({ reason: "user" });
}

function pause() {
  if (!speaking()) return;
  if (paused) return resume();
  paused = true;
  voice.pause();
  $("pause").textContent = "Resume";
}

function resume() {
  if (paused) voice.resume();
  paused = false;
  $("pause").textContent = "Pause";
}

function finished(result) {
  store.finish(result);
  const stopped = result.reason === "cancelled"; // the device still plays what it was handed
  const seconds = ((stopped ? result.rendered_ms : result.heard_ms) / 1000).toFixed(2);
  const word = { complete: "done", cancelled: "stopped" }[result.reason] ?? result.reason;
  store.log(word, { note: `heard ${seconds} s` });
  dirty = true;
  if (store.shown?.id !== result.id) return;
  typing.abandon();
  recording.finish();
  resume();
  const complete = result.reason === "complete";
  captions.setText(utterance.text);
  captions.finish(result.heard?.text_to ?? place(), complete);
  if (stopped) say(`Stopped, heard ${seconds} s`);
  else if (complete) say("Done");
  else say(result.reason === "connection_lost" ? `Cut off, heard ${seconds} s` : "Failed", "bad");
}

function say(text, tone = "off") {
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").dataset.tone = tone;
}

/** The code point that is heard now. */
function place() {
  const { shown } = store;
  const length = Array.from(utterance.text).length;
  const heardMs = shown.finished ? shown.heard : shown.heardBy(absolute());
  return textPosition({ heardMs, receivedMs: shown.received, audioMs: shown.audio, length, marks: shown.marks });
}

// ------------------------------------------------------------------ what the SDK tells

const STATES = { start: ["Speaking", "ok"], resume: ["Speaking", "ok"], stall: ["Waiting for audio…", "warn"], pause: ["Paused", "warn"] };

voice.on("state", (event) => {
  connection.show(event);
  const note = [event.code, event.reason].filter(Boolean).join(" ");
  store.log(event.state, { note, tone: event.state === "connected" ? "ok" : "" });
  if (event.state === "connected") fillVoices(event.hello.voices ?? []);
  if (event.decoder === "pcm" && !query.has("decoder")) {
    banners.show("decoder", "This browser cannot decode Opus here; using uncompressed audio.", { tone: "note" });
  }
  dirty = true;
});
voice.on("rtt", ({ rtt_ms: ms }) => connection.rtt(ms));
voice.on("chunk", (event) => touch(() => store.chunk(event)));
voice.on("report", (event) => touch(() => store.report(event)));
voice.on("stats", (event) => touch(() => (store.stats(event), (model = event.model))));
voice.on("marks", (event) => event.utterance === store.shown?.id && store.shown.marks.add(event));
voice.on("started", ({ id, n }) => id === store.shown?.id && (store.shown.n = n));
voice.on("done", ({ id, audio_ms: audio }) => id === store.shown?.id && (store.shown.audio = audio));
voice.on("warning", ({ code, message }) => touch(() => store.log(`warning ${code}`, { note: message })));
voice.on("play", (event) => {
  touch(() => store.play(event));
  if (event.id === store.shown?.id && STATES[event.event]) say(...STATES[event.event]);
  banners.hide("locked");
});
voice.on("error", ({ code, message, id, retry_after_ms: retry }) => {
  touch(() => store.log(`error ${code}`, { note: message, tone: "bad" }));
  if (!id && code === "unauthorized") return; // the banner of the refusal says it
  const again = retry ? ` Try again in ${Math.ceil(retry / 1000)} s.` : "";
  $("problem").textContent = `${message} (${code}).${again}`;
  $("problem").hidden = false;
});
voice.on("audio", ({ locked, state, sink }) => {
  if (sink === "scheduled") explainReduced();
  if (!locked) {
    banners.hide("locked");
    banners.hide("clock");
  } else if (speaking() && store.shown.heard > 0) {
    const action = state === "suspended" ? ["Resume", () => voice.unlock()] : undefined;
    banners.show("clock", "Sound is paused by the system.", { action });
  }
});

function touch(change) {
  change();
  dirty = true;
}

function askForClick() {
  if (!speaking() || !voice.audio.locked) return;
  const text = "Your browser needs one click before it may play sound.";
  banners.show("locked", text, { action: ["Play sound", () => voice.unlock()] });
}

/** Name the voices: the server's full list if it has one, else those of its hello. */
async function fillVoices(names) {
  const listed = await fetch("v1/audio/voices").then((answer) => (answer.ok ? answer.json() : {})).catch(() => ({}));
  const voices = listed.voices ?? names.map((id) => ({ id, name: id }));
  const chosen = $("voice").value || link.get("voice");
  $("voice").replaceChildren(...voices.map(({ id, name }) => new Option(name ?? id, id, false, id === chosen)));
}

// ------------------------------------------------------------------ controls

function chooseMode(radio) {
  mode = radio.dataset.mode;
  for (const other of $("mode").children) {
    other.ariaChecked = String(other === radio);
    other.tabIndex = other === radio ? 0 : -1;
  }
  $("pace").hidden = mode !== "streamed";
  typing.clear();
  $("speak").firstChild.textContent = mode === "typed" ? "Finish " : "Speak ";
}

function toggleEngineering() {
  const plain = document.body.classList.toggle("plain");
  localStorage.setItem("playhead-plain", plain ? "1" : "");
  $("toggle-engineering").ariaPressed = String(!plain);
}

function toggleTheme() {
  const root = document.documentElement;
  const light = getComputedStyle(root).colorScheme === "light";
  root.dataset.theme = light ? "dark" : "light";
  localStorage.setItem("playhead-theme", root.dataset.theme);
  dirty = true;
}

function freeze() {
  plots.frozen = !plots.frozen;
  $("freeze").ariaPressed = String(plots.frozen);
  $("freeze").textContent = plots.frozen ? "Resume plots" : "Freeze plots";
  dirty = true;
}

let loud = 100; // volume before muting
function mute() {
  const volume = $("volume");
  if (Number(volume.value) > 0) [loud, volume.value] = [volume.value, 0];
  else volume.value = loud;
  voice.setVolume(volume.value / 100);
}

async function copy(button, text) {
  const label = button.textContent;
  const done = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  button.textContent = done ? "Copied" : "No clipboard here";
  setTimeout(() => (button.textContent = label), 1500);
}

function copyLink(event) {
  const parts = new URLSearchParams({ text: $("text").value, voice: $("voice").value });
  history.replaceState(null, "", `#${parts}`);
  copy(event.target, location.href);
}

function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  $("text").style.height = "auto";
  $("text").style.height = `${$("text").scrollHeight}px`;
}

function bindControls() {
  $("speak").onclick = speak;
  $("stop").onclick = stop;
  $("pause").onclick = pause;
  $("volume").oninput = () => voice.setVolume($("volume").value / 100);
  $("words").oninput = () => ($("words-shown").textContent = `${$("words").value} words/s`);
  $("text").oninput = () => (mode === "typed" ? typing.input() : grow());
  $("toggle-engineering").onclick = toggleEngineering;
  $("theme").onclick = toggleTheme;
  $("freeze").onclick = freeze;
  $("help-button").onclick = () => $("help").showModal();
  $("filter").oninput = () => showEvents(store, $("filter").value);
  $("copy-link").onclick = copyLink;
  $("copy-events").onclick = ({ target }) => copy(target, JSON.stringify(store.events, null, 1));
  $("announce").onchange = () => (captions.announcing = $("announce").checked);
  bindRadios($("mode"), chooseMode);
  const byMode = (index) => () => chooseMode($("mode").children[index]);
  bindKeys({
    speak, stop, pause, mute, freeze, mode1: byMode(0), mode2: byMode(1), mode3: byMode(2),
    engineering: toggleEngineering, help: () => $("help").showModal(),
  });
  for (const [name, text] of SAMPLES) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: name });
    button.onclick = () => {
      $("text").value = text;
      $("text").oninput();
    };
    $("samples").append(button);
  }
  for (const gesture of ["pointerdown", "keydown"]) document.addEventListener(gesture, () => voice.unlock());
}

// ------------------------------------------------------------------ drawing

function refresh() {
  const busy = speaking();
  $("stop").disabled = !busy;
  $("pause").disabled = !busy;
  if (busy) {
    captions.setText(utterance.text);
    captions.show(place(), store.shown.marks.method === "aligned");
  }
  if (!dirty) return;
  dirty = busy;
  if (document.body.classList.contains("plain")) return;
  showTiles(store);
  showEvents(store, $("filter").value);
  showFirstAudio(store);
  showSession(voice.stats(), model);
  plots.update();
}

function draw() {
  runway.draw(store.shown, absolute());
  requestAnimationFrame(draw);
}

function start() {
  document.documentElement.dataset.theme = localStorage.getItem("playhead-theme") ?? "auto";
  if (localStorage.getItem("playhead-plain")) toggleEngineering();
  $("text").value = link.get("text") ?? SAMPLES[3][1];
  bindControls();
  grow();
  voice.connect().catch(notConnected);
  plots.open();
  setInterval(refresh, REFRESH);
  setInterval(() => ($("runway").ariaLabel = Runway.words(store.shown, absolute())), 5000);
  requestAnimationFrame(draw);
}

/** A refusal is told by pill and banner; anything else kept the player from being built. */
function notConnected(error) {
  if (error instanceof VoiceError) return;
  $("problem").textContent = `This browser cannot play here: ${error.message}`;
  $("problem").hidden = false;
}

/** Browsers give worklets and WebCodecs to https and localhost only. */
function explainReduced() {
  if (banners.shown.has("http")) return;
  const reduced = "Reduced playback: this page is not on https or localhost.";
  const why = () => {
    const port = location.port || "80";
    const textContent = `ssh -L ${port}:localhost:${port} ${location.hostname}`;
    const extra = Object.assign(document.createElement("code"), { textContent });
    banners.hide("http");
    banners.show("http", `${reduced} Open it via https, or at http://localhost:${port} through a tunnel:`, { extra });
  };
  $("record").disabled = true;
  banners.show("http", reduced, { action: ["Why?", why] });
}

start();
