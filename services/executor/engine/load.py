"""Making a device: the one place that knows all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from baton.core.errors import Incompatible
from baton.core.layout import DTYPE_BYTES, KvLayout
from baton.services.executor.engine.devices.base import Device
from baton.services.executor.engine.devices.fake import FakeDevice, fake_layout
from baton.services.executor.engine.devices.part import CpuPart
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.model.folder import read_model_info

if TYPE_CHECKING:
    from baton.services.executor.engine.devices.cpu import CpuDevice
    from baton.services.executor.engine.models.config import DecoderConfig

DeviceKind = Literal["cpu", "fake"]


def load_device(
    kind: DeviceKind,
    model_folder: Path | None = None,
    *,
    num_blocks: int = 0,
    kv_bytes: int = 0,
    block_size: int = 64,
    num_threads: int = 1,
    dtype: str = "",
) -> Device[Any]:
    """A device ready for `launch`. Exactly one of `num_blocks` and `kv_bytes` says how much KV memory it has.

    `dtype`: what the CPU computes in and keeps KV in; by default what the model folder asks for (float32 but for the
    tiny model). The fake device reads only the vocabulary size of a model folder, if it is given one.
    """
    if (num_blocks > 0) == (kv_bytes > 0):
        raise Incompatible(f"say num_blocks or kv_bytes: {num_blocks=}, {kv_bytes=}")
    if kind == "fake":
        return _load_fake(model_folder, num_blocks or kv_bytes // fake_layout(block_size).block_bytes, block_size)
    if model_folder is None:
        raise Incompatible("the cpu device needs a model folder")
    config = read_decoder_config(model_folder)
    layout = cpu_layout(model_folder, config, block_size, dtype)
    num_blocks = num_blocks or kv_bytes // layout.block_bytes
    return _load_cpu(CpuPart(model_folder, config, layout, num_blocks, num_threads))


def cpu_layout(folder: Path, config: DecoderConfig, block_size: int, dtype: str = "") -> KvLayout:
    """The geometry of a model's KV; the fingerprints are those that the folder's `baton.json` holds."""
    info = read_model_info(folder)
    chosen = dtype or info.dtype
    if chosen not in DTYPE_BYTES:
        raise Incompatible(f"dtype {chosen!r} is none of {', '.join(DTYPE_BYTES)}")
    return KvLayout(
        config.num_kv_layers,
        config.num_kv_heads,
        config.head_dim,
        chosen,
        block_size,
        info.model_fingerprint,
        info.tokenizer_fingerprint,
    )


def _load_fake(model_folder: Path | None, num_blocks: int, block_size: int) -> FakeDevice:
    if model_folder is None:
        return FakeDevice(num_blocks, block_size)
    info = read_model_info(model_folder)
    device = FakeDevice(num_blocks, block_size, vocab_size=info.vocab_size, max_model_len=info.max_model_len)
    device.layout = msgspec.structs.replace(device.layout, tokenizer_fingerprint=info.tokenizer_fingerprint)
    return device


def _load_cpu(part: CpuPart) -> Device[Any]:
    """torch is imported here, so that processes with a fake device start without it."""
    from baton.services.executor.engine.devices.cpu import CpuDevice

    if part.num_blocks < 1:
        raise Incompatible(f"device.kv_bytes: KV memory holds no block of {part.layout.block_bytes} bytes")
    device = CpuDevice(part)
    limit_torch_threads(device, part.num_threads)
    return device


def limit_torch_threads(device: CpuDevice, num_threads: int) -> None:
    """With native kernels torch only looks up embeddings: its threads would spin beside those that compute."""
    import torch

    torch.set_num_threads(1 if device.is_native else num_threads)
