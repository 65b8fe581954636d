"""The Talker and the Code Predictor as steps over device memory, ready to be captured.

Nothing here looks at a value: slots, positions and options come from the rows' words, results stay
on the device. `engine.stages.talker` and `engine.stages.predictor` are the reference.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.graphs import Shape
from engine.kernels.decoder import AttendFused, FusedDecoder
from engine.kernels.embed import begin_frame, embed_frames
from engine.kernels.predictor_attention import frame_attention
from engine.kernels.prompt_attention import LONGEST, prompt_attention
from engine.kernels.prompt_heads import prompt_heads
from engine.kernels.sampler import FirstCode, draw_first, draw_next
from engine.kernels.step_attention import step_attention
from engine.kernels.step_cut import cut_for, step_scratch
from engine.kernels.tile_table import STORE, tile_for
from engine.kernels.tiles import product
from engine.model.attention import KeyValueCache
from engine.model.layers import Decoder, Layer
from engine.model.predictor import Predictor
from engine.model.rows import LENGTH, WIDTH
from engine.model.talker import Talker
from engine.stages.state import SlotState


class TalkerSteps:
    """Prefill and decode; buffers are made per shape, while it is captured."""

    def __init__(self, talker: Talker, state: SlotState, *, tiled: bool = True) -> None:
        self._talker = talker
        self._state = state
        self._tiled = tiled
        self._config = talker.config

    def step(self, inputs: Tensor, flags: Tensor, shape: Shape) -> None:
        """Advance each row by one token and draw code 0 of its next frame."""
        config, talker, state = self._config, self._talker, self._state
        rows = inputs.view(shape.rows, WIDTH)
        fused = FusedDecoder(talker.decoder, shape.rows, tiled=self._tiled)
        scratch = step_scratch(
            shape.rows,
            cut_for(shape.rows, config.num_key_value_heads),
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            device=inputs.device,
        )
        embed_frames(
            rows,
            state.codes,
            talker.code_table,
            talker.text_table,
            fused.x,
            first=config.vocab_size,
            others=config.codes,
        )

        def attend(index: int, layer: Layer, qkv: Tensor, out: Tensor) -> None:
            keys, values = state.cache.keys[index], state.cache.values[index]
            step_attention(
                qkv, layer.qk_norm, talker.decoder.rope, keys, values, rows, out, scratch,
                eps=config.rms_norm_eps,
            )  # fmt: skip

        fused.layers(attend)
        self._draw(fused.finish(fused.x), rows, flags)

    def prefill(self, inputs: Tensor, flags: Tensor, shape: Shape) -> None:
        """Run padded prompts into their slots and draw code 0 of their first frames."""
        talker, state = self._talker, self._state
        rows, text, codes = _prompt_inputs(inputs, shape)
        count = shape.rows * shape.tokens
        fused = FusedDecoder(talker.decoder, count, tiled=self._tiled)
        coded = (codes >= 0)[:, None]
        spoken = F.embedding(codes.clamp(min=0), talker.code_table).masked_fill(~coded, 0)
        fused.x.copy_(F.embedding(text, talker.text_table) + spoken)
        # A whole prompt in registers: fp32 ones fit only where heads are narrow.
        fits = fused.x.element_size() * self._config.head_dim <= 256 and shape.tokens <= LONGEST
        attend = self._short_prompts if fits else self._long_prompts
        fused.layers(attend(rows, shape))
        last = torch.arange(shape.rows, device=inputs.device) * shape.tokens + rows[:, LENGTH] - 1
        state.seen.index_fill_(0, rows[:, 0].long(), False)
        self._draw(fused.finish(fused.x[last]), rows, flags)

    def _short_prompts(self, rows: Tensor, shape: Shape) -> AttendFused:
        def attend(index: int, layer: Layer, qkv: Tensor, out: Tensor) -> None:
            keys, values = self._state.cache.keys[index], self._state.cache.values[index]
            prompt_attention(
                qkv, layer.qk_norm, self._talker.decoder.rope, keys, values, rows, out,
                length=shape.tokens, eps=self._config.rms_norm_eps,
            )  # fmt: skip

        return attend

    def _long_prompts(self, rows: Tensor, shape: Shape) -> AttendFused:
        config, like = self._config, self._talker.like
        keys_like = (shape.rows, config.num_key_value_heads, shape.tokens, config.head_dim)
        key, value = like.new_empty(keys_like), like.new_empty(keys_like)
        query = like.new_empty(
            shape.rows, config.num_attention_heads, shape.tokens, config.head_dim
        )

        def attend(index: int, layer: Layer, qkv: Tensor, out: Tensor) -> None:
            keys, values = self._state.cache.keys[index], self._state.cache.values[index]
            prompt_heads(
                qkv, layer.qk_norm, self._talker.decoder.rope, keys, values, rows,
                (query, key, value), eps=config.rms_norm_eps,
            )  # fmt: skip
            mixed = F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=True
            )
            out.view(shape.rows, shape.tokens, -1).copy_(mixed.transpose(1, 2).flatten(2))

        return attend

    def _draw(self, hidden: Tensor, rows: Tensor, flags: Tensor) -> None:
        config, state, head = self._config, self._state, self._talker.head
        logits = hidden.new_empty(hidden.shape[0], config.vocab_size)
        shape = (config.vocab_size, config.hidden_size, STORE)
        tile = tile_for(shape, hidden.shape[0], hidden.dtype) if self._tiled else None
        product(tile, hidden, head, logits)
        first = FirstCode(state.seen, state.hidden, flags, config.codes, config.codec_eos_token_id)
        draw_first(logits, hidden, rows, state.codes, first)


class PredictorSteps:
    """One whole frame: fifteen passes, fifteen draws."""

    def __init__(self, predictor: Predictor, state: SlotState, *, tiled: bool = True) -> None:
        self._predictor = predictor
        self._state = state
        self._tiled = tiled

    def frame(self, inputs: Tensor, flags: Tensor, shape: Shape) -> None:
        """Complete the frame whose code 0 was drawn last."""
        predictor, state, count = self._predictor, self._state, shape.rows
        decoder, groups = predictor.decoder, len(predictor.heads) + 1
        rows = inputs.view(count, WIDTH)
        cache = _frame_cache(decoder, count, groups)
        pair = FusedDecoder(decoder, 2 * count, tiled=self._tiled)
        single = FusedDecoder(decoder, count, tiled=self._tiled)
        states = state.hidden.new_empty(count, state.hidden.shape[1])
        begin_frame(
            rows, state.codes, state.hidden, predictor.tables[0], states=states, pairs=pair.x
        )
        pair.x[0::2].copy_(predictor.projection(states))
        logits = states.new_empty(count, decoder.config.vocab_size)
        for group in range(1, groups):
            fused = pair if group == 1 else single

            def attend(
                index: int, layer: Layer, qkv: Tensor, out: Tensor, position: int = group
            ) -> None:
                frame_attention(
                    qkv, layer.qk_norm, decoder.rope, cache.keys[index], cache.values[index], out,
                    position=position, eps=decoder.config.rms_norm_eps,
                )  # fmt: skip

            fused.layers(attend)
            last = fused.x[1::2] if fused is pair else fused.x
            fused.head(last, predictor.heads[group - 1], logits)
            table = predictor.tables[group] if group < groups - 1 else None
            draw_next(logits, rows, state.codes, group, table=table, out=single.x)


def _frame_cache(decoder: Decoder, rows: int, positions: int) -> KeyValueCache:
    """Allocate without zeroing: only what the frame itself wrote is read."""
    config = decoder.config
    each = (rows, config.num_key_value_heads, positions, config.head_dim)
    shape = (config.num_hidden_layers, *each)
    return KeyValueCache(decoder.norm.new_empty(shape), decoder.norm.new_empty(shape))


def _prompt_inputs(inputs: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Take the buffer apart: rows (rows, 16), text and code ids (rows * tokens,); -1: none."""
    rows = inputs[: shape.rows * WIDTH].view(shape.rows, WIDTH)
    text, codes = inputs[shape.rows * WIDTH :].view(2, -1).long()
    return rows, text, codes
