"""The small HTTP client reads what servers send, however the reads fall."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.http_stream import HttpError, ResponseBody, error_code

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def read(data: bytes, cuts: list[int]) -> tuple[ResponseBody, bytes]:
    answer = ResponseBody()
    return answer, b"".join([answer.add(piece) for piece in pieces(data, cuts)])


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(0, 400)))
def test_chunked_body_comes_whole_however_it_is_cut(body: list[bytes], cuts: list[int]) -> None:
    coded = b"".join(f"{len(part):X};note=1\r\n".encode() + part + b"\r\n" for part in body)

    answer, found = read(CHUNKED + coded + b"0\r\nTrailer: x\r\n\r\n", cuts)

    assert found == b"".join(body)
    assert answer.whole and answer.reusable


@given(st.binary(max_size=80), st.lists(st.integers(0, 400)))
def test_body_with_a_length_ends_there(body: bytes, cuts: list[int]) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    answer, found = read(head + body, cuts)

    assert found == body
    assert answer.whole and answer.status == 200


def test_body_without_a_length_ends_with_the_connection() -> None:
    answer, found = read(b"HTTP/1.0 200 OK\r\n\r\nabc", [])
    before = answer.whole

    answer.closed()

    assert (found, before, answer.whole, answer.reusable) == (b"abc", False, True, False)


def test_chunked_body_that_breaks_off_is_not_whole() -> None:
    answer, _ = read(CHUNKED + b"5\r\nabc", [])

    answer.closed()

    assert not answer.whole


@pytest.mark.parametrize(
    "data",
    [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", CHUNKED + b"zz\r\n"],
)
def test_what_is_no_http_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(HttpError, match="answer: want"):
        read(data, [])


def test_endless_head_is_refused() -> None:
    with pytest.raises(HttpError, match="65536"):
        read(b"x" * 70_000, [])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error": {"code": "overloaded"}}', "overloaded"),
        (b'{"error": {"code": null}}', "http 503"),
        (b"<html>", "http 503"),
        (b"[]", "http 503"),
    ],
)
def test_error_is_named_by_its_code_or_else_its_status(body: bytes, code: str) -> None:
    assert error_code(503, body) == code
