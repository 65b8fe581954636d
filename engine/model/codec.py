"""The codec's decoder: 16 codes a frame → 1,920 samples, whole or in chunks with the same result.

The network is strictly causal, so a chunk needs only what earlier chunks left in `CodecState`;
nothing is decoded twice and no context is cut off. This is the plain form that faster kernels are
compared with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.codec_layers import KERNEL, Block, ConvNext, Convolution, Snake, Stretch
from engine.model.codec_state import CodecState, Tails
from engine.model.codec_transformer import Transformer
from engine.model.codec_weights import CodecWeights
from engine.model.config import CodecConfig

LATENT_TAPS = 3  # of `pre_conv`
USAGE_FLOOR = 1e-5  # of a codebook entry that training never used


class Codec:
    """The decoder of one checkpoint."""

    def __init__(self, config: CodecConfig, weights: CodecWeights) -> None:
        latent, channels = config.latent_dim, config.decoder_dim
        self.config = config
        self.frame_samples = math.prod(config.upsample_rates) * math.prod(config.upsampling_ratios)
        self.tables = weights.keep(_fold_codebooks(config, weights))  # (groups * size, dim)
        self.latent = Convolution.load(
            weights, "pre_conv", (latent, config.codebook_dim, LATENT_TAPS)
        )
        self.transformer = Transformer(weights, "pre_transformer", config)
        self.stretches = [
            (
                Stretch(weights, f"upsample.{number}.0", latent, factor),
                ConvNext(weights, f"upsample.{number}.1", latent),
            )
            for number, factor in enumerate(config.upsampling_ratios)
        ]
        self.entry = Convolution.load(weights, "decoder.0", (channels, latent, KERNEL))
        self.blocks = []
        for number, stride in enumerate(config.upsample_rates, start=1):
            self.blocks.append(Block(weights, f"decoder.{number}", channels, stride))
            channels //= 2
        last = len(config.upsample_rates) + 1
        self.activation = Snake(weights, f"decoder.{last}", channels)
        self.exit = Convolution.load(weights, f"decoder.{last + 1}", (1, channels, KERNEL))
        groups = torch.arange(config.num_quantizers, device=self.tables.device)
        self._first_rows = groups * config.codebook_size  # (groups,)
        self.state_size = self._measure()  # values a slot remembers

    @classmethod
    def load(
        cls,
        config: CodecConfig,
        tensors: Mapping[str, Tensor],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Codec:
        """Build the decoder from a checkpoint's tensors, whose names begin with `decoder.`.

        Raises: CheckpointError naming the tensor that is missing, misshapen or unknown.
        """
        weights = CodecWeights(tensors, device=device, dtype=dtype)
        codec = cls(config, weights)
        weights.finish()
        return codec

    def new_state(self, slots: int) -> CodecState:
        """Make the memory of `slots` utterances."""
        return CodecState(
            slots, self.state_size, device=self.tables.device, dtype=self.tables.dtype
        )

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """Decode whole utterances.

        Shapes: codes (rows, frames, groups) int64 -> (rows, frames * frame_samples) in [-1, 1].
        """
        return self._run(codes, _nothing(codes))

    @torch.inference_mode()
    def start(self, codes: Tensor, state: CodecState, slots: Tensor) -> Tensor:
        """Decode the first frames of utterances; whatever `slots` (rows,) remembered is lost.

        Shapes: as `decode`.
        """
        tails = _nothing(codes)
        samples = self._run(codes, tails)
        state.write(slots, tails, frames=codes.shape[1])
        return samples

    @torch.inference_mode()
    def step(self, codes: Tensor, state: CodecState, slots: Tensor) -> Tensor:
        """Decode the next frames of the utterances in `slots` (rows,), each wherever it stands.

        Shapes: as `decode`.
        """
        tails = state.read(slots)
        samples = self._run(codes, tails)
        state.write(slots, tails, frames=codes.shape[1])
        return samples

    def _run(self, codes: Tensor, tails: Tails) -> Tensor:
        rows = len(codes)
        entries = codes.transpose(0, 1) + self._first_rows
        x = functional.embedding(entries, self.tables).sum(2).flatten(0, 1)
        x = self.transformer(self.latent(x, tails), tails)
        for stretch, refine in self.stretches:
            x = refine(stretch(x, tails), tails)
        x = self.entry(x, tails)
        for block in self.blocks:
            x = block(x, tails)
        x = self.exit(self.activation(x), tails)
        return x.clamp_(-1, 1).view(-1, rows).T

    @torch.inference_mode()
    def _measure(self) -> int:
        codes = torch.zeros(
            1, 1, self.config.num_quantizers, dtype=torch.int64, device=self.tables.device
        )
        tails = _nothing(codes)
        self._run(codes, tails)
        return tails.row().shape[1]


def _nothing(codes: Tensor) -> Tails:
    return Tails(None, torch.zeros(len(codes), dtype=torch.int64, device=codes.device))


def _fold_codebooks(config: CodecConfig, weights: CodecWeights) -> Tensor:
    """Fold usage and output projection into the codebooks, so that decoding is a sum of rows."""
    size, width, dim = config.codebook_size, config.codebook_dim // 2, config.codebook_dim
    tables = []
    for part, groups in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        name = f"quantizer.{part}"
        weights.drop(f"{name}.input_proj.weight")  # only an encoder needs it
        projection = weights.take(f"{name}.output_proj.weight", dim, width, 1).squeeze(2)
        for group in range(groups):
            book = f"{name}.vq.layers.{group}._codebook"
            usage = weights.take(f"{book}.cluster_usage", size).clamp(min=USAGE_FLOOR)
            entries = weights.take(f"{book}.embedding_sum", size, width) / usage[:, None]
            tables.append(entries @ projection.T)
    return torch.cat(tables)
