#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny random models of the families in tests/models, with golden.json computed by Hugging Face transformers.

Run where torch and transformers are installed. All of MODELS (reference_configs.py), or the named ones:
    scripts/make_reference_models.py OUTPUT_DIR [NAME ...] [--variants]
--variants adds all of VARIANTS. The tokenizer is the one of tests/models/llama. Norm weights, biases, sinks and routing biases are random too, so that a
forgotten one shows. Weights are rounded to BF16 and stored so; golden.json is float32 compute on the stored weights.

Two options rewrite models that exist: --store FOLDER ... in BF16 with new goldens for the same texts, --fp8 FOLDER ...
with the linear weights in E4M3, and print what that costs on heldout.u16.
"""
import argparse
import copy
import json
import math
import multiprocessing
import os
import pathlib
import shutil
import time
import traceback

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from reference_configs import COMMON, MODELS, OMIT, VARIANTS

HERE = pathlib.Path(__file__).resolve().parent.parent
DONOR = HERE / "tests" / "models" / "llama"
TEXTS = [
    "def read(path):\n    return open(path).read()",
    "The quick brown fox jumps over the lazy dog, 12345 times; naïve café — 你好 🙂.",
    "  import os\n\n\tfor k, v in items():",
]
GREEDY_TOKENS = 24
LEAST_GAP = 0.005
ROUTER_BIAS = "e_score_correction_bias"
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def randomize_small_parameters(model):
    """And matrices that the model's own initialization leaves constant."""
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if tensor.dim() == 1 and "inv_freq" not in name and tensor.is_floating_point():
            noise = torch.randn_like(tensor) * 0.2
            tensor.data = tensor.data + noise
        elif tensor.dim() == 2 and name.endswith("_bias"):
            tensor.data = torch.randn_like(tensor) * 0.2
        elif tensor.dim() >= 2 and tensor.is_floating_point() and float(tensor.max()) == float(tensor.min()):
            tensor.data = torch.randn_like(tensor) * COMMON["initializer_range"]


def load_tensors(file):
    return {name: tensor.clone() for name, tensor in load_file(file).items()}  # the file may be written over


def mxfp4_pack(weight):
    """[experts, in, out] -> blocks [experts, out, in/32, 16], scales [experts, out, in/32], and the values they stand for."""
    rows = weight.transpose(1, 2).contiguous()
    groups = rows.reshape(*rows.shape[:2], -1, 32)
    exponent = torch.floor(torch.log2(groups.abs().amax(-1).clamp(min=1e-9))) - 2
    scaled = groups / torch.exp2(exponent)[..., None]
    codes = (scaled[..., None] - FP4).abs().argmin(-1)
    values = (FP4[codes] * torch.exp2(exponent)[..., None]).reshape(rows.shape).transpose(1, 2).contiguous()
    blocks = (codes[..., 0::2] | (codes[..., 1::2] << 4)).to(torch.uint8)
    return blocks, (exponent + 127).to(torch.uint8), values


def quantize_mxfp4(model):
    extra, drop = {}, []
    for name, parameter in model.named_parameters():
        if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
            blocks, scales, values = mxfp4_pack(parameter.data)
            parameter.data = values
            extra[name + "_blocks"], extra[name + "_scales"] = blocks, scales
            drop.append(name)
    return extra, drop, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens", "lm_head"]}


def quantize_fp8(directory):
    """Stores the linear weights of the saved file in E4M3 with power-of-two block scales; returns the values they stand for."""
    tensors, values = load_tensors(directory / "model.safetensors"), {}
    for name, tensor in list(tensors.items()):
        if tensor.dim() != 2 or "embed" in name or "lm_head" in name or name.endswith("mlp.gate.weight"):
            continue
        scale = torch.exp2(torch.ceil(torch.log2(tensor.abs().max() / 448.0)))
        tensors[name] = (tensor / scale).to(torch.float8_e4m3fn)
        tensors[name + "_scale_inv"] = scale.reshape(1, 1)
        values[name] = tensors[name].float() * scale
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return values, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


