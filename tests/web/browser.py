"""Drives Chromium: a bare page around the SDK, and the demo page as its user sees it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from tests.web.fake_gateway import LIMIT

CHROMIUM = os.environ.get("PLAYHEAD_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
LOUD = "--autoplay-policy=no-user-gesture-required"
RECORDED = 120.0  # s that a recording may last: it begins before anything is asked for


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[Browser]:
    """A headless browser; pass `LOUD` unless the test is about the gesture."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[*FLAGS, *flags],
            headless=True,
            timeout=1000 * LIMIT,
        )
        try:
            yield browser
        finally:
            await browser.close()


class PageErrors(list[str]):
    """What a page threw or complained about; a test expects it to stay empty."""

    def watch(self, page: Page) -> None:
        """Collect uncaught exceptions and console errors."""
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", self._note)

    def _note(self, entry: ConsoleMessage) -> None:
        if entry.type == "error":
            self.append(entry.text)


class _Recorded:
    """A page with a `VoiceClient` whose sound can be recorded inside the worklet."""

    voice = "voice"  # where the page keeps it

    def __init__(self, page: Page) -> None:
        self.page = page
        self.page.set_default_timeout(1000 * LIMIT)
        self.errors = PageErrors()
        self.errors.watch(page)

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        """What the function `script` gives, or what its promise resolves with."""
        return await asyncio.wait_for(self.page.evaluate(script, argument), LIMIT)

    async def holds(self, condition: str) -> None:
        """Wait until the JavaScript expression `condition` holds in the page."""
        limit = time.monotonic() + LIMIT
        while not await self.evaluate(f"() => Boolean({condition})"):
            if time.monotonic() > limit:
                raise TimeoutError(f"never came true: {condition}")
            await asyncio.sleep(0.02)

    async def passes(self, seconds: float) -> None:
        """Wait until `seconds` more were rendered, by the audio clock."""
        clock = f"{self.voice}.audio.context.currentTime"
        await self.holds(f"{clock} >= {await self.evaluate(f'() => {clock}') + seconds}")

    async def record(self, seconds: float = RECORDED) -> None:
        """Start to record, at most `seconds`."""
        script = f"(seconds) => {{ globalThis.recorder = {self.voice}.record(seconds); }}"
        await self.evaluate(script, seconds)

    async def recording(self) -> tuple[int, npt.NDArray[np.float32]]:
        """End the recording: context frame of its first sample, and the samples at 48 kHz."""
        frame, text = await self.evaluate(
            """async () => {
                const { frame, samples } = await recorder.take();
                const bytes = new Uint8Array(samples.buffer);
                let text = "";
                for (let at = 0; at < bytes.length; at += 32768) {
                    text += String.fromCharCode(...bytes.subarray(at, at + 32768));
                }
                return [frame, btoa(text)];
            }"""
        )
        return frame, np.frombuffer(base64.b64decode(text), np.float32)


