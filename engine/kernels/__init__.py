"""Triton kernels, each beside a plain launcher that states shapes and owns nothing."""
