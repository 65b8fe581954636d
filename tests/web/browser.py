"""Drives Chromium: a bare page around the SDK, and the demo page as its user sees it."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from tests.web.sounds import sounding

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


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[Browser]:
    """A headless browser; pass `LOUD` unless the test is about the gesture."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, *flags], headless=True
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
        self.errors = PageErrors()
        self.errors.watch(page)

    async def record(self, seconds: float) -> None:
        """Start to record, at most `seconds`."""
        script = f"(seconds) => {{ globalThis.recorder = {self.voice}.record(seconds); }}"
        await self.page.evaluate(script, seconds)

    async def recording(self) -> tuple[int, npt.NDArray[np.float32]]:
        """End the recording: context frame of its first sample, and the samples at 48 kHz."""
        frame, text = await self.page.evaluate(
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
    """The SDK in an empty page; everything it emits is kept in `events`."""

    async def open(self, url: str, **options: Any) -> dict[str, Any]:
        """Connect a `VoiceClient` with `options`; returns the server's hello."""
        await self.page.goto(f"{url}/bare")
        return await self.page.evaluate(
            """async (options) => {
                const { VoiceClient } = await import("/client.js");
                const voice = new VoiceClient({ url: "/v1/voice", ...options });
                const events = [];
                const names = ["state", "started", "chunk", "play", "stopped", "finished", "error",
                               "warning", "marks", "report", "audio", "heard"];
                for (const name of names) {
                    voice.on(name, (event) => events.push({ name, wall: Date.now(), ...event }));
                }
                Object.assign(window, { voice, events, said: {} });
                return voice.connect();
            }""",
            options,
        )

    async def speak(self, text: str = "Hello there", **options: Any) -> str:
        """Say `text`; returns the utterance's id."""
        return await self.page.evaluate(
            """([text, options]) => {
                const utterance = voice.speak(text, options);
                said[utterance.id] = utterance;
                return utterance.id;
            }""",
            [text, options],
        )

    async def finished(self, utterance: str, *, within: float = 20.0) -> dict[str, Any]:
        """What `Utterance.finished` resolves with."""
        return await asyncio.wait_for(
            self.page.evaluate("(id) => said[id].finished", utterance), within
        )

    async def heard(self, seconds: float) -> npt.NDArray[np.float32]:
        """Say one utterance to its end; what was rendered, silence around it removed."""
        await self.record(seconds + 3)
        utterance = await self.speak()
        assert (await self.finished(utterance))["reason"] == "complete"
        return sounding((await self.recording())[1])

    async def interrupt(self) -> list[dict[str, Any]]:
        """Stop everything; the results of what was stopped."""
        return await self.page.evaluate("() => voice.interrupt()")

    async def events(self, name: str) -> list[dict[str, Any]]:
        """What the SDK has emitted so far under `name`."""
        return await self.page.evaluate("(name) => events.filter((e) => e.name === name)", name)

    async def wait_event(self, name: str, *, within: float = 10.0, **fields: Any) -> dict[str, Any]:
        """The first event of this name whose fields equal `fields`."""
        limit = time.monotonic() + within
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
        await self.until("#connection", "Connected")

    async def until(self, selector: str, text: str, *, within: float = 15.0) -> None:
        """Wait until the element contains `text`; polls, because the CSP forbids `eval`."""
        limit = time.monotonic() + within
        while text not in (shown := await self.text(selector)):
            if time.monotonic() > limit:
                raise TimeoutError(f"{selector}: waited for {text!r}, shows: {shown!r}")
            await asyncio.sleep(0.03)

    async def text(self, selector: str) -> str:
        """What an element says."""
        return (await self.page.locator(selector).inner_text()).strip()

    async def type(self, text: str) -> None:
        """Put `text` into the box."""
        await self.page.fill("#text", text)

    async def speak(self) -> None:
        """Press Speak."""
        await self.page.click("#speak")

    async def stop(self) -> None:
        """Press Stop."""
        await self.page.click("#stop")

    async def state(self) -> str:
        """The state in words."""
        return await self.text("#state")

    async def captions(self, kind: str) -> str:
        """The caption words that are `heard`, `current`, `future` or `unheard`."""
        words = await self.page.locator(f"#captions .{kind}").all_inner_texts()
        return "".join(words)

    async def tile(self, name: str) -> str:
        """The digits of a tile: first-audio, buffer, slack, underruns, jitter, device."""
        return await self.text(f"#tile-{name}")
