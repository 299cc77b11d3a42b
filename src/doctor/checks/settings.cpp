// SPDX-License-Identifier: MIT
// CFG: settings of a serving engine or a trainer, from its command line (--pid) or a file (--config).
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/facts/options.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastBatchedTokens = 2048;
constexpr double kMostBubble = 0.20;
constexpr double kLeastBuckets = 4;
constexpr double kMostOffloadShare = 0.70;

// The first of several spellings that is set: engines name the same thing differently.
Value<std::string> setting(const Facts& facts, std::initializer_list<const char*> names) {
  Value<std::string> last;
  for (const char* name : names) {
    last = facts.software.setting(name);
    if (last) return last;
  }
  return last;
}

Value<double> number_setting(const Facts& facts, std::initializer_list<const char*> names) {
  const auto text = setting(facts, names);
  if (!text)
    return text.is_unreadable() ? Value<double>::unreadable(text.source(), text.reason())
                                : Value<double>::absent(text.source(), text.reason());
  const auto number = to_number(*text);
  if (!number)
    return Value<double>::unreadable(text.source(), format("expected a number, found '{}'", *text));
  return {*number, text.source()};
}

bool is_on(std::string_view value) {
  return value == "true" || value == "True" || value == "1" || value == "yes" || value == "on";
}

Outcome backend_is_nccl(const Facts& facts) {
  if (!facts.has_gpu()) return not_applicable("there is no GPU");
  return when_known(
      [](const std::string& backend) {
        return judge(contains(backend, "nccl"), format("the process group uses {}", backend));
      },
      setting(facts, {"backend", "dist_backend", "distributed_backend_nccl", "process_group_backend"}));
}

Outcome loader_has_workers(const Facts& facts) {
  return when_known(
      [](double workers) { return judge(workers >= 1, format("the loader has {:.0f} workers", workers)); },
      number_setting(facts, {"num_workers", "dataloader_num_workers", "workers"}));
}

Outcome loader_pins(const Facts& facts) {
  return when_known([](const std::string& pin) { return judge(is_on(pin), format("pin_memory is {}", pin)); },
      setting(facts, {"pin_memory", "dataloader_pin_memory"}));
}

Outcome workers_persist(const Facts& facts) {
  return when_known(
      [](const std::string& value) { return judge(is_on(value), format("persistent_workers is {}", value)); },
      setting(facts, {"persistent_workers", "dataloader_persistent_workers"}));
}

Outcome loader_prefetches(const Facts& facts) {
  return when_known(
      [](double factor) {
        return judge(factor >= 2, format("each worker prefetches {:.0f} batches", factor));
      },
      number_setting(facts, {"prefetch_factor", "dataloader_prefetch_factor"}));
}

Outcome dtype_uses_tensor_cores(const Facts& facts) {
  const double cc = facts.gpu.compute_capability();
  if (cc == 0) return not_applicable("no GPU tells its compute capability");
  return when_known(
      [&](const std::string& dtype) {
        if (dtype == "float32" || dtype == "fp32" || dtype == "float")
          return bad(
              "weights and math are in 32 bits: tensor cores at an eighth of their rate, twice the bytes");
        const bool half = dtype == "float16" || dtype == "fp16" || dtype == "half";
        if (half && facts.trains() && cc >= 8.0)
          return bad("training in FP16 needs loss scaling; BF16 has the same speed without");
        return good(format("the data type is {}", dtype));
      },
      setting(facts, {"dtype", "torch_dtype", "precision", "mixed_precision"}));
}

Outcome float32_uses_tf32(const Facts& facts) {
  return when_known(
      [](const std::string& value) {
        return judge(value != "highest", format("float32 matrix products at precision '{}'", value));
      },
      setting(facts, {"float32_matmul_precision", "matmul_precision"}));
}

