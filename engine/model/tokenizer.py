"""Text → ids, exactly as the checkpoint was trained: Qwen2's byte-level BPE.

Text is tokenised inside its template and cut out by position, because a leading newline merges with
the template's. Built from vocab.json, merges.txt and tokenizer_config.json, since the released
checkpoints have no tokenizer.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from engine.api import CheckpointError
from engine.model.config import read_json

# Qwen2's pre-tokens. A transformers release swaps in another pattern for local folders, which
# splits mixed-case words as the checkpoint never saw them.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EDGE = re.compile(r"(?<=\S)(?= \S)")  # of two words: no pre-token goes across it
WORDS_KEPT = 16_384
LONGEST_KEPT = 32  # code points of a word: what has no blanks is not kept
ROLE_TOKENS = 3  # <|im_start|> assistant \n
TAIL_TOKENS = 5  # <|im_end|> \n <|im_start|> assistant \n


class TextTokenizer:
    """One checkpoint's tokenizer and text templates."""

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer's files. Raises: CheckpointError naming file and cause."""
        self._tokenizer = _build(folder)
        names = (token.content for token in self._tokenizer.get_added_tokens_decoder().values())
        self._special = re.compile("|".join(re.escape(name) for name in names))
        self._encode_first, self._encode_next = _kept(self._begin), _kept(self._encode)
        opening = self._encode(f"<|im_start|>assistant\nx{_TAIL}")
        self.role = opening[:ROLE_TOKENS]  # opens the assistant's turn
        if len(opening) != ROLE_TOKENS + 1 + TAIL_TOKENS:
            raise CheckpointError(
                f"{folder}: want `assistant` and the special tokens as one token each, "
                f"got: {opening}"
            )

    def body(self, text: str) -> list[int]:
        """Tokenise what is to be spoken, word by word: most were met before."""
        first, *others = EDGE.split(self._plain(text))
        return list(chain(self._encode_first(first), *map(self._encode_next, others)))

    def instruct(self, text: str) -> list[int]:
        """Tokenise style instructions as the user's turn; none for empty text."""
        return self._encode(f"<|im_start|>user\n{self._plain(text)}<|im_end|>\n") if text else []

    def _begin(self, word: str) -> list[int]:
        return self._encode(f"<|im_start|>assistant\n{word}{_TAIL}")[ROLE_TOKENS:-TAIL_TOKENS]

    def _plain(self, text: str) -> str:
        """Take the names of special tokens out: in somebody's text they would close the turn."""
        while self._special.search(text):  # again, for what removing one has joined
            text = self._special.sub("", text)
        return text

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


_TAIL = "<|im_end|>\n<|im_start|>assistant\n"


def _kept(encode: Callable[[str], list[int]]) -> Callable[[str], list[int]]:
    """Remember the ids of words that were encoded lately."""
    known = lru_cache(WORDS_KEPT)(encode)
    return lambda word: known(word) if len(word) <= LONGEST_KEPT else encode(word)


def _build(folder: Path) -> Tokenizer:
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    try:
        tokenizer = Tokenizer(BPE.from_file(str(vocabulary), str(merges)))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(
            f"{vocabulary} with {merges.name}: cannot be read: {error}"
        ) from error
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    _add_tokens(tokenizer, folder / "tokenizer_config.json")
    return tokenizer


def _add_tokens(tokenizer: Tokenizer, path: Path) -> None:
    """Add the special tokens, in id order, so that each gets the id that the file gives it."""
    added = read_json(path).get("added_tokens_decoder")
    if not isinstance(added, dict):
        raise CheckpointError(f"{path}: lacks `added_tokens_decoder`")
    for number, token in sorted((int(number), token) for number, token in added.items()):
        content = token["content"]
        special = AddedToken(
            content,
            lstrip=token.get("lstrip", False),
            rstrip=token.get("rstrip", False),
            single_word=token.get("single_word", False),
            normalized=token.get("normalized", False),
        )
        tokenizer.add_special_tokens([special])
        if tokenizer.token_to_id(content) != number:
            raise CheckpointError(
                f"{path}: `{content}` should be id {number} after the vocabulary, "
                f"got: {tokenizer.token_to_id(content)}"
            )
