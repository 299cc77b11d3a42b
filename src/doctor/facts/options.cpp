// SPDX-License-Identifier: MIT
#include "doctor/facts/options.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "doctor/facts/software.h"

namespace cheetah::doctor {
namespace {

enum class Engine { kOther, kVllm, kSglang, kTensorRt, kLlama };

struct ShortOption {
  Engine engine;
  std::string_view flag, name;  // "" as a value's name: a switch
};
constexpr ShortOption kShort[] = {{Engine::kVllm, "tp", "tensor_parallel_size"},
    {Engine::kVllm, "pp", "pipeline_parallel_size"}, {Engine::kVllm, "dp", "data_parallel_size"},
    {Engine::kVllm, "dpl", "data_parallel_size_local"},
    {Engine::kVllm, "dcp", "decode_context_parallel_size"}, {Engine::kVllm, "q", "quantization"},
    {Engine::kVllm, "n", "nnodes"}, {Engine::kVllm, "r", "node_rank"},
    {Engine::kVllm, "ep", "enable_expert_parallel"}, {Engine::kVllm, "O", "compilation_config"},
    {Engine::kLlama, "c", "ctx_size"}, {Engine::kLlama, "b", "batch_size"},
    {Engine::kLlama, "ub", "ubatch_size"}, {Engine::kLlama, "np", "parallel"},
    {Engine::kLlama, "t", "threads"}, {Engine::kLlama, "tb", "threads_batch"},
    {Engine::kLlama, "ngl", "n_gpu_layers"}, {Engine::kLlama, "fa", "flash_attn"},
    {Engine::kLlama, "ctk", "cache_type_k"}, {Engine::kLlama, "ctv", "cache_type_v"},
    {Engine::kLlama, "sm", "split_mode"}, {Engine::kLlama, "ts", "tensor_split"},
    {Engine::kLlama, "mg", "main_gpu"}, {Engine::kLlama, "m", "model"}, {Engine::kLlama, "hf", "hf_repo"},
    {Engine::kLlama, "cb", "cont_batching"}, {Engine::kLlama, "nocb", "no_cont_batching"}};

// Switches take no value: the word after one is the model's name or the next option.
constexpr std::string_view kSwitches[] = {"enforce_eager", "trust_remote_code", "enable_prefix_caching",
    "enable_chunked_prefill", "enable_expert_parallel", "disable_radix_cache", "disable_cuda_graph",
    "disable_overlap_schedule", "disable_custom_all_reduce", "enable_dp_attention", "enable_torch_compile",
    "enable_mixed_chunk", "enable_metrics", "headless", "async_scheduling", "disable_log_stats",
    "disable_log_requests", "enable_lora", "enable_auto_tool_choice", "sequence_parallel",
    "enable_sleep_mode", "cont_batching", "mlock", "mmap", "use_flash_attn", "bf16", "fp16",
    "skip_tokenizer_init", "enable_p2p_check", "enable_hierarchical_cache", "multi_node", "numa_aware"};

Engine engine_of(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (contains(word, "vllm")) return Engine::kVllm;
    if (contains(word, "sglang")) return Engine::kSglang;
    if (contains(word, "trtllm") || contains(word, "tensorrt_llm")) return Engine::kTensorRt;
    if (contains(word, "llama-server") || contains(word, "llama-cli") || contains(word, "llama_cpp"))
      return Engine::kLlama;
  }
  return Engine::kOther;
}

bool is_switch(std::string_view name) {
  return std::find(std::begin(kSwitches), std::end(kSwitches), name) != std::end(kSwitches);
}

bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !to_number(word);  // "-1" is a value
}

std::string long_name(Engine engine, std::string_view flag) {
  for (const ShortOption& option : kShort)
    if (option.engine == engine && option.flag == flag) return std::string(option.name);
  return "";
}

// The option's own name in one spelling; "" when the word is none that we know.
std::string option_name(Engine engine, std::string_view word) {
  const std::string_view bare = word.substr(0, word.find('='));
  if (starts_with(bare, "--")) {
    // vLLM's dotted options set one field of a structure.
    std::string name = setting_name(bare.substr(2));
    if (engine == Engine::kSglang && name == "tp") return "tp_size";
    return name;
  }
  if (engine == Engine::kVllm && starts_with(bare, "-O") && bare.size() > 2) return "compilation_config";
  return long_name(engine, bare.substr(1));
}