Outcome format_fits_the_gpu(const Facts& facts) {
  const double cc = facts.gpu.compute_capability();
  if (cc == 0) return not_applicable("no GPU tells its compute capability");
  return when_known(
      [&](const std::string& method) {
        const bool fp4 = contains(method, "fp4") || contains(method, "mxfp4"), fp8 = contains(method, "fp8");
        if (fp4 && cc < 10.0 && !contains(method, "marlin"))
          return bad(
              format("{} has no hardware below compute capability 10.0; this GPU has {:.1f}", method, cc));
        if (fp8 && cc < 8.9)
          return bad(
              format("{} has no hardware below compute capability 8.9; this GPU has {:.1f}", method, cc));
        if (contains(method, "int8") && cc >= 10.3) return bad("INT8 is slow on this generation; use FP8");
        return good(format("{} fits compute capability {:.1f}", method, cc));
      },
      setting(facts, {"quantization", "quant_method", "quant_algo"}));
}

Outcome graphs_are_on(const Facts& facts) {
  return when_known(
      [](const std::string& eager) {
        return judge(!is_on(eager), format("eager execution is {}", is_on(eager) ? "forced" : "off"));
      },
      setting(facts, {"enforce_eager", "disable_cuda_graph", "eager_mode"}));
}

Outcome graphs_cover_the_batch(const Facts& facts) {
  return when_known(
      [](double captured, double most) {
        return judge(captured >= std::min(most, 256.0),
            format("graphs up to {:.0f} of {:.0f} sequences", captured, most));
      },
      number_setting(facts, {"max_seq_len_to_capture_batch", "cuda_graph_max_bs", "cudagraph_capture_sizes",
                                "max_cudagraph_capture_size"}),
      number_setting(facts, {"max_num_seqs", "max_running_requests", "max_batch_size"}));
}

Outcome attention_is_fused(const Facts& facts) {
  return when_known(
      [](const std::string& backend) {
        std::string lower = backend;
        for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        const bool fused = contains(lower, "flash") || contains(lower, "fa3") || contains(lower, "fa2") ||
                           contains(lower, "cudnn") || contains(lower, "trtllm") ||
                           contains(lower, "triton") || contains(lower, "cutlass") ||
                           contains(lower, "xformers");
        return judge(fused, format("attention backend {}", backend));
      },
      setting(facts, {"attention_backend", "attn_implementation", "attn_backend"}));
}

Outcome optimizer_is_fused(const Facts& facts) {
  return when_known(
      [](const std::string& name) {
        return judge(contains(name, "fused") || contains(name, "apex") || contains(name, "8bit") ||
                         contains(name, "foreach"),
            format("the optimizer is {}", name));
      },
      setting(facts, {"optim", "optimizer"}));
}

Outcome buckets_overlap(const Facts& facts) {
  return when_known(
      [](double gradient_mb, double bucket_mb) {
        return judge(gradient_mb / std::max(bucket_mb, 1e-9) >= kLeastBuckets,
            format("{:.0f} MB of gradients in buckets of {:.0f} MB", gradient_mb, bucket_mb));
      },
      number_setting(facts, {"gradient_mb"}), number_setting(facts, {"bucket_cap_mb", "ddp_bucket_cap_mb"}));
}

Outcome memory_plan_fits(const Facts& facts) {
  const auto parameters = number_setting(facts, {"num_parameters"});
  const auto total = facts.gpu.count() > 0 ? facts.gpu.gpus->front().number("memory.total")
                                           : Value<double>::absent("cheetah/nvml", "there is no GPU");
  return when_known(
      [&](double count, double bytes) {
        const double shards = number_setting(facts, {"tensor_parallel_size", "tp_size", "tp"}).value_or(1) *
                              number_setting(facts, {"pipeline_parallel_size", "pp_size", "pp"}).value_or(1);
        const double zero =
            number_setting(facts, {"zero_stage"}).value_or(0) >= 3 ? std::max(1, facts.gpu.count()) : 1;
        // Weights alone to serve; weights, gradients and Adam's two moments and master copy to train: 16
        // bytes.
        const double need = count * (facts.trains() ? 16.0 : 2.0) / std::max(1.0, shards * zero);
        return judge(need <= 0.9 * bytes,
            format("{} of state for {} of GPU memory", human_bytes(need), human_bytes(bytes)));
      },
      parameters, total);
}

