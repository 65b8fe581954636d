"""The demo page in a real browser against a scripted gateway: what its user sees and does."""

from __future__ import annotations

import asyncio
import struct
import wave
from typing import Any

import pytest
from playwright.async_api import Browser, CDPSession

from tests.web.browser import DemoPage
from tests.web.fake_gateway import LIMIT, WHOLE, FakeGateway, Script
from tests.web.sounds import tone

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TEXT = "One two three four five. Six seven eight nine ten. Eleven twelve, the end."
LONG = 20.0  # s of sound that no test hears to its end


async def test_spoken_text_is_shown_as_heard(demo: DemoPage, gateway: FakeGateway) -> None:
    gateway.script = Script(pcm=tone(1.0), ladder=WHOLE)
    await demo.open(gateway.url)
    await demo.type(TEXT)

    await demo.speak()
    await demo.passed("Speaking")
    await demo.until("#state", "Done")
    await demo.drawn()

    assert (await demo.captions("heard")).replace(" ", "") == TEXT.replace(" ", "")
    assert int(await demo.tile("first-audio")) > 0
    assert await demo.tile("underruns") == "0"
    assert gateway.received("say")[0]["voice"] == "ada"


async def test_stop_strikes_out_what_was_not_heard(demo: DemoPage, gateway: FakeGateway) -> None:
    gateway.script = Script(seconds=LONG)
    await demo.open(gateway.url)
    await demo.type(TEXT)
    await demo.speak()
    await demo.holds("playhead.store.shown.heard > 800")

    await demo.page.keyboard.press("Escape")
    await demo.until("#state", "Stopped, heard")
    await demo.drawn()

    heard, unheard = await demo.captions("heard"), await demo.captions("unheard")
    assert heard.startswith("One") and unheard.endswith("end.")
    assert await demo.captions("current") == ""
    assert await demo.tile("buffer") == "–"
    assert await demo.page.locator("#stop").is_disabled()
    assert gateway.received("cancel")[0]["reason"] == "user"


async def test_speaking_again_replaces_what_is_said(demo: DemoPage, gateway: FakeGateway) -> None:
    gateway.script = Script(seconds=LONG)
    await demo.open(gateway.url)
    await demo.type("The first text.")
    await demo.speak()
    await demo.passed("Speaking")

    gateway.script = Script(seconds=0.5)
    await demo.type("Another one.")
    await demo.page.keyboard.press("Control+Enter")
    await demo.until("#state", "Done")

    assert [say.get("mode") for say in gateway.received("say")] == ["queue", "replace"]
    assert "Another" in await demo.text("#captions")


async def test_words_are_streamed_and_typed_text_goes_out_by_word(
    demo: DemoPage, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=0.5)
    await demo.open(gateway.url)
    await demo.page.keyboard.press("Alt+3")
    await demo.page.locator("#words").fill("60")
    await demo.type("Streamed word by word.")
    await demo.speak()
    await demo.until("#state", "Done")
    streamed = [message["text"] for message in gateway.received("text")]

    await demo.page.keyboard.press("Alt+2")
    await demo.type("")
    await demo.page.locator("#text").press_sequentially("Typed he", delay=10)
    await demo.until("#committed", "Typed")
    await demo.page.locator("#text").press_sequentially("re.", delay=10)
    await demo.speak()
    await demo.until("#state", "Done")

    assert streamed == ["Streamed ", "word ", "by ", "word.", ""]
    assert gateway.spoken["u2"].text == "Typed here."


async def test_pause_holds_and_resume_goes_on(demo: DemoPage, gateway: FakeGateway) -> None:
    rest = asyncio.Event()  # it cannot end before it is paused
    gateway.script = Script(seconds=2.0, ladder=(50,), gates={2: rest})
    await demo.open(gateway.url)
    await demo.type(TEXT)
    await demo.speak()
    await demo.passed("Speaking")

    await demo.page.keyboard.press("Alt+Space")
    await demo.until("#state", "Paused")
    rest.set()
    await gateway.receives("ack", lambda ack: ack["seq"] == 2 and ack["state"] == "paused")
    await demo.page.click("#pause")
    await demo.until("#state", "Done")

    assert await demo.text("#pause") == "Pause"


async def test_a_recording_is_offered_only_when_asked_for(
    demo: DemoPage, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=0.4)
    await demo.open(gateway.url)
    await demo.type(TEXT)
    await demo.speak()
    await demo.until("#state", "Done")
    offered = await demo.page.is_visible("#download")

    await demo.page.check("#record")
    await demo.speak()
    await demo.until("#actions", "Download WAV")
    async with demo.page.expect_download() as download:
        await demo.page.click("#download")
    with wave.open(str(await (await download.value).path())) as sound:
        samples = sound.readframes(sound.getnframes())
        rate = sound.getframerate()

    assert not offered
    assert rate == 48_000
    assert sum(sample != (0,) for sample in struct.iter_unpack("<h", samples)) > 0.3 * rate


async def test_a_lost_connection_is_told_and_comes_back(
    demo: DemoPage, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=3.0, cut_after=2)
    await demo.open(gateway.url)
    await demo.type(TEXT)

    await demo.speak()
    await demo.until("#state", "Cut off, heard")
    await demo.until("#events", "reconnecting")
    await demo.until("#connection", "Connected")

    assert await demo.page.locator(".banner").count() == 0


