"""Qwen3-TTS in plain PyTorch: the reference that graphs and kernels must equal."""