// "-O3" carries its value in the word.
std::string joined_value(Engine engine, std::string_view word) {
  const size_t equals = word.find('=');
  if (equals != std::string_view::npos) return std::string(word.substr(equals + 1));
  return engine == Engine::kVllm && starts_with(word, "-O") && word.size() > 2 ? std::string(word.substr(2))
                                                                               : "";
}

bool has_joined_value(Engine engine, std::string_view word) {
  return contains(word, "=") || (engine == Engine::kVllm && starts_with(word, "-O") && word.size() > 2);
}

}  // namespace

std::vector<std::string> command_words(std::string_view cmdline) {
  const bool from_kernel = contains(cmdline, std::string_view("\0", 1));
  const char separator = from_kernel ? '\0' : '\n';
  if (!cmdline.empty() && cmdline.back() == separator) cmdline.remove_suffix(1);
  std::vector<std::string> words;
  if (cmdline.empty()) return words;
  for (const std::string_view word : split(cmdline, separator)) words.push_back(printable(word, 4096));
  return words;
}

Fields engine_settings(const std::vector<std::string>& words) {
  const Engine engine = engine_of(words);
  Fields settings;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") break;
    if (!is_option(words[i])) continue;
    std::string name = option_name(engine, words[i]);
    if (name.empty()) continue;
    std::string value = "true";
    if (has_joined_value(engine, words[i])) {
      value = joined_value(engine, words[i]);
    } else if (!is_switch(name) && !starts_with(name, "no_")) {
      // An option may take several values: the last is what a limit or a size ends with.
      while (i + 1 < words.size() && !is_option(words[i + 1]) && (value == "true" || to_number(words[i + 1])))
        value = words[++i];
    }
    if (starts_with(name, "no_")) {
      name = name.substr(3);
      value = "false";
    }
    settings[name] = value;
  }
  return settings;
}

NameList parse_name_list(std::string_view text) {
  NameList list;
  text = trimmed(text);
  if (!text.empty() && text[0] == '^') {
    list.excludes = true;
    text.remove_prefix(1);
  }
  if (!text.empty() && text[0] == '=') {
    list.exact = true;
    text.remove_prefix(1);
  }
  for (const std::string_view part : split(text, ','))
    if (const std::string_view name = trimmed(part); !name.empty()) list.names.emplace_back(name);
  return list;
}

bool ucx_allows_rdma(std::string_view transports) {
  constexpr std::string_view kRdma[] = {"all", "ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "ud",
      "ud_v", "ud_x", "ud_verbs", "ud_mlx5", "dc", "dc_x", "dc_mlx5", "srd", "gga_mlx5"};
  const NameList list = parse_name_list(transports);
  const auto names = [&](std::string_view wanted) {
    return std::any_of(list.names.begin(), list.names.end(), [&](std::string_view name) {
      if (!name.empty() && name[0] == '\\') name.remove_prefix(1);  // exactly this transport, no aliases
      return name.substr(0, name.find(':')) == wanted;
    });
  };
  if (list.excludes) return !names("ib") && !(names("rc") && names("ud") && names("dc")) && !names("all");
  return std::any_of(std::begin(kRdma), std::end(kRdma), names);
}

std::vector<std::string> keys_of_list(std::string_view text) {
  std::vector<std::string> keys;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    const std::string_view part = trimmed(text.substr(begin, i - begin));
    if (!part.empty()) keys.emplace_back(trimmed(part.substr(0, part.find(':'))));
    begin = i + 1;
  }
  return keys;
}

std::optional<int64_t> nccl_integer(std::string_view text) {
  const std::string copy(trimmed(text));
  char* end = nullptr;
  const long long value = std::strtoll(copy.c_str(), &end, 0);
  return copy.empty() || *end != '\0' ? std::nullopt : std::optional<int64_t>(value);
}

bool is_plugin_variable(std::string_view name) {
  for (const char* prefix :
      {"NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_TCPX", "NCCL_SHIMNET_", "NCCL_TUNER_",
          "NCCL_NET_PLUGIN_", "NCCL_PROFILER_", "NCCL_INSPECTOR_", "NCCL_PLUGIN_", "NCCL_OFI_", "NCCL_SHARP_",
          "NCCL_UCX_", "NCCL_MSCCL", "NCCL_TESTS_", "NCCL_GIB_", "NCCL_SPCX_", "NCCL_RAIL_", "NCCL_ENV_"})
    if (starts_with(name, prefix)) return true;
  return false;
}

}  // namespace cheetah::doctor
