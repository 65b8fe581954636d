"""Log lines: one each, never in the way."""

import io
import json
import logging
import threading

import pytest

from gateway import logs
from tests.waiting import LIMIT


@pytest.mark.parametrize("form", ["text", "json"])
def test_each_record_is_one_line(form):
    stream = io.StringIO()
    with logs.logging_to(stream, form=form):
        logging.getLogger("gateway.x").info("ended session=%s code=%d who=%r", "s7", 1000, "a b")

    (line,) = stream.getvalue().splitlines()
    assert "gateway.x" in line
    if form == "json":
        fields = json.loads(line)
        assert fields["event"] == "ended"
        assert (fields["session"], fields["code"], fields["who"]) == ("s7", "1000", "a b")
    else:
        assert "ended session=s7 code=1000" in line


def test_json_line_holds_the_traceback_and_odd_letters():
    stream = io.StringIO()
    with logs.logging_to(stream, form="json"):
        try:
            raise ValueError("\ud83d")
        except ValueError:
            logging.getLogger("gateway.x").exception("broke")

    (line,) = stream.getvalue().splitlines()
    assert "ValueError" in json.loads(line)["traceback"] + json.loads(line)["event"]
    line.encode()


def test_stuck_stream_drops_lines_and_counts_them(monkeypatch):
    monkeypatch.setattr(logs, "CAPACITY", 5)
    stuck, open_again = threading.Event(), threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            stuck.set()
            open_again.wait(LIMIT)
            return super().write(text)

    stream = Stuck()
    with logs.logging_to(stream, form="text") as handler:
        logging.getLogger("gateway.x").info("first")
        stuck.wait(LIMIT)
        for _ in range(9):
            logging.getLogger("gateway.x").info("more")
        dropped = handler.dropped
        open_again.set()

    assert dropped == 4
    assert "dropped lines=4" in stream.getvalue()


def test_logging_is_as_before_afterwards():
    root = logging.getLogger()
    before = (root.level, list(root.handlers))

    with logs.logging_to(io.StringIO(), form="text"):
        pass

    assert (root.level, list(root.handlers)) == before
