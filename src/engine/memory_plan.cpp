// SPDX-License-Identifier: MIT
#include "engine/memory_plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "gpu/device.h"
#include "hw/cpu.h"
#include "model/weights.h"

namespace cheetah {
namespace {

constexpr int64_t kMargin = int64_t{64}
                            << 20;  // for everything that is neither weights, cache nor activations

void check(const EngineConfig& config) {
  if (config.page_tokens < 8 || config.page_tokens > 128)
    throw Error(format("a page of {} tokens: expected 8 to 128", config.page_tokens));
  constexpr std::array kCacheTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8};
  if (std::ranges::find(kCacheTypes, config.kv_dtype) == kCacheTypes.end())
    throw Error(
        format("the cache cannot hold {}: expected F32, F16, BF16, F8_E4M3 or I8", name_of(config.kv_dtype)));
  if (config.max_sequences < 1 || config.max_batch_tokens < 1 || config.max_queue < 1)
    throw Error("the limits on sequences, batch tokens and queue must be at least 1");
  if (config.max_context < 0 || config.kv_bytes < 0)
    throw Error("the context and the cache cannot have a negative size");
  if (!(config.step_target_ms > 0) || !(config.ageing_s > 0))
    throw Error("the step target and the ageing time must be more than 0");
}

// Rows of the widest activations of a full step, and the logits of a full batch.
int64_t activation_bytes(const ModelTraits& traits, const EngineConfig& config) {
  const int64_t inner = traits.moe.experts > 0
                            ? traits.moe.top_k * traits.moe.expert_hidden + traits.moe.shared_hidden
                            : traits.ffn;
  const int64_t qkv = (traits.heads + 2 * traits.kv_heads) * traits.head_dim;
  const int64_t width = 6 * traits.hidden + 3 * std::max(inner, traits.ffn) + 3 * qkv;
  return 4 * (config.max_batch_tokens * width + config.max_sequences * traits.vocab);
}

// Longrope computes a sequence that turns in one piece: its windows cannot give back pages on the way.
KvLayout layout_of(const ModelTraits& traits) {
  return traits.rope.long_inv_freq.empty() ? groups_by_window(traits) : one_group(traits);
}

// Pages that one sequence of `tokens` takes at most: all of them in groups without a window; in the others
// the window, the smallest chunk (8 tokens) and what is in the window's first page.
int64_t pages_of_context(const KvLayout& layout, int64_t tokens, int64_t page_tokens) {
  const auto pages = [&](int64_t count) { return (count + page_tokens - 1) / page_tokens; };
  int64_t sum = 0;
  for (const int64_t window : layout.windows)
    sum += window == 0 ? pages(tokens) : std::min(pages(tokens), pages(window + 8) + 1);
  return sum;
}

// The longest that fits.
int64_t context_within(const KvLayout& layout, int64_t num_pages, int64_t wanted, int64_t page_tokens) {
  int64_t low = 0, high = (wanted + page_tokens - 1) / page_tokens;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (pages_of_context(layout, middle * page_tokens, page_tokens) <= num_pages)
      low = middle;
    else
      high = middle - 1;
  }
  return std::min(wanted, low * page_tokens);
}

std::string describe(const KvLayout& layout) {
  if (layout.num_groups() == 1) return "";
  return format(", {} layers each: {} lists a sequence, {} of them windowed", layout.slots,
      layout.num_groups(), layout.num_window_groups());
}

}  // namespace

MemoryPlan plan_memory(
    const ModelTraits& traits, int64_t unread_weight_bytes, const EngineConfig& config, int64_t free_bytes) {
  check(config);
  MemoryPlan plan{.config = config, .layout = layout_of(traits), .num_pages = 0, .rows = {}};
  EngineConfig& resolved = plan.config;
  resolved.max_batch_tokens = std::max(config.max_batch_tokens, config.max_sequences);
  const int64_t wanted_context =
      config.max_context > 0 ? std::min(config.max_context, traits.max_positions) : traits.max_positions;
  const int64_t page_bytes =
      config.page_tokens * plan.layout.slots * kv_bytes_per_layer(traits, config.kv_dtype);
  const int64_t activations = activation_bytes(traits, resolved);
  const int64_t context_pages = pages_of_context(plan.layout, wanted_context, config.page_tokens);
  const auto bytes = [](int64_t count) { return human_bytes(static_cast<double>(count)); };
  if (config.kv_bytes > 0) {
    if (config.kv_bytes < page_bytes)
      throw Error(format("--kv-memory: {} is smaller than one page, which takes {}", bytes(config.kv_bytes),
          bytes(page_bytes)));
    if (config.kv_bytes > free_bytes)
      throw Error(format(
          "--kv-memory: {} is more than the {} that are free", bytes(config.kv_bytes), bytes(free_bytes)));
    plan.num_pages = config.kv_bytes / page_bytes;
  } else {
    // On the host half of what is left: prompts come and go, the machine has other work; one whole context
    // may take all. A device has no other work, but its kernels' scratch grows with the first large steps.
    const int64_t left = std::max<int64_t>(0, free_bytes - unread_weight_bytes - activations - kMargin);
    const int64_t share = config.device == DeviceKind::kCuda ? left / 10 * 9 : left / 2;
    const int64_t taken = std::max(share / page_bytes, std::min(context_pages, left / page_bytes));
    plan.num_pages = std::min(taken, context_pages * config.max_sequences);
  }
  resolved.max_context = context_within(plan.layout, plan.num_pages, wanted_context, config.page_tokens);
  if (resolved.max_context < 1)
    throw Error(format("no memory is left for the context: {} are free, the weights take {} and one page {}",
        bytes(free_bytes), bytes(unread_weight_bytes), bytes(page_bytes)));
  resolved.kv_bytes = plan.num_pages * page_bytes;
  const std::string cut = resolved.max_context < wanted_context
                              ? format("{} tokens, cut from {} to fit", resolved.max_context, wanted_context)
                          : config.max_context > traits.max_positions
                              ? format("{} tokens, the most the model was made for; {} were asked for",
                                    resolved.max_context, config.max_context)
                              : format("{} tokens", resolved.max_context);
  plan.rows = {
      {config.device == DeviceKind::kCuda ? "free memory of the device" : "free memory", free_bytes, ""},
      {config.device == DeviceKind::kCuda ? "weights" : "weights still to read", unread_weight_bytes, ""},
      {"activations", activations,
          format("{} tokens per step, {} sequences", resolved.max_batch_tokens, resolved.max_sequences)},
      {"key and value cache", resolved.kv_bytes,
          format("{} pages of {} tokens, {}{}", plan.num_pages, config.page_tokens, name_of(config.kv_dtype),
              describe(plan.layout))},
      {"one context", context_pages * page_bytes, cut},
      {"left over", free_bytes - unread_weight_bytes - activations - resolved.kv_bytes, ""}};
  return plan;
}

MemoryPlan plan_memory(const Model& model, const EngineConfig& config) {
  if (config.device == DeviceKind::kCuda) {
    MemoryPlan plan = plan_memory(model.traits(), model.weight_bytes(), config, gpu::device_memory().free);
    plan.rows.front().note = gpu::query_device().name;
    return plan;
  }
  const int64_t unread = std::max<int64_t>(0, model.weight_bytes() - model.weights().owned.size());
  return plan_memory(model.traits(), unread, config, available_memory_bytes());
}

}  // namespace cheetah
