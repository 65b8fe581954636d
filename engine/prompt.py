"""Voice, language, instructions and text → the ids of the Talker's prompt rows. Pure.

A row is a text embedding, plus a code embedding from the header on. The header names language and
speaker on the code side; the body follows in one of two layouts: `whole`, all text before the first
frame, or streaming, one text token with each frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.config import CheckpointConfig, TalkerConfig
from engine.segment import END_OF_TEXT, PADDING, Segment

AUTO = "auto"  # let the model tell the language from the text
DIALECT_LANGUAGES = (AUTO, "chinese")  # in these a dialect speaker speaks the dialect


@dataclass(frozen=True, slots=True)
class Prompt:
    """Ids of every row; codes join the last `len(codes)` rows."""

    text: Sequence[int]
    codes: Sequence[int]

    def __len__(self) -> int:
        return len(self.text)


def languages(config: TalkerConfig) -> tuple[str, ...]:
    """List the languages a caller may name; dialects come with their speakers."""
    return tuple(name for name in config.codec_language_id if "dialect" not in name)


def header(config: TalkerConfig, voice: str, language: str) -> list[int]:
    """Build the code side of the header: how to think about language, who speaks, padding.

    Args:
        voice: a lower-case key of `spk_id`.
        language: lower-case, "auto" or one of `languages`.
    """
    spoken = config.codec_language_id.get(language)
    if language in DIALECT_LANGUAGES and voice in config.spk_is_dialect:
        spoken = config.codec_language_id[config.spk_is_dialect[voice]]
    if spoken is None:
        think = [config.codec_nothink_id, config.codec_think_bos_id, config.codec_think_eos_id]
    else:
        think = [
            config.codec_think_id,
            config.codec_think_bos_id,
            spoken,
            config.codec_think_eos_id,
        ]
    return [*think, config.spk_id[voice], config.codec_pad_id]


def assemble(
    config: CheckpointConfig,
    *,
    instructions: Sequence[int],
    role: Sequence[int],
    header: Sequence[int],
    body: Sequence[int],
    whole: bool,
) -> Prompt:
    """Lay out the rows of one prompt.

    Args:
        instructions: text ids, none for no instructions.
        role: the three text ids that open the assistant's turn.
        header: code ids, from `header`.
        body: text ids; the streaming layout uses only the first.
    """
    talker, pad = config.talker, config.tts_pad_token_id
    text = [*instructions, *role, *[pad] * (len(header) - 1), config.tts_bos_token_id]
    if whole:
        text += [*body, config.tts_eos_token_id, pad]
        codes = [*header, *[talker.codec_pad_id] * (len(body) + 1), talker.codec_bos_id]
    else:
        text.append(body[0])
        codes = [*header, talker.codec_bos_id]
    return Prompt(text, codes)


def step_text(config: CheckpointConfig, segment: Segment, step: int) -> int:
    """Return the text id that joins the input of frame `step`, which is at least 1."""
    fed = segment.feed(step - 1)
    if fed == PADDING:
        return config.tts_pad_token_id
    if fed == END_OF_TEXT:
        assert segment.closed, "starved segment: end of text would be fed before its text"
        return config.tts_eos_token_id
    return fed