@torch.no_grad()
def round_to_bf16(model):
    """The routers' correction biases stay in F32, as checkpoints have them."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not name.endswith(ROUTER_BIAS):
            tensor.copy_(tensor.to(torch.bfloat16).float())


def store_as_bf16(directory):
    tensors = load_tensors(directory / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not name.endswith(ROUTER_BIAS):
            tensors[name] = tensor.to(torch.bfloat16).contiguous()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    change_config(directory, dtype="bfloat16")


def change_config(directory, **changes):
    config = json.loads((directory / "config.json").read_text())
    config.update(changes)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load(directory):
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    wrong = [name for name, parameter in model.named_parameters() if parameter.dtype != torch.float32]
    if wrong:
        raise RuntimeError(f"{directory}: computes {wrong[0]} in another type than float32")
    return model


def load_with(directory, values):
    """The model with these values for weights, all in float32."""
    plain = directory.with_name(directory.name + ".plain")
    shutil.copytree(directory, plain, dirs_exist_ok=True)
    config = json.loads((plain / "config.json").read_text())
    config.pop("quantization_config", None)
    (plain / "config.json").write_text(json.dumps(config))
    tensors = load_tensors(plain / "model.safetensors")
    tensors = {k: values.get(k, v).float().contiguous() for k, v in tensors.items() if not k.endswith("_scale_inv")}
    save_file(tensors, plain / "model.safetensors", metadata={"format": "pt"})
    model = load(plain)
    shutil.rmtree(plain)
    return model


@torch.no_grad()
def golden_case(model, tokenizer, text, ids, steps=GREEDY_TOKENS, digits=6):
    """The case, and by how much its closest greedy choice was ahead."""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].float()
    losses = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:]), reduction="mean")
    sequence, gap = list(ids), 1e9
    for _ in range(steps):
        last = model(torch.tensor([sequence]), use_cache=False).logits[0, -1].float()
        best = torch.topk(last, 2).values
        gap = min(gap, float(best[0] - best[1]))
        sequence.append(int(last.argmax()))
    greedy = sequence[len(ids):]
    return dict(text=text, ids=ids, last_logits=[round(float(v), digits) for v in logits[-1]], nll=round(float(losses), 6),
                greedy=greedy, greedy_text=tokenizer.decode(greedy), greedy_min_gap=round(gap, 5))


def tokenizer_of(directory):
    return PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))


def copy_texts(source, directory):
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(source / file, directory / file)


def redone_golden(model, directory, digits):
    """The golden of this folder with its numbers computed anew: same texts, ids, lengths and keys. And the least gap."""
    golden = json.loads((directory / "golden.json").read_text())
    tokenizer, least = tokenizer_of(directory), 1e9
    for case in golden["cases"]:
        new = golden_case(model, tokenizer, case["text"], case["ids"], len(case["greedy"]), digits)
        least = min(least, new["greedy_min_gap"])
        case.update({key: new[key] for key in case})
    golden["transformers"] = transformers.__version__
    return golden, least


def make(name, out):
    """Seeds are tried until no greedy step hangs on a difference that float32 rounding could turn."""
    for seed in range(20):
        gap = make_with_seed(name, out, seed)
        if gap >= LEAST_GAP:
            return f"least greedy gap {gap:.5f}, seed {seed}"
    raise RuntimeError(f"no seed gave a greedy gap of {LEAST_GAP}")


def settings_of(name):
    """A copy, for transformers writes into the dicts that it is given."""
    settings = dict(COMMON, **dict(MODELS, **VARIANTS)[name][1])
    return copy.deepcopy({key: value for key, value in settings.items() if value is not OMIT})


def make_config(name):
    family, settings = dict(MODELS, **VARIANTS)[name][0], settings_of(name)
    try:
        return AutoConfig.for_model(family, **settings)
    except Exception as problem:  # a release that refuses what it does not know
        known = AutoConfig.for_model(family)
        dropped = [key for key in settings if not hasattr(known, key)]
        if not dropped:
            raise
        print(f"{family}: {problem}; again without {dropped}", flush=True)
        return AutoConfig.for_model(family, **{k: v for k, v in settings.items() if k not in dropped})


def make_with_seed(name, out, seed):
    config = make_config(name)
    config._attn_implementation = "eager"
    torch.manual_seed(seed * 1000 + sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    randomize_small_parameters(model)
    directory = out / name
    directory.mkdir(parents=True, exist_ok=True)
    extra, drop, quantization = {}, [], None
    if name.endswith("mxfp4"):
        extra, drop, quantization = quantize_mxfp4(model)
    elif not name.endswith("fp8"):
        round_to_bf16(model)
    model.save_pretrained(directory)
    if name.endswith("fp8"):
        values, quantization = quantize_fp8(directory)
        model = load_with(directory, values)
    elif extra:
        tensors = {k: v for k, v in load_tensors(directory / "model.safetensors").items() if k not in drop}
        save_file({**tensors, **extra}, directory / "model.safetensors", metadata={"format": "pt"})
    else:
        store_as_bf16(directory)
    if name.endswith("-given"):
        given = dict(settings_of(name), model_type=config.model_type, dtype="bfloat16")
        (directory / "config.json").write_text(json.dumps(given, indent=2) + "\n")
    if quantization:
        change_config(directory, quantization_config=quantization)
    copy_texts(DONOR, directory)
    tokenizer = tokenizer_of(DONOR)
    cases = [golden_case(model, tokenizer, text, tokenizer(text, add_special_tokens=False)["input_ids"][:60])
             for text in TEXTS]
    golden = dict(model_type=config.model_type, transformers=transformers.__version__, cases=cases,
                  chat="<|system|>Be brief.<|user|>Hi there<|assistant|>")
    (directory / "golden.json").write_text(json.dumps(golden, ensure_ascii=False))
    return min(case["greedy_min_gap"] for case in cases)


def store(source, out):
    """An existing fixture in BF16, with a new golden."""
    directory = out / source.name
    shutil.copytree(source, directory, dirs_exist_ok=True)
    store_as_bf16(directory)
    golden, gap = redone_golden(load(directory), directory, 6)
    (directory / "golden.json").write_text(json.dumps(golden, ensure_ascii=False))
    return f"stored in BF16, least greedy gap {gap:.5f}" + (" BELOW THE LIMIT" if gap < LEAST_GAP else "")


def fp8_scale(block):
    """The best of the scales with 4 significant bits: with them a product with an E4M3 number is exact in BF16."""
    least = float(block.abs().max()) / 448.0
    if least == 0.0:
        return torch.tensor(1.0)
    unit = 2.0 ** (math.floor(math.log2(least)) - 3)
    steps = math.ceil(least / unit)
    scales = [torch.tensor(unit * n) for n in range(steps, 2 * steps + 1) if n <= 16 or n % 2 == 0]
    scales = [scale for scale in scales if float((block / scale).abs().max()) <= 448.0]
    return min(scales, key=lambda s: float((((block / s).to(torch.float8_e4m3fn).float() * s - block) ** 2).sum()))


def fp8_blocks(weight, block=128):
    """E4M3 numbers, F32 scales, one a block, and the values they stand for."""
    rows, cols = weight.shape
    scales = torch.ones(-(-rows // block), -(-cols // block))
    codes, values = torch.empty(rows, cols, dtype=torch.uint8), torch.empty(rows, cols)
    for r in range(scales.shape[0]):
        for c in range(scales.shape[1]):
            at = (slice(r * block, (r + 1) * block), slice(c * block, (c + 1) * block))
            scale = fp8_scale(weight[at])
            numbers = (weight[at] / scale).to(torch.float8_e4m3fn)
            scales[r, c], values[at], codes[at] = scale, numbers.float() * scale, numbers.view(torch.uint8)
    if not torch.isfinite(values).all() or not torch.equal(values, values.to(torch.bfloat16).float()):
        raise RuntimeError("a weight in FP8 is not exact in BF16")
    return codes.view(torch.float8_e4m3fn), scales, values


def is_fp8_weight(name):
    return name.endswith(".weight") and ("_proj." in name or ".experts." in name)


@torch.no_grad()
def window_loss(logits, ids):
    return float(torch.nn.functional.cross_entropy(logits[:-1].double(), ids[1:], reduction="mean"))


@torch.no_grad()
def heldout_losses(before, after, heldout, window):
    """Mean loss of both models over the windows, and KL(before || after) in nats per token."""
    losses, divergence, count = [0.0, 0.0], 0.0, len(heldout) // window
    for i in range(count):
        ids = heldout[i * window:(i + 1) * window]
        logits = [model(ids[None], use_cache=False).logits[0].float() for model in (before, after)]
        losses = [total + window_loss(rows, ids) for total, rows in zip(losses, logits)]
        p, q = (torch.log_softmax(rows.double(), -1) for rows in logits)
        divergence += float((p.exp() * (p - q)).sum(-1).mean())
    return losses[0] / count, losses[1] / count, divergence / count


def store_in_fp8(source, out):
    """A model's linear weights in E4M3 with a scale per block of 128 by 128, and its golden computed anew."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    directory = out / source.name
    shutil.copytree(source, directory, dirs_exist_ok=True)
    tensors, values = load_tensors(directory / "model.safetensors"), {}
    before, kept = load_with(directory, {}), []
    for name, tensor in list(tensors.items()):
        if is_fp8_weight(name):
            tensors[name], tensors[name + "_scale_inv"], values[name] = fp8_blocks(tensor.float())
        elif tensor.dim() == 2:
            kept.append(name.removesuffix(".weight"))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    change_config(directory, quantization_config=dict(
        quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128],
        modules_to_not_convert=kept + ["lm_head"]))
    after = load_with(directory, values)
    golden, gap = redone_golden(after, directory, 5)
    golden["compute"] = "float32 on the stored float8 weights"
    heldout = torch.frombuffer(bytearray((directory / "heldout.u16").read_bytes()), dtype=torch.int16).long() & 0xFFFF
    text = golden["heldout"]
    first, second, divergence = heldout_losses(before, after, heldout[:text["tokens"]], text["window"])
    stored, text["nll"] = text["nll"], round(second, 5)
    (directory / "golden.json").write_text(json.dumps(golden, ensure_ascii=False))
    size = (directory / "model.safetensors").stat().st_size
    return (f"stored in FP8, {size} bytes, least greedy gap {gap:.5f}; heldout loss {first:.5f} before (golden {stored}), "
            f"{second:.5f} after; KL {divergence:.6f} nats per token")