Outcome tensor_parallel_stays_inside(const Facts& facts) {
  return when_known(
      [&](double degree) {
        const double gpus = std::max(1, facts.gpu.count());
        const auto heads = number_setting(facts, {"num_attention_heads"});
        if (degree > gpus)
          return bad(format(
              "tensor parallelism over {:.0f} GPUs, of which {:.0f} are in this machine", degree, gpus));
        if (heads && std::fmod(*heads, degree) != 0)
          return bad(format("{:.0f} heads do not divide over {:.0f} GPUs", *heads, degree));
        return good(format("tensor parallelism over {:.0f} of {:.0f} GPUs", degree, gpus));
      },
      number_setting(facts, {"tensor_parallel_size", "tp_size", "tp", "tensor_model_parallel_size"}));
}

Outcome pipeline_bubble_is_small(const Facts& facts) {
  return when_known(
      [](double stages, double micro) {
        if (stages <= 1) return not_applicable("there is one pipeline stage");
        const double bubble = (stages - 1) / (micro + stages - 1);
        return judge(bubble <= kMostBubble,
            format("{:.0f} stages, {:.0f} micro-batches: {:.0f} % of the time is bubble", stages, micro,
                100 * bubble));
      },
      number_setting(facts, {"pipeline_parallel_size", "pp_size", "pipeline_model_parallel_size"}),
      number_setting(facts, {"num_microbatches", "gradient_accumulation_steps"}));
}

Outcome cache_holds_a_request(const Facts& facts) {
  const auto total = facts.gpu.count() > 0 ? facts.gpu.gpus->front().number("memory.total")
                                           : Value<double>::absent("cheetah/nvml", "there is no GPU");
  return when_known(
      [&](double length, double bytes_per_token, double bytes) {
        const double share =
            number_setting(facts, {"gpu_memory_utilization", "mem_fraction_static"}).value_or(0.9);
        const double weights = number_setting(facts, {"num_parameters"}).value_or(0) * 2;
        const double sequences = (share * bytes - weights) / std::max(1.0, length * bytes_per_token);
        return judge(sequences >= 1,
            format("the KV cache holds {:.1f} sequences of {:.0f} tokens", std::max(0.0, sequences), length));
      },
      number_setting(facts, {"max_model_len", "context_length", "max_seq_len"}),
      number_setting(facts, {"kv_bytes_per_token"}), total);
}

Outcome prefixes_are_cached(const Facts& facts) {
  const auto disabled = setting(facts, {"disable_radix_cache"});
  if (disabled)
    return judge(!is_on(*disabled), format("the radix cache is {}", is_on(*disabled) ? "off" : "on"));
  return when_known(
      [](const std::string& value) {
        return judge(is_on(value), format("prefix caching is {}", is_on(value) ? "on" : "off"));
      },
      setting(facts, {"enable_prefix_caching", "prefix_caching"}));
}

Outcome batching_is_continuous(const Facts& facts) {
  const auto tokens =
      number_setting(facts, {"max_num_batched_tokens", "chunked_prefill_size", "max_num_tokens"});
  const auto policy = setting(facts, {"batching_type", "batch_scheduler_policy", "batching"});
  if (policy && contains(*policy, "static"))
    return bad(format("batching is {}: short requests wait for long ones", *policy));
  return when_known(
      [&](double budget) {
        const double sequences = number_setting(facts, {"max_num_seqs", "max_running_requests"}).value_or(0);
        return judge(budget >= kLeastBatchedTokens && budget >= sequences,
            format("a step takes at most {:.0f} tokens", budget));
      },
      tokens);
}

