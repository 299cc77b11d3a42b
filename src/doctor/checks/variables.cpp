// SPDX-License-Identifier: MIT
// CFG: other environment variables of the job, or of this shell.
#include <algorithm>

#include "base/format.h"
#include "doctor/check.h"
#include "doctor/checks/nearest.h"
#include "doctor/facts/options.h"

namespace cheetah::doctor {
namespace {

constexpr std::string_view kAllocatorKeys[] = {"max_split_size_mb", "expandable_segments",
    "garbage_collection_threshold", "roundup_power2_divisions", "backend", "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
    "roundup_bypass_threshold_mb", "max_non_split_rounding_mb", "per_process_memory_fraction",
    "use_cuda_host_register", "throw_on_cudamalloc_oom", "graph_capture_record_stream_reuse"};

Outcome debugging_is_off(const Facts& facts) {
  if (!facts.software.environment) return without(facts.software.environment);
  std::vector<Subject> left;
  const std::pair<const char*, const char*> switches[] = {{"CUDA_LAUNCH_BLOCKING", "0"},
      {"TORCH_DISTRIBUTED_DEBUG", "OFF"}, {"TORCH_USE_CUDA_DSA", "0"},
      {"PYTORCH_NO_CUDA_MEMORY_CACHING", "0"}, {"TORCH_SHOW_CPP_STACKTRACES", "0"},
      {"NCCL_LAUNCH_RACE_FATAL", "0"}, {"CUDA_DEVICE_WAITS_ON_EXCEPTION", "0"}, {"ASAN_OPTIONS", ""},
      {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "0"}};
  for (const auto& [name, off] : switches)
    if (const auto value = facts.software.variable(name); value && *value != off)
      left.push_back({name, *value});
  Outcome outcome = bad_if_any(std::move(left), "debugging switches are on", "no debugging switch is on");
  outcome.evidence.push_back(
      {facts.software.environment.source(), format("{} variables", facts.software.environment->size())});
  return outcome;
}

Outcome allocator_keys_are_right(const Facts& facts) {
  const auto current = facts.software.variable("PYTORCH_ALLOC_CONF"),
             old = facts.software.variable("PYTORCH_CUDA_ALLOC_CONF");
  return when_known(
      [](const std::string& text) {
        std::vector<Subject> wrong;
        for (const std::string& key : keys_of_list(text)) {
          if (std::find(std::begin(kAllocatorKeys), std::end(kAllocatorKeys), key) !=
              std::end(kAllocatorKeys))
            continue;
          const std::string_view meant = nearest(key, kAllocatorKeys);
          wrong.push_back({key, meant.empty() ? "not known" : format("did you mean {}?", meant)});
        }
        return bad_if_any(std::move(wrong), "PyTorch's allocator does not know these keys",
            "PyTorch's allocator knows its keys");
      },
      current ? current : old);
}

Outcome visible_gpus_exist(const Facts& facts) {
  return when_known(
      [&](const std::string& list, const std::vector<Gpu>& gpus) {
        if (list.empty() || list == "-1" || list == "NoDevFiles")
          return bad("CUDA_VISIBLE_DEVICES hides every GPU");
        std::vector<Subject> lost;
        for (const std::string_view part : split(list, ',')) {
          const auto index = to_integer(part);
          if (index && (*index < 0 || *index >= static_cast<int64_t>(gpus.size())))
            lost.push_back({std::string(part), "no such GPU"});
        }
        return bad_if_any(std::move(lost),
            "CUDA_VISIBLE_DEVICES names GPUs that are not here; it and all after it vanish",
            format("CUDA_VISIBLE_DEVICES={}", list));
      },
      facts.software.variable("CUDA_VISIBLE_DEVICES"), facts.gpu.gpus);
}

Outcome one_connection_is_deliberate(const Facts& facts) {
  return when_known(
      [&](const std::string& value) {
        for (const char* overlap : {"sequence_parallel", "tp_comm_overlap", "overlap_grad_reduce"})
          if (value == "1" && facts.software.setting(overlap).is("true"))
            return good(format("CUDA_DEVICE_MAX_CONNECTIONS=1, as --{} asks for", overlap));
        return value == "1" ? bad("CUDA_DEVICE_MAX_CONNECTIONS=1 makes streams wait for each other; right "
                                  "for Megatron-style overlap alone",
                                  {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}})
                            : good(format("CUDA_DEVICE_MAX_CONNECTIONS={}", value));
      },
      facts.software.variable("CUDA_DEVICE_MAX_CONNECTIONS"));
}

Outcome modules_load_lazily(const Facts& facts) {
  return when_known(
      [](const std::string& value) {
        return judge(value != "EAGER", format("CUDA_MODULE_LOADING={}", value));
      },
      facts.software.variable("CUDA_MODULE_LOADING"));
}

Outcome jit_cache_is_on(const Facts& facts) {
  return when_known(
      [](const std::string& value) {
        return judge(value == "0", value == "0"
                                       ? "compiled kernels are kept"
                                       : "CUDA_CACHE_DISABLE=1: kernels are compiled again at each start");
      },
      facts.software.variable("CUDA_CACHE_DISABLE"));
}

Outcome omp_is_bound(const Facts& facts) {
  return when_known(
      [](const std::string& value) {
        const bool passive = value == "passive" || value == "PASSIVE";
        return passive ? bad("OMP_WAIT_POLICY=passive: threads sleep between parallel regions and wake late")
                       : good(format("OMP_WAIT_POLICY={}", value));
      },
      facts.software.variable("OMP_WAIT_POLICY"));
}

Outcome ucx_uses_rdma(const Facts& facts) {
  return when_known(
      [&](const std::string& transports, const std::vector<RdmaPort>&) {
        const bool rdma = ucx_allows_rdma(transports);
        return judge(rdma,
            format("UCX_TLS={}{}", transports, rdma ? "" : ": RDMA is left out although an adapter is here"));
      },
      facts.software.variable("UCX_TLS"), facts.network.rdma);
}

Outcome mps_shares_add_up(const Facts& facts) {
  return when_known(
      [&](const std::string& share) {
        const auto percent = to_number(share);
        if (!percent) return bad(format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={} is no number", share));
        size_t clients = 1;
        for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
          clients = std::max(clients, gpu.processes().size());
        return judge(*percent * static_cast<double>(clients) <= 100,
            format("{} clients of {} % each", clients, share));
      },
      facts.software.variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
}

Outcome memory_is_not_hoarded(const Facts& facts) {
  return when_known(
      [](const std::string& value) {
        return judge(value == "true" || value == "1", format("TF_FORCE_GPU_ALLOW_GROWTH={}", value));
      },
      facts.software.variable("TF_FORCE_GPU_ALLOW_GROWTH"));
}

constexpr Check kChecks[] = {
    {"CFG-26", Layer::kConfiguration, Level::kFail, 0.40, "Debugging is off",
        "CUDA_LAUNCH_BLOCKING waits for every kernel; the others check, log or disable caching.",
        "several times slower", FixKind::kSetting, "unset {it}", "", "L01", debugging_is_off},
    {"CFG-28", Layer::kConfiguration, Level::kWarn, 0.05, "PyTorch's allocator knows its keys",
        "A misspelt key is refused at start, or ignored.", "fragmentation", FixKind::kSetting,
        "PYTORCH_ALLOC_CONF=expandable_segments:True", "", "F03", allocator_keys_are_right},
    {"CFG-38", Layer::kConfiguration, Level::kFail, 0.50, "The visible GPUs exist",
        "CUDA stops reading the list at the first GPU it does not find.", "fewer GPUs than meant",
        FixKind::kSetting, "export CUDA_VISIBLE_DEVICES= existing indices", "", "G07", visible_gpus_exist},
    {"CFG-39", Layer::kConfiguration, Level::kWarn, 0.08, "Streams have connections of their own",
        "With one hardware queue independent streams run one after the other.",
        "less overlap of copies and kernels", FixKind::kSetting,
        "unset CUDA_DEVICE_MAX_CONNECTIONS, unless sequence-parallel overlap asks for it", "", "K14",
        one_connection_is_deliberate},
    {"CFG-40", Layer::kConfiguration, Level::kWarn, 0.02, "Kernels load when needed",
        "Eager loading reads every kernel of every library at start.",
        "seconds of start-up, gigabytes of memory", FixKind::kSetting, "unset CUDA_MODULE_LOADING", "", "P08",
        modules_load_lazily},
    {"CFG-41", Layer::kConfiguration, Level::kWarn, 0.03, "Compiled kernels are kept",
        "Without the cache PTX is compiled at every start.", "minutes of start-up", FixKind::kSetting,
        "unset CUDA_CACHE_DISABLE", "", "P08", jit_cache_is_on},
    {"CFG-42", Layer::kConfiguration, Level::kInfo, 0.03, "OpenMP threads wait awake",
        "Sleeping threads wake in tens of microseconds, at each parallel region.",
        "short regions several times slower", FixKind::kSetting,
        "export OMP_WAIT_POLICY=active on dedicated cores", "", "F04", omp_is_bound},
    {"CFG-43", Layer::kConfiguration, Level::kWarn, 0.20, "UCX may use RDMA",
        "A transport list without RDMA sends KV caches and messages by TCP.",
        "several times slower transfers", FixKind::kSetting, "unset UCX_TLS, or add rc", "", "P04",
        ucx_uses_rdma},
    {"CFG-44", Layer::kConfiguration, Level::kWarn, 0.05, "MPS shares add up",
        "Shares above 100 % promise what is not there.", "no guaranteed share", FixKind::kSetting,
        "lower CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "", "G02", mps_shares_add_up},
    {"CFG-32", Layer::kConfiguration, Level::kInfo, 0.05, "No framework takes all GPU memory",
        "TensorFlow takes a whole GPU unless told to grow.", "the other process does not start",
        FixKind::kSetting, "export TF_FORCE_GPU_ALLOW_GROWTH=true", "", "G10", memory_is_not_hoarded},
};

}  // namespace

std::span<const Check> variable_checks() { return kChecks; }

}  // namespace cheetah::doctor
