"""One GPU's process: a deadline scheduler over Qwen3-TTS's stages."""
