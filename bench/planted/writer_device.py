"""A prefill executor's device that computes nothing and has the KV of a real model's shape: it only writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from baton.services.executor.engine.devices.fake import FakeDevice
from baton.services.executor.engine.load import cpu_layout
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.model.folder import read_model_info

TOKEN_S = 1e-5  #: of a prompt token: far faster than any real one


def is_writer() -> bool:
    """Whether this process is the prefill executor."""
    return "baton.services.prefill" in sys.orig_argv


def make(told: Any, folder: Path) -> FakeDevice:
    layout = cpu_layout(folder, read_decoder_config(folder), told.block_size, told.dtype)
    num_blocks = told.num_blocks or told.kv_bytes // layout.block_bytes
    info = read_model_info(folder)
    device = FakeDevice(
        num_blocks,
        told.block_size,
        vocab_size=info.vocab_size,
        max_model_len=info.max_model_len,
        checks_memory=False,
        token_time_s=TOKEN_S,
    )
    device.layout = layout
    values = np.random.default_rng(1).standard_normal(layout.block_bytes // 4, dtype=np.float32) * np.float32(0.1)
    device.kv = np.tile(values, (num_blocks, 1))
    return device