async def test_a_missing_token_is_asked_for_and_used(demo: DemoPage, gateway: FakeGateway) -> None:
    gateway.refuse = 4401
    await demo.page.goto(gateway.url)
    await demo.until("#connection", "Refused")

    gateway.refuse = None
    await demo.page.get_by_label("Access token").fill("secret-1")
    await demo.page.get_by_role("button", name="Connect").click()
    await demo.until("#connection", "Connected")

    assert gateway.received("hello")[-1]["token"] == "secret-1"


async def test_a_failed_utterance_is_told_under_the_captions(
    demo: DemoPage, gateway: FakeGateway
) -> None:
    gateway.script = Script(seconds=2.0, fail_after=1)
    await demo.open(gateway.url)
    await demo.type(TEXT)

    await demo.speak()
    await demo.until("#state", "Failed")

    assert "generation_failed" in await demo.text("#problem")
    assert await demo.text("#connection") != "Refused"


async def test_a_stall_is_shown_in_words_and_numbers(demo: DemoPage, gateway: FakeGateway) -> None:
    rest = asyncio.Event()
    gateway.script = Script(pcm=tone(1.6), ladder=(40, 1000), gates={1: rest})
    await demo.open(gateway.url)
    await demo.type(TEXT)

    await demo.speak()
    await demo.until("#state", "Waiting for audio…")
    await demo.holds("document.querySelector('#captions .current') !== null")
    current = await demo.captions("current")
    await gateway.receives("ack", lambda ack: ack["stalled_ms"] >= 200)
    rest.set()
    await demo.until("#state", "Done")
    await demo.drawn()

    assert current in TEXT and 1 <= len(current.split()) <= 4
    assert await demo.tile("underruns") == "1"
    assert int(await demo.tile("slack")) < 0
    assert "1 stall" in await demo.text("#plot-buffer-summary")


@pytest.mark.parametrize("width", [390, 720, 1440])
async def test_nothing_overflows_sideways(demo: DemoPage, gateway: FakeGateway, width: int) -> None:
    await demo.page.set_viewport_size({"width": width, "height": 900})
    await demo.open(gateway.url)

    overflow = await demo.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")

    assert overflow <= 0


async def test_every_control_has_a_name(demo: DemoPage, gateway: FakeGateway) -> None:
    await demo.open(gateway.url)

    nameless = await demo.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, [role=img]")]
            .filter((e) => !e.ariaLabel && !e.labels?.length && !e.textContent.trim())
            .map((e) => e.outerHTML)"""
    )

    assert nameless == []


async def test_plain_http_plays_and_says_what_is_needed(
    strict_browser: Browser, gateway: FakeGateway
) -> None:
    page = await strict_browser.new_page()
    demo = DemoPage(page)
    gateway.script = Script(seconds=1.0)

    await demo.open(gateway.url.replace("localhost", "lan.test"))
    await demo.until("#banners", "not on https or localhost")
    await page.get_by_role("button", name="Why?").click()
    await demo.type(TEXT)
    await demo.speak()
    await demo.until("#state", "Done")

    assert "ssh -L" in await demo.text("#banners")
    acks = await gateway.receives("ack", lambda ack: ack["state"] == "ended")
    assert acks[0]["sink"] == "scheduled"
    assert demo.errors == []
    await page.close()


async def test_without_a_gesture_sound_waits_for_one_click(
    strict_browser: Browser, gateway: FakeGateway
) -> None:
    page = await strict_browser.new_page()
    page.set_default_timeout(1000 * LIMIT)
    session = await page.context.new_cdp_session(page)
    gateway.script = Script(seconds=1.0)
    await page.goto(gateway.url)
    await until(session, "playhead.voice.state === 'connected'")

    # Playwright's own `evaluate` counts as a gesture; the raw protocol does not.
    await evaluate(session, "document.getElementById('speak').click()")
    await until(session, "document.querySelector('.banner') !== null")
    await gateway.receives("ack", lambda ack: True)
    waiting = [ack["state"] for ack in gateway.received("ack")]
    spot = await evaluate(
        session,
        "(() => { const r = document.querySelector('.banner button').getBoundingClientRect();"
        " return [r.x + r.width / 2, r.y + r.height / 2]; })()",
    )
    await page.mouse.click(*spot)
    await until(session, "document.getElementById('state').textContent === 'Done'")

    assert set(waiting) == {"waiting"}
    (ended,) = await gateway.receives("ack", lambda ack: ack["state"] == "ended")
    assert ended["played_ms"] == pytest.approx(1000, abs=0.2)
    await page.close()


async def evaluate(session: CDPSession, expression: str) -> Any:
    """The value of `expression` in the page, without any user gesture."""
    answer = await session.send(
        "Runtime.evaluate",
        {"expression": expression, "returnByValue": True, "userGesture": False},
    )
    return answer["result"].get("value")


async def until(session: CDPSession, condition: str) -> None:
    """Wait until `condition` holds in the page."""
    async with asyncio.timeout(LIMIT):
        while not await evaluate(session, condition):  # noqa: ASYNC110 - a page has no event for us
            await asyncio.sleep(0.05)
