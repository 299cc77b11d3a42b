#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a tests/models folder as the GGUF that llama.cpp's converter would make of it (F32), golden file beside it.

usage: gguf_from_hf.py MODEL_DIR OUTPUT.gguf [--f16]
--f16 stores matrices in F16, which holds BF16 weights of a usual size exactly.
So that every GGUF architecture is held to the same golden outputs as its Hugging Face twin without a second copy in the tree.
"""
import json
import pathlib
import shutil
import struct
import sys
from array import array

ALIGNMENT = 32


class Tensor:
    """Row-major floats with a shape; only what the conversions need."""

    def __init__(self, shape, values):
        self.shape, self.values = list(shape), values

    def rows(self):
        width = self.shape[-1]
        return [self.values[i:i + width] for i in range(0, len(self.values), width)]

    def with_rows(self, order):
        """The rows (or, for a vector, the elements) in another order."""
        if len(self.shape) == 1:
            return Tensor(self.shape, array("f", [self.values[i] for i in order]))
        rows, out = self.rows(), array("f")
        for index in order:
            out.extend(rows[index])
        return Tensor([len(order)] + self.shape[1:], out)

    def transposed(self):
        rows = self.rows()
        return Tensor([self.shape[1], self.shape[0]], array("f", [row[i] for i in range(self.shape[1]) for row in rows]))

    def plus(self, value):
        return Tensor(self.shape, array("f", [v + value for v in self.values]))

    def times(self, value):
        return Tensor(self.shape, array("f", [v * value for v in self.values]))

    def part(self, index):
        """One slice of the outermost dimension."""
        size = len(self.values) // self.shape[0]
        return Tensor(self.shape[1:], self.values[index * size:(index + 1) * size])


def stacked(parts):
    out = array("f")
    for part in parts:
        out.extend(part.values)
    return Tensor([len(parts)] + parts[0].shape, out)


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = array("f")
        stored = data[8 + length + begin:8 + length + end]
        assert entry["dtype"] in ("F32", "BF16"), f"{name}: only F32 and BF16 fixtures are converted"
        if entry["dtype"] == "BF16":  # the upper half of an F32
            wide = bytearray(2 * len(stored))
            wide[2::4], wide[3::4] = stored[0::2], stored[1::2]
            stored = wide
        values.frombytes(bytes(stored))
        tensors[name] = Tensor(entry["shape"], values)
    return tensors


def paired(heads, head_dim):
    """Row order that turns the half-split rotary layout into the interleaved one."""
    half = head_dim // 2
    return [head * head_dim + pair + side * half for head in range(heads) for pair in range(half) for side in range(2)]


class Converter:
    def __init__(self, directory):
        self.directory = directory
        self.config = json.loads((directory / "config.json").read_text())
        self.source = read_safetensors(directory / "model.safetensors")
        self.meta, self.out = [], {}
        c = self.config
        self.layers = c.get("num_hidden_layers", c.get("n_layer"))
        self.heads = c.get("num_attention_heads", c.get("n_head"))
        self.kv_heads = c.get("num_key_value_heads", self.heads)
        self.hidden = c.get("hidden_size", c.get("n_embd"))
        self.head_dim = c.get("head_dim") or self.hidden // self.heads
        self.rope = c.get("rope_parameters", {})

    # --- metadata
    def put(self, key, value, kind=None):
        codes = {str: 8, bool: 7, int: 4, float: 6}
        self.meta.append((key, kind if kind is not None else codes[type(value)], value))

    def arch(self, name, layer_norm=None):
        """layer_norm: the config's field with its epsilon, where norms are not RMSNorms."""
        self.prefix = name
        self.put("general.architecture", name)
        c = self.config
        self.key("context_length", c.get("max_position_embeddings", c.get("n_positions")))
        self.key("embedding_length", self.hidden)
        self.key("block_count", self.layers)
        self.key("feed_forward_length", c.get("intermediate_size") or 4 * self.hidden)
        self.key("attention.head_count", self.heads)
        if name != "gpt2":
            self.key("attention.head_count_kv", self.kv_heads)
            if layer_norm:
                self.key("attention.layer_norm_epsilon", float(c[layer_norm]))
            else:
                self.key("attention.layer_norm_rms_epsilon", float(c["rms_norm_eps"]))
            self.key("rope.freq_base", float(self.rope["rope_theta"]))

    def key(self, name, value, kind=None):
        self.put(f"{self.prefix}.{name}", value, kind)

    def scaling(self):
        kind = self.rope.get("rope_type", "default")
        if kind in ("linear", "yarn"):
            self.key("rope.scaling.type", kind)
            self.key("rope.scaling.factor", float(self.rope["factor"]))
        if kind == "yarn":
            self.key("rope.scaling.original_context_length", self.rope["original_max_position_embeddings"])
        if kind == "llama3":
            import math
            factors, r = array("f"), self.rope
            for i in range(self.head_dim // 2):
                wave = 2 * math.pi * r["rope_theta"] ** (2 * i / self.head_dim)
                low = r["original_max_position_embeddings"] / r["low_freq_factor"]
                high = r["original_max_position_embeddings"] / r["high_freq_factor"]
                smooth = (r["original_max_position_embeddings"] / wave - r["low_freq_factor"]) / (
                    r["high_freq_factor"] - r["low_freq_factor"])
                factors.append(1.0 if wave < high else r["factor"] if wave > low else 1 / ((1 - smooth) / r["factor"] + smooth))
            self.out["rope_freqs.weight"] = Tensor([self.head_dim // 2], factors)

    def vocabulary(self):
        tokenizer = json.loads((self.directory / "tokenizer.json").read_text())
        vocab = dict(tokenizer["model"]["vocab"])
        special = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
        vocab.update(special)
        tokens = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
        merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
        self.put("tokenizer.ggml.model", "gpt2")
        self.put("tokenizer.ggml.pre", "gpt-2")
        self.put("tokenizer.ggml.tokens", tokens, 8 + 100)
        self.put("tokenizer.ggml.token_type", [3 if t in special else 1 for t in tokens], 5 + 100)
        self.put("tokenizer.ggml.merges", merges, 8 + 100)
        self.put("tokenizer.ggml.bos_token_id", 0)
        self.put("tokenizer.ggml.eos_token_id", 0)
        self.put("tokenizer.ggml.add_bos_token", False)
        self.put("tokenizer.chat_template", (self.directory / "chat_template.jinja").read_text())

    # --- tensors
    def take(self, source, target, change=lambda t: t, optional=False):
        if optional and source not in self.source:
            return
        self.out[target] = change(self.source[source])

    def ends(self, norm_change=lambda t: t):
        self.take("model.embed_tokens.weight", "token_embd.weight")
        self.take("model.norm.weight", "output_norm.weight", norm_change)
        if not self.config.get("tie_word_embeddings"):
            self.take("lm_head.weight", "output.weight")

    def attention(self, layer, rotate_pairs=False, query_scale=1.0):
        a, b = f"model.layers.{layer}.self_attn", f"blk.{layer}"
        for source, target, heads in (("q", "q", self.heads), ("k", "k", self.kv_heads), ("v", "v", 0), ("o", "output", 0)):
            change = lambda t: t
            if rotate_pairs and heads:
                change = lambda t, n=heads: t.with_rows(paired(n, self.head_dim))
            if source == "q" and query_scale != 1.0:
                change = lambda t: t.times(query_scale)
            self.take(f"{a}.{source}_proj.weight", f"{b}.attn_{target}.weight", change)
            self.take(f"{a}.{source}_proj.bias", f"{b}.attn_{target}.bias", change, optional=True)

    def dense_mlp(self, layer):
        for name in ("gate", "up", "down"):
            for part in ("weight", "bias"):
                self.take(f"model.layers.{layer}.mlp.{name}_proj.{part}", f"blk.{layer}.ffn_{name}.{part}", optional=part == "bias")

    def experts(self, layer, count, pattern):
        for name, source in pattern.items():
            parts = [self.source[f"model.layers.{layer}.{source.format(e)}"] for e in range(count)]
            self.out[f"blk.{layer}.ffn_{name}_exps.weight"] = stacked(parts)

    def norms(self, layer, names, change=lambda t: t):
        for source, target in names.items():
            self.take(f"model.layers.{layer}.{source}.weight", f"blk.{layer}.{target}.weight", change)


PRE_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def llama(c):
    c.arch("granite" if c.config["model_type"] == "granite" else "llama")
    c.key("rope.dimension_count", c.head_dim)
    c.key("attention.key_length", c.head_dim)
    c.key("attention.value_length", c.head_dim)
    c.key("vocab_size", c.config["vocab_size"])
    c.scaling()
    if c.prefix == "granite":
        for key, field in (("embedding_scale", "embedding_multiplier"), ("residual_scale", "residual_multiplier"),
                           ("attention.scale", "attention_multiplier"), ("logit_scale", "logits_scaling")):
            c.key(key, float(c.config[field]))
    experts = c.config.get("num_local_experts", 0)
    if experts:
        c.key("expert_count", experts)
        c.key("expert_used_count", c.config["num_experts_per_tok"])
    c.ends()
    for layer in range(c.layers):
        c.attention(layer, rotate_pairs=True)
        c.norms(layer, PRE_NORMS)
        if experts:
            c.take(f"model.layers.{layer}.block_sparse_moe.gate.weight", f"blk.{layer}.ffn_gate_inp.weight")
            c.experts(layer, experts, {"gate": "block_sparse_moe.experts.{}.w1.weight", "down": "block_sparse_moe.experts.{}.w2.weight",
                                       "up": "block_sparse_moe.experts.{}.w3.weight"})
        else:
            c.dense_mlp(layer)


def qwen(c):
    c.arch(c.config["model_type"])
    c.key("attention.key_length", c.head_dim)
    c.key("attention.value_length", c.head_dim)
    c.ends()
    for layer in range(c.layers):
        c.attention(layer)
        c.norms(layer, PRE_NORMS)
        if c.prefix == "qwen3":
            c.norms(layer, {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"})
        c.dense_mlp(layer)


def gemma2(c):
    c.arch("gemma2")
    c.key("attention.key_length", c.head_dim)
    c.key("attention.value_length", c.head_dim)
    c.key("attention.sliding_window", c.config["sliding_window"])
    c.key("attn_logit_softcapping", float(c.config["attn_logit_softcapping"]))
    c.key("final_logit_softcapping", float(c.config["final_logit_softcapping"]))
    plus_one = lambda t: t.plus(1.0)
    c.ends(plus_one)
    for layer in range(c.layers):
        # The format has no place for query_pre_attn_scalar: the difference goes into the query weights.
        c.attention(layer, query_scale=(c.head_dim / c.config["query_pre_attn_scalar"]) ** 0.5)
        c.norms(layer, {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
                        "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}, plus_one)
        c.dense_mlp(layer)


def olmo2(c):
    c.arch("olmo2")
    c.ends()
    for layer in range(c.layers):
        c.attention(layer)
        c.norms(layer, {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm",
                        "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"})
        c.dense_mlp(layer)


def phi3(c):
    c.arch("phi3")
    rotary = int(c.head_dim * c.rope.get("partial_rotary_factor", 1.0))
    c.key("rope.dimension_count", rotary)
    original = c.rope.get("original_max_position_embeddings", c.config["max_position_embeddings"])
    c.key("rope.scaling.original_context_length", original)
    if c.config.get("sliding_window"):
        c.key("attention.sliding_window", c.config["sliding_window"])
    if c.rope.get("rope_type") == "longrope":
        import math
        scale = c.config["max_position_embeddings"] / original
        c.key("rope.scaling.attn_factor", math.sqrt(1 + math.log(scale) / math.log(original)))
        for kind in ("long", "short"):
            factors = array("f", c.rope[f"{kind}_factor"])
            c.out[f"rope_factors_{kind}.weight"] = Tensor([len(factors)], factors)
    c.ends()
    for layer in range(c.layers):
        c.norms(layer, PRE_NORMS)
        c.take(f"model.layers.{layer}.self_attn.qkv_proj.weight", f"blk.{layer}.attn_qkv.weight")
        c.take(f"model.layers.{layer}.self_attn.o_proj.weight", f"blk.{layer}.attn_output.weight")
        c.take(f"model.layers.{layer}.mlp.gate_up_proj.weight", f"blk.{layer}.ffn_up.weight")
        c.take(f"model.layers.{layer}.mlp.down_proj.weight", f"blk.{layer}.ffn_down.weight")


def gpt2(c):
    c.arch("gpt2")
    c.key("attention.layer_norm_epsilon", float(c.config["layer_norm_epsilon"]))
    c.take("transformer.wte.weight", "token_embd.weight")
    c.take("transformer.wpe.weight", "position_embd.weight")
    for part in ("weight", "bias"):
        c.take(f"transformer.ln_f.{part}", f"output_norm.{part}")
    names = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up",
             "mlp.c_proj": "ffn_down"}
    for layer in range(c.layers):
        for source, target in names.items():
            turn = (lambda t: t.transposed()) if "." in source else (lambda t: t)
            c.take(f"transformer.h.{layer}.{source}.weight", f"blk.{layer}.{target}.weight", turn)
            c.take(f"transformer.h.{layer}.{source}.bias", f"blk.{layer}.{target}.bias")


def gpt_oss(c):
    c.arch("gpt-oss")
    c.key("attention.key_length", c.head_dim)
    c.key("attention.value_length", c.head_dim)
    c.key("attention.sliding_window", c.config["sliding_window"])
    c.key("expert_count", c.config["num_local_experts"])
    c.key("expert_used_count", c.config["num_experts_per_tok"])
    c.key("expert_feed_forward_length", c.config["intermediate_size"])
    c.scaling()
    c.ends()
    for layer in range(c.layers):
        a, b = f"model.layers.{layer}", f"blk.{layer}"
        c.attention(layer)
        c.norms(layer, {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm"})
        c.take(f"{a}.self_attn.sinks", f"{b}.attn_sinks.weight")
        for part in ("weight", "bias"):
            c.take(f"{a}.mlp.router.{part}", f"{b}.ffn_gate_inp.{part}")
        gate_up, down = c.source[f"{a}.mlp.experts.gate_up_proj"], c.source[f"{a}.mlp.experts.down_proj"]
        count, width = gate_up.shape[0], gate_up.shape[2]
        flipped = [gate_up.part(e).transposed() for e in range(count)]
        biases = c.source[f"{a}.mlp.experts.gate_up_proj_bias"]
        for name, first in (("gate", 0), ("up", 1)):
            every = range(first, width, 2)
            c.out[f"{b}.ffn_{name}_exps.weight"] = stacked([t.with_rows(every) for t in flipped])
            c.out[f"{b}.ffn_{name}_exps.bias"] = stacked([biases.part(e).with_rows(every) for e in range(count)])
            c.out[f"{b}.ffn_{name}_exps.bias"].shape = [count, width // 2]
        c.out[f"{b}.ffn_down_exps.weight"] = stacked([down.part(e).transposed() for e in range(count)])
        c.take(f"{a}.mlp.experts.down_proj_bias", f"{b}.ffn_down_exps.bias")


def deepseek(c):
    f = c.config
    c.kv_heads = 1
    c.arch("deepseek2")
    c.key("vocab_size", f["vocab_size"])
    c.key("leading_dense_block_count", f["first_k_dense_replace"])
    if f.get("q_lora_rank"):
        c.key("attention.q_lora_rank", f["q_lora_rank"])
    c.key("attention.kv_lora_rank", f["kv_lora_rank"])
    c.key("attention.key_length", f["kv_lora_rank"] + f["qk_rope_head_dim"])
    c.key("attention.value_length", f["kv_lora_rank"])
    c.key("attention.key_length_mla", f["qk_nope_head_dim"] + f["qk_rope_head_dim"])
    c.key("attention.value_length_mla", f["v_head_dim"])
    c.key("rope.dimension_count", f["qk_rope_head_dim"])
    c.key("expert_feed_forward_length", f["moe_intermediate_size"])
    c.key("expert_count", f["n_routed_experts"])
    c.key("expert_used_count", f["num_experts_per_tok"])
    c.key("expert_shared_count", f["n_shared_experts"])
    c.key("expert_weights_scale", float(f["routed_scaling_factor"]))
    c.key("expert_weights_norm", bool(f.get("norm_topk_prob", False)))
    c.key("expert_gating_func", 2 if f["model_type"] == "deepseek_v3" else 1)
    if f["model_type"] == "deepseek_v3" or f.get("topk_method") == "group_limited_greedy":
        c.key("expert_group_count", f["n_group"])
        c.key("expert_group_used_count", f["topk_group"])
    c.scaling()
    if c.rope.get("mscale_all_dim"):
        c.key("rope.scaling.yarn_log_multiplier", 0.1 * c.rope["mscale_all_dim"])
    c.ends()
    nope, value = f["qk_nope_head_dim"], f["v_head_dim"]
    for layer in range(c.layers):
        a, b = f"model.layers.{layer}.self_attn", f"blk.{layer}"
        c.norms(layer, PRE_NORMS)
        for source, target in (("q_proj", "attn_q"), ("q_a_proj", "attn_q_a"), ("q_a_layernorm", "attn_q_a_norm"), ("q_b_proj", "attn_q_b"),
                               ("kv_a_proj_with_mqa", "attn_kv_a_mqa"), ("kv_a_layernorm", "attn_kv_a_norm"), ("o_proj", "attn_output")):
            c.take(f"{a}.{source}.weight", f"{b}.{target}.weight", optional=True)
        both = c.source[f"{a}.kv_b_proj.weight"]
        span = nope + value
        keys = [both.with_rows(range(h * span, h * span + nope)).transposed() for h in range(c.heads)]
        c.out[f"{b}.attn_k_b.weight"] = stacked(keys)
        c.out[f"{b}.attn_v_b.weight"] = stacked([both.with_rows(range(h * span + nope, (h + 1) * span)) for h in range(c.heads)])
        if layer < f["first_k_dense_replace"]:
            c.dense_mlp(layer)
            continue
        m = f"model.layers.{layer}.mlp"
        c.take(f"{m}.gate.weight", f"{b}.ffn_gate_inp.weight")
        c.take(f"{m}.gate.e_score_correction_bias", f"{b}.exp_probs_b.bias", optional=True)
        c.experts(layer, f["n_routed_experts"], {n: "mlp.experts.{}." + n + "_proj.weight" for n in ("gate", "up", "down")})
        for name in ("gate", "up", "down"):
            c.take(f"{m}.shared_experts.{name}_proj.weight", f"{b}.ffn_{name}_shexp.weight")


def glm4_moe(c):
    f = c.config
    c.arch("glm4moe")
    c.key("attention.key_length", c.head_dim)
    c.key("attention.value_length", c.head_dim)
    c.key("rope.dimension_count", int(c.head_dim * c.rope["partial_rotary_factor"]))
    c.key("leading_dense_block_count", f["first_k_dense_replace"])
    c.key("expert_feed_forward_length", f["moe_intermediate_size"])
    c.key("expert_count", f["n_routed_experts"])
    c.key("expert_used_count", f["num_experts_per_tok"])
    c.key("expert_shared_count", f["n_shared_experts"])
    c.key("expert_weights_scale", float(f["routed_scaling_factor"]))
    c.key("expert_weights_norm", bool(f["norm_topk_prob"]))
    c.key("expert_gating_func", 2)
    c.key("expert_group_count", f["n_group"])
    c.key("expert_group_used_count", f["topk_group"])
    c.ends()
    for layer in range(c.layers):
        m, b = f"model.layers.{layer}.mlp", f"blk.{layer}"
        c.attention(layer)
        c.norms(layer, {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm"})
        if f["use_qk_norm"]:
            c.norms(layer, {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"})
        if layer < f["first_k_dense_replace"]:
            c.dense_mlp(layer)
            continue
        c.take(f"{m}.gate.weight", f"{b}.ffn_gate_inp.weight")
        c.take(f"{m}.gate.e_score_correction_bias", f"{b}.exp_probs_b.bias")
        c.experts(layer, f["n_routed_experts"], {n: "mlp.experts.{}." + n + "_proj.weight" for n in ("gate", "up", "down")})
        for name in ("gate", "up", "down"):
            c.take(f"{m}.shared_experts.{name}_proj.weight", f"{b}.ffn_{name}_shexp.weight")


def cohere2(c):
    c.arch("cohere2", "layer_norm_eps")
    c.key("logit_scale", float(c.config["logit_scale"]))
    c.key("attention.sliding_window", c.config["sliding_window"])
    c.key("rope.dimension_count", c.head_dim)
    c.key("rope.scaling.type", "none")
    c.ends()
    for layer in range(c.layers):
        c.attention(layer)
        c.norms(layer, {"input_layernorm": "attn_norm"})
        c.dense_mlp(layer)


def olmoe(c):
    c.arch("olmoe")
    c.key("expert_count", c.config["num_experts"])
    c.key("expert_used_count", c.config["num_experts_per_tok"])
    if c.config.get("clip_qkv"):
        c.key("attention.clamp_kqv", float(c.config["clip_qkv"]))
    c.ends()
    for layer in range(c.layers):
        c.attention(layer)
        c.norms(layer, PRE_NORMS)
        c.norms(layer, {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"})
        c.take(f"model.layers.{layer}.mlp.gate.weight", f"blk.{layer}.ffn_gate_inp.weight")
        c.experts(layer, c.config["num_experts"], {n: "mlp.experts.{}." + n + "_proj.weight" for n in ("gate", "up", "down")})


def smollm3(c):
    c.arch("smollm3")
    c.key("rope.dimension_count", c.head_dim)
    c.ends()
    for layer in range(c.layers):
        c.attention(layer, rotate_pairs=True)
        c.norms(layer, PRE_NORMS)
        c.dense_mlp(layer)


def starcoder2(c):
    c.arch("starcoder2", "norm_epsilon")
    c.key("attention.sliding_window", c.config["sliding_window"])
    c.ends()
    c.take("model.norm.bias", "output_norm.bias")
    for layer in range(c.layers):
        c.attention(layer)
        for source, target in {**PRE_NORMS, "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}.items():
            for part in ("weight", "bias"):
                c.take(f"model.layers.{layer}.{source}.{part}", f"blk.{layer}.{target}.{part}")


def gpt_neox(c):
    c.arch("gptneox", "layer_norm_eps")
    c.key("rope.dimension_count", int(c.head_dim * c.rope["partial_rotary_factor"]))
    c.key("use_parallel_residual", c.config["use_parallel_residual"])
    c.take("gpt_neox.embed_in.weight", "token_embd.weight")
    c.take("embed_out.weight", "output.weight")
    for part in ("weight", "bias"):
        c.take(f"gpt_neox.final_layer_norm.{part}", f"output_norm.{part}")
    names = {**PRE_NORMS, "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up",
             "mlp.dense_4h_to_h": "ffn_down"}
    apart = [(head * 3 + part) * c.head_dim + row for part in range(3) for head in range(c.heads) for row in range(c.head_dim)]
    for layer in range(c.layers):
        for source, target in names.items():
            change = (lambda t: t.with_rows(apart)) if target == "attn_qkv" else (lambda t: t)
            for part in ("weight", "bias"):
                c.take(f"gpt_neox.layers.{layer}.{source}.{part}", f"blk.{layer}.{target}.{part}", change)


FAMILIES = {"llama": llama, "granite": llama, "mixtral": llama, "qwen2": qwen, "qwen3": qwen, "gemma2": gemma2, "olmo2": olmo2, "phi3": phi3,
            "gpt2": gpt2, "gpt_oss": gpt_oss, "deepseek_v2": deepseek, "deepseek_v3": deepseek,
            "glm4_moe": glm4_moe, "cohere2": cohere2, "olmoe": olmoe, "smollm3": smollm3, "starcoder2": starcoder2, "gpt_neox": gpt_neox}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def encoded(kind, value):
    if kind >= 100:
        return struct.pack("<IQ", kind - 100, len(value)) + b"".join(encoded(kind - 100, v) for v in value)
    if kind == 8:
        return text(value)
    return struct.pack({4: "<I", 5: "<i", 6: "<f", 7: "<?"}[kind], value)


def write(converter, path, f16):
    meta = b"".join(text(key) + struct.pack("<I", 9 if kind >= 100 else kind) + encoded(kind, value)
                    for key, kind, value in converter.meta)
    infos, blobs, offset = b"", [], 0
    for name, tensor in converter.out.items():
        narrow = f16 and len(tensor.shape) > 1
        infos += text(name) + struct.pack("<I", len(tensor.shape))
        infos += b"".join(struct.pack("<Q", dim) for dim in reversed(tensor.shape)) + struct.pack("<IQ", 1 if narrow else 0, offset)
        blob = struct.pack(f"<{len(tensor.values)}e", *tensor.values) if narrow else tensor.values.tobytes()
        blobs.append(blob + bytes(-len(blob) % ALIGNMENT))
        offset += len(blobs[-1])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(converter.out), len(converter.meta)) + meta + infos
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + b"".join(blobs))


def main():
    directory, path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    converter = Converter(directory)
    FAMILIES[converter.config["model_type"]](converter)
    converter.vocabulary()
    write(converter, path, "--f16" in sys.argv[3:])
    shutil.copy(directory / "golden.json", path.with_suffix("").with_suffix(".golden.json"))


if __name__ == "__main__":
    main()
