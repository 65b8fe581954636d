"""Log lines that never block the event loop: a queue, a thread, a count of what did not fit.

The event's words come first, then `key=value`; ids and lengths, never text or audio.
"""

from __future__ import annotations

import copy
import json
import logging
import logging.handlers
import queue
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

CAPACITY = 10_000  # records that wait for a slow disk or terminal; more are dropped and counted
FLUSH_SECONDS = 1.0  # s that the end waits for a stream that takes nothing
_TRACEBACK = logging.Formatter()
_FIELD = re.compile(r"(?P<key>[a-z_]\w*)=(?P<value>'[^']*'|\"[^\"]*\"|\S+)")


class TextFormat(logging.Formatter):
    """`12:03:44.123 INFO gateway.voice.session: ended session=s7 code=1000`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S")


class JsonFormat(logging.Formatter):
    """One JSON object a line, the `key=value` pairs of the message as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """RFC 3339 in UTC; the event is what stands before the first pair."""
        message = record.getMessage()
        fields = {match["key"]: match["value"].strip("'\"") for match in _FIELD.finditer(message)}
        first = _FIELD.search(message)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "event": message[: first.start()].strip() if first else message,
            **fields,
        }
        if record.exc_text:
            line["traceback"] = record.exc_text
        return json.dumps(line)


class DroppingHandler(logging.handlers.QueueHandler):
    """Gives records to a writer thread; what the queue cannot hold is dropped and counted."""

    def __init__(self, records: queue.SimpleQueue[logging.LogRecord | None]) -> None:
        super().__init__(records)
        self.dropped = 0
        self._records = records

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Settle what the record says while its arguments still stand."""
        record = copy.copy(record)
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text = _TRACEBACK.formatException(record.exc_info)
            record.exc_info = None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Never blocks, never raises."""
        if self._records.qsize() >= CAPACITY:
            self.dropped += 1
        else:
            self._records.put(record)


@contextmanager
def logging_to(stream: TextIO, *, form: str) -> Iterator[DroppingHandler]:
    """Send this process's records to `stream` while the context lasts, written by a thread.

    Args:
        form: "text" or "json".
    """
    written = logging.StreamHandler(stream)
    written.setFormatter(JsonFormat() if form == "json" else TextFormat())
    records: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
    handler = DroppingHandler(records)
    writer = threading.Thread(
        target=_write, args=(records, written, handler), name="logs", daemon=True
    )
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    writer.start()
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        records.put(None)
        writer.join(FLUSH_SECONDS)


def _write(
    records: queue.SimpleQueue[logging.LogRecord | None],
    written: logging.Handler,
    source: DroppingHandler,
) -> None:
    """Write until told to stop; once there is room again, tell how much is missing."""
    told = 0
    ended = False
    while not ended:
        record = records.get()
        ended = record is None
        if record:
            written.handle(record)
        if records.empty() and source.dropped > told:
            told = source.dropped
            written.handle(_missing(told))


def _missing(lines: int) -> logging.LogRecord:
    fields = {"name": __name__, "levelname": "WARNING", "levelno": logging.WARNING}
    return logging.makeLogRecord({**fields, "msg": "dropped lines=%d", "args": (lines,)})
