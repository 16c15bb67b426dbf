"""Whether the GPU engine can run here: a card with torch and triton, or both with TRITON_INTERPRET=1."""

import importlib.util
import os


def is_interpreted():
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def has_cuda():
    if any(importlib.util.find_spec(name) is None for name in ("torch", "triton")):
        return False
    if is_interpreted():
        return True
    import torch

    return torch.cuda.is_available()


WHY_NOT = "needs torch and triton with a GPU, or TRITON_INTERPRET=1: make test-gpu, make test-gpu-interpreter"
