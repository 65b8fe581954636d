"""Tokens of any shape are compared, never a fault of the server."""

from gateway import doors


def test_a_token_that_is_no_utf8_is_merely_wrong() -> None:
    sent = b"\xff".decode("utf-8", "surrogateescape")  # as a header arrives

    assert not doors.token_valid(sent, ["right"])
    assert doors.key_of(sent) != doors.key_of("right")
