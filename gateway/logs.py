"""Log lines that never block the event loop: a queue, a thread, a count of what did not fit.

The event's words come first, then `key=value`; ids and lengths, never text or audio.
"""

from __future__ import annotations

import atexit
import json
import logging
import logging.handlers
import queue
import re
import time
from typing import TextIO

CAPACITY = 10_000  # records that wait for a slow disk or terminal; more are dropped and counted
_FIELD = re.compile(r"(?P<key>[a-z_]\w*)=(?P<value>'[^']*'|\"[^\"]*\"|\S+)")


class TextFormat(logging.Formatter):
    """`12:03:44.123 INFO gateway.session: ended session=s7 code=1000`"""

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
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class DroppingHandler(logging.handlers.QueueHandler):
    """Gives records to a thread that writes them; what does not fit is dropped and counted."""

    def __init__(self, written: logging.Handler) -> None:
        self.dropped = 0
        self._stopped = False
        self._records: queue.Queue[logging.LogRecord] = queue.Queue(CAPACITY)
        super().__init__(self._records)
        self._listener = logging.handlers.QueueListener(self._records, written)
        self._listener.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Never blocks, never raises."""
        try:
            self._records.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def stop(self) -> None:
        """Write what waits and end the thread; harmless the second time."""
        atexit.unregister(self.stop)
        logging.getLogger().removeHandler(self)
        if not self._stopped:
            self._stopped = True
            self._listener.stop()


def configure(form: str, stream: TextIO | None = None) -> DroppingHandler:
    """Send all records of this process to `stream`, standard error by default, until `stop`.

    Args:
        form: "text" or "json".
    """
    written = logging.StreamHandler(stream)
    written.setFormatter(JsonFormat() if form == "json" else TextFormat())
    handler = DroppingHandler(written)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    atexit.register(handler.stop)
    return handler