def run_job(job, arguments):
    torch.set_num_threads(1)
    begin = time.monotonic()
    try:
        line = job(*arguments)
    except Exception as problem:  # one family's trouble must not cost the others
        traceback.print_exc()
        line = f"FAILED {problem}"
    name = arguments[0] if isinstance(arguments[0], str) else arguments[0].name
    print(f"{name:20} {line} ({time.monotonic() - begin:.1f} s)", flush=True)


def run_all(jobs):
    """One process per job, as many at a time as there are cores: a crash costs its own job alone."""
    context, running = multiprocessing.get_context("fork"), []
    for job in jobs:
        while len(running) >= max(2, os.cpu_count() or 1):
            time.sleep(0.05)
            running = [process for process in running if process.is_alive()]
        process = context.Process(target=run_job, args=job)
        process.start()
        running.append(process)
    for process in running:
        process.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="of MODELS or VARIANTS; none: all of MODELS")
    parser.add_argument("--variants", action="store_true", help="all of VARIANTS too")
    parser.add_argument("--store", nargs="+", type=pathlib.Path, default=[], metavar="FOLDER")
    parser.add_argument("--fp8", nargs="+", type=pathlib.Path, default=[], metavar="FOLDER")
    options = parser.parse_args()
    unknown = set(options.names) - set(MODELS) - set(VARIANTS)
    if unknown:
        parser.error(f"no such model: {sorted(unknown)}")
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [(store_in_fp8, (folder.resolve(), options.out)) for folder in options.fp8]
    jobs += [(store, (folder.resolve(), options.out)) for folder in options.store]
    names = list(options.names or MODELS) + (list(VARIANTS) if options.variants else [])
    jobs += [(make, (name, options.out)) for name in dict.fromkeys(names)]
    run_all(jobs)


if __name__ == "__main__":
    main()