Outcome kv_moves_by_rdma(const Facts& facts) {
  return when_known(
      [&](const std::string& connector) {
        const auto transport = facts.software.variable("UCX_TLS");
        const bool tcp = (transport && !ucx_allows_rdma(*transport)) || contains(connector, "tcp");
        return judge(
            !tcp, format("KV caches move by {}{}", connector, transport ? ", UCX_TLS=" + *transport : ""));
      },
      setting(facts, {"kv_connector", "disaggregation_transfer_backend", "kv_transport"}));
}

Outcome offload_fits_memory(const Facts& facts) {
  return when_known(
      [](double gib, double available) {
        return judge(gib * 1073741824 <= kMostOffloadShare * available,
            format("{:.0f} GiB to offload to, {} available", gib, human_bytes(available)));
      },
      number_setting(facts, {"swap_space", "cpu_offload_gb", "kv_offload_gb", "hicache_size"}),
      facts.memory.bytes("MemAvailable"));
}

Outcome checkpoint_interval_fits(const Facts& facts) {
  return when_known(
      [](double interval, double write, double mtbf) {
        const double best = std::sqrt(2 * write * mtbf);
        return judge(interval >= 0.5 * best && interval <= 2 * best,
            format("a checkpoint every {:.0f} s; {:.0f} s loses least (Young/Daly)", interval, best));
      },
      number_setting(facts, {"checkpoint_interval_s"}), number_setting(facts, {"checkpoint_write_s"}),
      number_setting(facts, {"mtbf_s"}));
}

Outcome checkpoints_are_async(const Facts& facts) {
  return when_known(
      [](const std::string& value) {
        return judge(is_on(value), format("asynchronous checkpoints are {}", value));
      },
      setting(facts, {"async_checkpoint", "checkpoint_async", "async_save"}));
}

Outcome benchmark_fits_shapes(const Facts& facts) {
  return when_known(
      [](const std::string& deterministic) {
        return judge(!is_on(deterministic), format("cudnn.deterministic is {}", deterministic));
      },
      setting(facts, {"cudnn_deterministic", "deterministic", "full_determinism"}));
}

Outcome sampler_is_distributed(const Facts& facts) {
  return when_known(
      [&](const std::string& sampler) {
        const auto world = facts.software.variable("WORLD_SIZE");
        const int64_t ranks = world ? to_integer(*world).value_or(1) : std::max(1, facts.gpu.count());
        return judge(ranks <= 1 || contains(sampler, "istributed") || contains(sampler, "shard"),
            format("{} ranks draw by {}", ranks, sampler));
      },
      setting(facts, {"sampler", "sampler_type"}));
}

Outcome checkpointing_is_needed(const Facts& facts) {
  return when_known(
      [&](const std::string& value) {
        if (!is_on(value)) return good("activations are kept");
        const Gpu* gpu = facts.gpu.count() > 0 ? &facts.gpu.gpus->front() : nullptr;
        const double used = gpu == nullptr ? 0 : gpu->number("memory.used").value_or(0),
                     total = gpu == nullptr ? 0 : gpu->number("memory.total").value_or(0);
        if (total == 0 || used < 0.1 * total)
          return note("activations are computed twice; run the job to see whether memory asks for it");
        return judge(used > 0.75 * total,
            format("activations are computed twice with {:.0f} % of GPU memory in use", 100 * used / total));
      },
      setting(facts, {"gradient_checkpointing", "activation_checkpointing"}));
}

