#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a random llama-134m GGUF (the shape of `random:llama-134m`) for measuring llama.cpp beside Cheetah.

usage: make_llama_gguf.py f16|q8_0|q4_0 OUTPUT.gguf
"""
import random
import struct
import sys

HIDDEN, FFN, LAYERS, HEADS, VOCAB = 768, 2048, 12, 12, 32000
TYPES = {"f16": (1, 1, 2), "q8_0": (8, 32, 34), "q4_0": (2, 32, 18)}  # ggml type, block elements, block bytes
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key_values():
    def entry(key, kind, payload):
        return text(key) + struct.pack("<I", kind) + payload

    u32 = lambda key, value: entry(key, 4, struct.pack("<I", value))
    f32 = lambda key, value: entry(key, 6, struct.pack("<f", value))
    array = lambda key, kind, items: entry(key, 9, struct.pack("<IQ", kind, len(items)) + b"".join(items))
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"t{index}" for index in range(VOCAB - len(tokens))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259)
    return [
        entry("general.architecture", 8, text("llama")), u32("llama.context_length", 4096), u32("llama.embedding_length", HIDDEN),
        u32("llama.block_count", LAYERS), u32("llama.feed_forward_length", FFN), u32("llama.attention.head_count", HEADS),
        u32("llama.attention.head_count_kv", HEADS), f32("llama.attention.layer_norm_rms_epsilon", 1e-5),
        f32("llama.rope.freq_base", 10000.0), u32("llama.vocab_size", VOCAB), entry("tokenizer.ggml.model", 8, text("llama")),
        array("tokenizer.ggml.tokens", 8, [text(token) for token in tokens]),
        array("tokenizer.ggml.scores", 6, [struct.pack("<f", -float(index)) for index in range(VOCAB)]),
        array("tokenizer.ggml.token_type", 5, [struct.pack("<i", kind) for kind in kinds]),
        u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2),
    ]


def tensor_shapes():
    yield "token_embd.weight", (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        for name, shape in [("attn_norm", (HIDDEN,)), ("attn_q", (HIDDEN, HIDDEN)), ("attn_k", (HIDDEN, HIDDEN)),
                            ("attn_v", (HIDDEN, HIDDEN)), ("attn_output", (HIDDEN, HIDDEN)), ("ffn_norm", (HIDDEN,)),
                            ("ffn_gate", (FFN, HIDDEN)), ("ffn_up", (FFN, HIDDEN)), ("ffn_down", (HIDDEN, FFN))]:
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (VOCAB, HIDDEN)


def tile(kind):
    """About a megabyte of valid random blocks; tensors repeat it."""
    half = lambda value: struct.pack("<e", value)
    if kind == "f16":
        return b"".join(half(random.gauss(0, 0.02)) for _ in range(500009))
    payload = 32 if kind == "q8_0" else 16
    return b"".join(half(random.uniform(1e-4, 3e-4)) + random.randbytes(payload) for _ in range(30011))


def main():
    kind, path = sys.argv[1], sys.argv[2]
    random.seed(1)
    number, block, block_bytes = TYPES[kind]
    tensors, infos, offset = [], [], 0
    for name, shape in tensor_shapes():
        elements = shape[0] * (shape[1] if len(shape) == 2 else 1)
        size = elements * 4 if len(shape) == 1 else elements // block * block_bytes
        infos.append(text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape)) +
                     struct.pack("<IQ", 0 if len(shape) == 1 else number, offset))
        tensors.append((len(shape), elements, size))
        offset += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    values = key_values()
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(values)) + b"".join(values) + b"".join(infos)
    source = tile(kind)
    with open(path, "wb") as out:
        out.write(header + bytes(-len(header) % ALIGNMENT))
        for rank, elements, size in tensors:
            data = struct.pack("<f", 1.0) * elements if rank == 1 else (source * (size // len(source) + 1))[:size]
            out.write(data + bytes(-size % ALIGNMENT))


if __name__ == "__main__":
    main()
