"""One browser for all tests that drive it, and a fresh fake gateway and page for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.web.browser import CHROMIUM, LOUD, DemoPage, Player, chromium
from tests.web.fake_gateway import FakeGateway, serving


def require_chromium() -> None:
    """Skip where there is no browser."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no chromium at {CHROMIUM}; set PLAYHEAD_CHROMIUM")


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium that may play without a gesture."""
    require_chromium()
    async with chromium(LOUD) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def strict_browser() -> AsyncIterator[Browser]:
    """Chromium as users have it: sound needs a gesture, and `lan.test` is a plain-http host."""
    require_chromium()
    async with chromium("--host-resolver-rules=MAP lan.test 127.0.0.1") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def gateway() -> AsyncIterator[FakeGateway]:
    """A scripted server of its own."""
    async with serving() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def player(browser: Browser) -> AsyncIterator[Player]:
    """The SDK in an empty page; a page that complained fails the test."""
    page = await browser.new_page()
    subject = Player(page)
    yield subject
    await page.close()
    assert subject.errors == []


@pytest_asyncio.fixture(loop_scope="session")
async def demo(browser: Browser) -> AsyncIterator[DemoPage]:
    """The demo page on a desktop; a page that complained fails the test."""
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    subject = DemoPage(page)
    yield subject
    await page.close()
    assert subject.errors == []