class Player(_Recorded):
    """The SDK in an empty page; everything it emits is kept in `events`, clock readings as well."""

    async def open(self, url: str, **options: Any) -> dict[str, Any]:
        """Connect a `VoiceClient` with `options`; returns the server's hello."""
        await self.page.goto(f"{url}/bare")
        return await self.evaluate(
            """async (options) => {
                const { VoiceClient } = await import("/client.js");
                const voice = new VoiceClient({ url: "/v1/voice", ...options });
                const [events, readings] = [[], []];
                const names = ["state", "started", "chunk", "play", "stopped", "finished", "error",
                               "warning", "marks", "report", "audio", "heard", "done"];
                for (const name of names) {
                    voice.on(name, (event) => {
                        const clock = voice.audio.context.currentTime;
                        events.push({ name, clock, ...event });
                    });
                }
                const post = voice.post.bind(voice);
                voice.post = (message, transfer) => {
                    if (message.t === "clock") readings.push(message.reading);
                    post(message, transfer);
                };
                Object.assign(window, { voice, events, readings, said: {} });
                return voice.connect();
            }""",
            options,
        )

    async def speak(self, text: str = "Hello there", **options: Any) -> str:
        """Say `text`; returns the utterance's id."""
        return await self.evaluate(
            """([text, options]) => {
                const utterance = voice.speak(text, options);
                said[utterance.id] = utterance;
                return utterance.id;
            }""",
            [text, options],
        )

    async def speak_stocked(self) -> str:
        """Say something of at most 4 s that sounds once all of it lies in the player.

        It comes, is decoded and is queued chunk by chunk as always, and no machine is so slow that
        it stalls.
        """
        await self.evaluate("() => voice.pause()")
        utterance = await self.speak()
        whole = (await self.wait_event("done", id=utterance))["audio_ms"]
        await self.holds(
            "events.some(({ name, id, decoded_ms: decoded }) =>"
            f" name === 'report' && id === '{utterance}' && decoded > {whole} - 0.1)"
        )
        await self.evaluate("() => voice.resume()")
        return utterance

    async def at_start(self, action: str) -> None:
        """Run `action` in the page whenever an utterance starts, with no round trip in between."""
        await self.evaluate(
            f"() => {{ voice.on('play', ({{ event }}) => event === 'start' && {action}); }}"
        )

    async def finished(self, utterance: str) -> dict[str, Any]:
        """What `Utterance.finished` resolves with."""
        return await self.evaluate("(id) => said[id].finished", utterance)

    async def interrupt(self, *, after_ms: float) -> list[dict[str, Any]]:
        """Stop everything once `after_ms` were rendered; the results of what was stopped."""
        return await self.evaluate(
            """(least) => new Promise((resolve) => {
                const off = voice.on("report", ({ rendered_ms: rendered }) => {
                    if (rendered < least) return;
                    off();
                    resolve(voice.interrupt());
                });
            })""",
            after_ms,
        )

    async def events(self, name: str) -> list[dict[str, Any]]:
        """What the SDK has emitted so far under `name`, with `clock`, the context's time, s."""
        return await self.evaluate("(name) => events.filter((e) => e.name === name)", name)

    async def wait_event(self, name: str, **fields: Any) -> dict[str, Any]:
        """The first event of this name whose fields equal `fields`."""
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit:
            for event in await self.events(name):
                if all(event.get(key) == value for key, value in fields.items()):
                    return event
            await asyncio.sleep(0.02)
        raise TimeoutError(f"no event {name} {fields}: {await self.events(name)}")


class DemoPage(_Recorded):
    """The page at `/`, through the eyes and hands of its user."""

    voice = "playhead.voice"

    async def open(self, url: str, query: str = "") -> None:
        """Load the page and wait until it is connected."""
        await self.page.goto(f"{url}/{query}")
        await self.evaluate(
            """() => {
                globalThis.states = [];
                const state = document.getElementById("state");
                const note = () => states.push(state.textContent);
                new MutationObserver(note).observe(state, { childList: true });
            }"""
        )
        await self.until("#connection", "Connected")

    async def until(self, selector: str, text: str) -> None:
        """Wait until the element contains `text`; polls, because the CSP forbids `eval`."""
        limit = time.monotonic() + LIMIT
        while text not in (shown := await self.text(selector)):
            if time.monotonic() > limit:
                raise TimeoutError(f"{selector}: waited for {text!r}, shows: {shown!r}")
            await asyncio.sleep(0.03)

    async def passed(self, state: str) -> None:
        """Wait until the page has shown `state` since Speak was pressed, be it for a moment."""
        await self.holds(f"states.some((shown) => shown.includes({json.dumps(state)}))")

    async def drawn(self) -> None:
        """Wait until tiles, tables and plots show what the page knows by now.

        It refreshes them every 100 ms, and its timers fire in the order in which they are due.
        """
        await self.evaluate("() => new Promise((done) => setTimeout(done, 250))")

    async def text(self, selector: str) -> str:
        """What an element says."""
        return (await self.page.locator(selector).inner_text()).strip()

    async def type(self, text: str) -> None:
        """Put `text` into the box."""
        await self.page.fill("#text", text)

    async def speak(self) -> None:
        """Press Speak."""
        await self.evaluate("() => { states.length = 0; }")
        await self.page.click("#speak")

    async def stop(self) -> None:
        """Press Stop."""
        await self.page.click("#stop")

    async def captions(self, kind: str) -> str:
        """The caption words that are `heard`, `current`, `future` or `unheard`."""
        words = await self.page.locator(f"#captions .{kind}").all_inner_texts()
        return "".join(words)

    async def tile(self, name: str) -> str:
        """The digits of a tile: first-audio, buffer, slack, underruns, jitter, device."""
        return await self.text(f"#tile-{name}")
