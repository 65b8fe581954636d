"""`voice.v1` as it travels, for servers and clients alike: messages each way, and chunks. Sans-I/O.

`requests` declares what a client may say and `parsing` reads it; `messages` is what a server says.
"""

from __future__ import annotations

PROTOCOL = "voice.v1"


class ProtocolError(Exception):
    """A message cannot be obeyed; says which field and what would be right.

    `code` is one of the protocol's error codes; `utterance` is set if that utterance ends by it.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        utterance: str | None = None,
        ref: str | None = None,
        retry_after: float | None = None,
        kind: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.utterance = utterance
        self.ref = ref
        self.retry_after = retry_after  # s
        self.kind = kind  # type of the message, where parsing failed
