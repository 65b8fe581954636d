"""Parses what a `voice.v1` client says; input is validated here and trusted inside."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from gateway.protocol import ProtocolError
from gateway.protocol.requests import ID_PATTERN, KINDS, Message, Unknown

_M = TypeVar("_M", bound=Message)


def parse(raw: str) -> Message:
    """Turn one text message into its dataclass; a type of a later version becomes `Unknown`.

    Raises: ProtocolError `invalid_json` or `invalid_message`, naming the field.
    """
    fields = _load(raw)
    kind = fields.get("type")
    reference = fields.get("ref")
    ref = reference if isinstance(reference, str) and len(reference) <= 64 else None
    if not isinstance(kind, str):
        raise ProtocolError(
            "invalid_message", f"`type`: want one of {', '.join(KINDS)}", param="type", ref=ref
        )
    if kind not in KINDS:
        return Unknown(type=kind[:64], ref=ref)
    return _convert(fields, kind, KINDS[kind], ref)


def _convert(fields: dict[str, Any], kind: str, cls: type[_M], ref: str | None) -> _M:
    try:
        return msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        param, problem = _explain(str(error), cls)
        utterance = fields.get("utterance")
        refused = kind == "say" and isinstance(utterance, str) and re.match(ID_PATTERN, utterance)
        raise ProtocolError(
            "invalid_message",
            f"{kind}: `{param}`: {problem}",
            param=param,
            utterance=utterance if refused else None,
            ref=ref,
            kind=kind,
        ) from error


def _explain(error: str, cls: type) -> tuple[str, str]:
    """Split msgspec's message into the field's path and what is wrong with it."""
    problem, _, path = error.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    missing = re.match(r"Object missing required field `(\w+)`", problem)
    if missing:
        return ".".join(filter(None, (path, missing[1]))), "is required"
    choices = get_args(get_type_hints(cls).get(path)) if "enum" in problem else ()
    wanted = f"; want one of {', '.join(map(str, choices))}" if choices else ""
    return path, problem.replace("Expected", "want").replace("Invalid", "invalid") + wanted


def _load(raw: str) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        fields = _load_slowly(raw)
    if not isinstance(fields, dict):
        raise ProtocolError(
            "invalid_json", f"want a JSON object with `type`, got: {type(fields).__name__}"
        )
    return fields


def _load_slowly(raw: str) -> Any:
    """Accept lone surrogates, replaced, and NaN, so that its field can be named."""
    try:
        return _mended(json.loads(raw))
    except RecursionError as error:
        raise ProtocolError("invalid_json", "nested too deeply; want at most 8 levels") from error
    except ValueError as error:
        problem = str(error).partition(";")[0]
        raise ProtocolError("invalid_json", f"want one JSON object: {problem}") from error


def _mended(value: Any) -> Any:
    """Replace lone surrogates, which cannot be encoded, wherever they stand."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_mended(item) for item in value]
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
    return value
