// SPDX-License-Identifier: MIT
#include "cli/foreign_flags.h"

#include <algorithm>
#include <iterator>

#include "base/format.h"

namespace cheetah {
namespace {

struct Foreign {
  const char* flag;
  const char* answer;
};

// Flags with another meaning or unit here; those that mean the same are accepted as aliases.
constexpr Foreign kForeign[] = {
    {"--gpu-memory-utilization",
        "give the cache's size with --kv-memory 8GiB; without it, it is taken from what is free"},
    {"--mem-fraction-static",
        "give the cache's size with --kv-memory 8GiB; without it, it is taken from what is free"},
    {"--kv-cache-free-gpu-memory-fraction",
        "give the cache's size with --kv-memory 8GiB; without it, it is taken from what is free"},
    {"--kv-cache-memory-bytes", "it is --kv-memory SIZE"},
    {"--swap-space", "--preemption swap keeps pages in host memory"},
    {"--tensor-parallel-size",
        "one process uses one GPU; 'cheetah cluster up' spreads requests over processes"},
    {"--tp", "one process uses one GPU; 'cheetah cluster up' spreads requests over processes"},
    {"--tp-size", "one process uses one GPU; 'cheetah cluster up' spreads requests over processes"},
    {"--pipeline-parallel-size",
        "one process uses one GPU; 'cheetah cluster up' spreads requests over processes"},
    {"--data-parallel-size", "'cheetah cluster up --prefill 0 --decode N' runs N workers behind one router"},
    {"--dp-size", "'cheetah cluster up --prefill 0 --decode N' runs N workers behind one router"},
    {"--split-mode", "one process uses one GPU"},
    {"--tensor-split", "one process uses one GPU"},
    {"--main-gpu", "CUDA_VISIBLE_DEVICES chooses the GPU"},
    {"--n-gpu-layers", "all layers are on the GPU (--device cuda) or on the CPU (--device cpu)"},
    {"--gpu-layers", "all layers are on the GPU (--device cuda) or on the CPU (--device cpu)"},
    {"--quantization", "the file's own types are used; --dtype q8_0, q4_k or fp8 converts while loading"},
    {"--load-format", "the format is recognised from the files"},
    {"--enable-prefix-caching", "the prefix cache is on; --no-prefix-cache turns it off"},
    {"--no-enable-prefix-caching", "it is --no-prefix-cache"},
    {"--disable-radix-cache", "it is --no-prefix-cache"},
    {"--enable-chunked-prefill", "prompts are always computed in chunks; --step-target-ms bounds a step"},
    {"--chunked-prefill-size", "--max-batch-tokens bounds a step's tokens, --step-target-ms its time"},
    {"--ubatch-size", "--max-batch-tokens bounds a step's tokens"},
    {"--batch-size", "--max-batch-tokens bounds a step's tokens, --max-sequences its sequences"},
    {"--schedule-policy", "requests have priorities, and --ageing bounds their wait; docs/engine.md"},
    {"--scheduling-policy", "requests have priorities, and --ageing bounds their wait; docs/engine.md"},
    {"--enforce-eager", "not needed: steps without a recorded graph run without one"},
    {"--disable-cuda-graph", "not needed: steps without a recorded graph run without one"},
    {"--trust-remote-code", "code of a model's repository is never run"},
    {"--api-key",
        "a key on the command line is seen by every user: set CHEETAH_API_KEY or use --api-key-file FILE"},
    {"--ssl-keyfile", "it is --tls-key"},
    {"--ssl-certfile", "it is --tls-cert"},
    {"--ssl-key-file", "it is --tls-key"},
    {"--ssl-cert-file", "it is --tls-cert"},
    {"--allowed-origins", "it is --cors-origin"},
    {"--disable-log-requests", "--log-level warning leaves requests out"},
    {"--uvicorn-log-level", "it is --log-level"},
    {"--reasoning-parser", "reasoning is recognised from the model's template"},
    {"--reasoning-budget", "send reasoning_budget with the request"},
    {"--tool-call-parser", "tool calls are recognised from the model's template"},
    {"--enable-auto-tool-choice", "tools are always on"},
    {"--jinja", "the model's chat template is always used"},
    {"--guided-decoding-backend", "grammars are built in: response_format, tools; docs/engine.md"},
    {"--grammar", "send response_format or a grammar with the request; docs/engine.md"},
    {"--max-lora-rank", "adapters (LoRA) are not supported"},
    {"--enable-lora", "adapters (LoRA) are not supported"},
    {"--lora", "adapters (LoRA) are not supported"},
    {"--speculative-config", "drafts from the text itself are on by default; --draft-max bounds them"},
    {"--speculative-algorithm", "drafts from the text itself are on by default; --draft-max bounds them"},
    {"--speculative-num-draft-tokens", "it is --draft-max"},
    {"--model-draft", "drafts come from the text itself, not from a second model; --draft-max bounds them"},
    {"--mmproj", "images are not supported"},
    {"--limit-mm-per-prompt", "images are not supported"},
    {"--hf-repo", "name the model ORG/NAME:Q8_0 after 'cheetah pull ORG/NAME:Q8_0'"},
    {"--hf-file", "name the model ORG/NAME/FILE.gguf"},
    {"--download-dir", "HF_HOME says where the hub cache is"},
    {"--revision", "name the model ORG/NAME@REVISION"},
    {"--tokenizer", "the model's own tokenizer is used"},
    {"--tokenizer-mode", "the model's own tokenizer is used"},
    {"--n-predict", "it is --max-tokens"},
    {"--flash-attn", "not needed: the fastest attention is chosen"},
    {"--attention-backend", "not needed: the fastest attention is chosen"},
    {"--mlock", "weights are mapped, and read ahead"},
    {"--no-mmap", "weights are mapped, and read ahead"},
    {"--cont-batching", "batches are always continuous; --policy changes it"},
    {"--metrics", "/metrics is always there"},
    {"--enable-metrics", "/metrics is always there"},
    {"--verbose-prompt", "'cheetah tokenize' and 'cheetah render' show a prompt"},
    {"--keep-alive", "a model stays loaded until 'serve' ends"},
    {"--num-prompts", "it is --requests"},
    {"--request-rate", "it is --rate"},
    {"--max-concurrency", "it is --concurrency"},
    {"--dataset-name", "it is --dataset"},
    {"--dataset-path", "--dataset takes a JSON Lines file"},
    {"--random-input-len", "it is --prompt-tokens"},
    {"--random-output-len", "it is --output-tokens"},
    {"--goodput", "--slo-ttft and --slo-tpot set the goals, in milliseconds"},
    {"--base-url", "it is --url"},
    {"-p", "-p is the prompt of 'cheetah generate'; a port is --port"},
    {"-ngl", "all layers are on the GPU (--device cuda) or on the CPU (--device cpu)"},
};

}  // namespace

std::optional<std::string> foreign_flag(const std::string& flag) {
  const auto* found =
      std::ranges::find(kForeign, flag, [](const Foreign& each) { return std::string(each.flag); });
  return found == std::end(kForeign) ? std::nullopt : std::optional<std::string>(found->answer);
}

}  // namespace cheetah