constexpr Check kChecks[] = {
    {"CFG-06", Layer::kConfiguration, Level::kFail, 0.60, "GPU tensors go by NCCL",
        "Other backends copy through the host.", "10x to 50x slower collectives", FixKind::kSetting,
        "init_process_group(backend='nccl')", "", "E04", backend_is_nccl},
    {"CFG-08", Layer::kConfiguration, Level::kWarn, 0.25, "The loader has workers",
        "With none, the training loop reads and decodes between steps (PyTorch's default).",
        "GPU idle during loading", FixKind::kSetting, "num_workers=4 or more", "", "H01,I06",
        loader_has_workers},
    {"CFG-45", Layer::kConfiguration, Level::kWarn, 0.08, "The loader pins its memory",
        "Copies from pageable memory go through a staging buffer and cannot overlap.",
        "half the copy bandwidth", FixKind::kSetting, "pin_memory=True and non_blocking=True", "", "H02,H03",
        loader_pins},
    {"CFG-46", Layer::kConfiguration, Level::kWarn, 0.04, "Workers live on",
        "Workers that start again each epoch import everything again.", "seconds an epoch", FixKind::kSetting,
        "persistent_workers=True", "", "H01", workers_persist},
    {"CFG-47", Layer::kConfiguration, Level::kWarn, 0.05, "The loader reads ahead",
        "One batch ahead does not cover a slow one.", "stalls at slow samples", FixKind::kSetting,
        "prefetch_factor=2 or more", "", "I06", loader_prefetches},
    {"CFG-09", Layer::kConfiguration, Level::kWarn, 0.50, "The data type uses tensor cores",
        "16-bit math is an order of magnitude faster and half the bytes.", "2x to 8x", FixKind::kSetting,
        "dtype bfloat16", "", "M01,M03", dtype_uses_tensor_cores},
    {"CFG-10", Layer::kConfiguration, Level::kWarn, 0.20, "32-bit products use TF32",
        "At 'highest' matrix products run outside the tensor cores.", "up to 8x on those layers",
        FixKind::kSetting, "torch.set_float32_matmul_precision('high')", "", "M06", float32_uses_tf32},
    {"CFG-11", Layer::kConfiguration, Level::kFail, 0.30, "The number format fits the GPU",
        "A format without hardware is emulated.", "slower than BF16", FixKind::kSetting,
        "FP8 from compute capability 8.9, FP4 from 10.0", "", "M04,M09,C02", format_fits_the_gpu},
    {"CFG-12", Layer::kConfiguration, Level::kWarn, 0.25, "Execution is not eager",
        "Each kernel launched by itself costs microseconds; a decode step has hundreds.",
        "up to half the decode speed at small batches", FixKind::kSetting,
        "remove --enforce-eager / --disable-cuda-graph", "", "K19,P06", graphs_are_on},
    {"CFG-13", Layer::kConfiguration, Level::kWarn, 0.10, "Graphs cover the usual batch",
        "A batch above the largest captured size runs without a graph.", "launch overhead at high load",
        FixKind::kSetting, "capture up to the usual number of running sequences", "", "K16",
        graphs_cover_the_batch},
    {"CFG-14", Layer::kConfiguration, Level::kWarn, 0.25, "Attention is fused",
        "Unfused attention writes the score matrix to memory.", "2x to 4x slower attention, quadratic memory",
        FixKind::kSetting, "a flash, FlashInfer or cuDNN backend", "", "N03,P06", attention_is_fused},
    {"CFG-15", Layer::kConfiguration, Level::kInfo, 0.03, "The optimizer is fused",
        "A loop over parameters launches thousands of small kernels.", "a few percent of a step",
        FixKind::kSetting, "AdamW(fused=True)", "", "N02", optimizer_is_fused},
    {"CFG-16", Layer::kConfiguration, Level::kWarn, 0.10, "Gradients go in several buckets",
        "One bucket can be sent only when the backward pass is over.", "communication is not hidden",
        FixKind::kSetting, "a smaller bucket_cap_mb", "", "N04,O05,M08,O08", buckets_overlap},
    {"CFG-17", Layer::kConfiguration, Level::kFail, 0.50, "The model fits",
        "State that does not fit ends the run, or pages.", "out of memory", FixKind::kSetting,
        "more tensor parallelism, ZeRO-3/FSDP, or fewer bytes per weight", "", "N06,M02", memory_plan_fits},
    {"CFG-18", Layer::kConfiguration, Level::kFail, 0.40, "Tensor parallelism stays inside NVLink",
        "It communicates in every layer; over the network each layer waits.", "several times slower",
        FixKind::kSetting, "tensor parallelism up to the GPUs of a node, pipeline or data parallelism beyond",
        "", "E05,Q03", tensor_parallel_stays_inside},
    {"CFG-19", Layer::kConfiguration, Level::kWarn, 0.20, "The pipeline's bubble is small",
        "Stages idle while the pipe fills and drains: (p-1)/(m+p-1).", "the bubble's share",
        FixKind::kSetting, "at least four micro-batches a stage, or an interleaved schedule", "", "N05",
        pipeline_bubble_is_small},
    {"CFG-20", Layer::kConfiguration, Level::kFail, 0.30, "The KV cache holds a request",
        "A cache below one full context cannot serve it.", "failed start, or preemption without end",
        FixKind::kSetting, "lower max_model_len, an 8-bit cache, or more GPUs", "", "C02,P05",
        cache_holds_a_request},
    {"CFG-21", Layer::kConfiguration, Level::kWarn, 0.15, "Shared prefixes are cached",
        "System prompts and histories are computed again for each request.",
        "TTFT several times higher on shared prompts", FixKind::kSetting, "--enable-prefix-caching", "",
        "I08", prefixes_are_cached},
    {"CFG-22", Layer::kConfiguration, Level::kWarn, 0.30, "Batching is continuous",
        "Static batches wait for their longest member; tiny steps waste launches.",
        "2x to 10x throughput under load", FixKind::kSetting,
        "continuous batching, max_num_batched_tokens of 2048 or more", "", "P03,Q02,P06",
        batching_is_continuous},
    {"CFG-23", Layer::kConfiguration, Level::kWarn, 0.20, "KV caches move by RDMA",
        "A cache of gigabytes by TCP takes longer than computing it.", "TTFT of disaggregated serving",
        FixKind::kSetting, "NIXL or UCX over RDMA on both roles", "", "P04", kv_moves_by_rdma},
    {"CFG-24", Layer::kConfiguration, Level::kWarn, 0.15, "The offload tier fits memory",
        "More than memory holds turns the tier into swap.", "swap storms, OOM kills", FixKind::kSetting,
        "at most 70 % of available memory", "", "P05,Q04", offload_fits_memory},
    {"CFG-25", Layer::kConfiguration, Level::kWarn, 0.05, "Checkpoints come as often as failures ask",
        "Too rare loses work, too often costs writes; sqrt(2 x write x MTBF) loses least.",
        "lost hours after a failure", FixKind::kSetting, "set the interval near the printed one", "",
        "B05,H11,A07", checkpoint_interval_fits},
    {"CFG-48", Layer::kConfiguration, Level::kWarn, 0.05, "Checkpoints do not stop training",
        "A synchronous save idles every GPU for its length.", "write time / interval", FixKind::kSetting,
        "asynchronous checkpoints: copy to host, write in the background", "", "H11", checkpoints_are_async},
    {"CFG-27", Layer::kConfiguration, Level::kInfo, 0.05, "Determinism is asked for on purpose",
        "Deterministic kernels are slower, and autotuning is off.", "5-20 % on convolutions and scatter",
        FixKind::kSetting, "turn it off outside of debugging", "", "K22,N01", benchmark_fits_shapes},
    {"CFG-31", Layer::kConfiguration, Level::kFail, 0.50, "Ranks draw different samples",
        "Without a distributed sampler all ranks train on the same data.", "N GPUs do the work of one",
        FixKind::kSetting, "DistributedSampler, or shards by rank", "", "I06", sampler_is_distributed},
    {"CFG-49", Layer::kConfiguration, Level::kWarn, 0.20, "Activations are recomputed only if needed",
        "Checkpointing adds a third to the compute to save memory.", "25-33 % of a step", FixKind::kSetting,
        "turn it off, or checkpoint selected layers", "", "M02", checkpointing_is_needed},
};

}  // namespace

std::span<const Check> setting_checks() { return kChecks; }

}  // namespace cheetah::doctor
