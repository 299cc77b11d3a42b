// SPDX-License-Identifier: MIT
// PRF: traces, counters and logs of a run.
#include <algorithm>

#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostIdle = 0.10;
constexpr double kMostPageable = 0.01, kMostSmallCopies = 0.05, kLeastHiddenCopies = 0.80,
                 kLeastHiddenTalk = 0.50;
constexpr double kLeastTensor = 0.90, kLeastCovered = 0.90;

template <class Body>
Outcome with_timeline(const Facts& facts, Body body) {
  if (!facts.profile) return not_applicable("no trace was named (cheetah doctor profile FILE)");
  if (!facts.profile->timeline) return not_applicable("the file holds no timeline");
  if (facts.profile->timeline->window_us <= 0) return not_applicable("the timeline holds no GPU work");
  Outcome outcome = body(*facts.profile->timeline);
  outcome.evidence.push_back(
      {facts.profile->source, format("{} kernels in {:.1f} ms", facts.profile->timeline->kernels,
                                  facts.profile->timeline->window_us / 1000)});
  return outcome;
}

double steps_of(const TimelineFacts& timeline) {
  return std::max<double>(1, static_cast<double>(timeline.steps));
}

Outcome gpu_is_busy(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    const double idle = 1 - t.busy_us / t.window_us;
    const double window = t.window_us / static_cast<double>(std::max<size_t>(1, t.gpus.size()));
    std::vector<Subject> waiting;
    for (const GpuShare& gpu : t.gpus)
      if (1 - gpu.busy_us / window > kMostIdle)
        waiting.push_back(
            {format("GPU {}", gpu.device), format("{:.0f} %", 100 * (1 - gpu.busy_us / window))});
    Outcome outcome =
        t.gpus.size() < 2
            ? judge(idle <= kMostIdle, format("the GPU is idle {:.0f} % of the time", 100 * idle))
            : bad_if_any(std::move(waiting), "GPUs are idle for a share of the time",
                  format("{} GPUs are idle {:.0f} % of the time", t.gpus.size(), 100 * idle));
    outcome.risk = std::min(0.95, idle);
    return outcome;
  });
}

Outcome launches_are_few(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    const bool bound = t.kernels > 100 && t.median_kernel_us < 10 && t.gap_us > 0.2 * t.window_us;
    return judge(!bound,
        format("{} kernels of {:.1f} us in the middle, {:.0f} % of the time between them{}", t.kernels,
            t.median_kernel_us, 100 * t.gap_us / t.window_us, t.graph_launches > 0 ? ", in graphs" : ""));
  });
}

Outcome syncs_are_few(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (!t.has_host) return not_applicable("the trace holds no CUDA calls");
    if (t.kernels < 20) return not_applicable("too few kernels to judge");
    const double each = static_cast<double>(t.syncs) / steps_of(t);
    return judge(
        t.steps > 0 ? each <= 2 : static_cast<double>(t.syncs) < 0.05 * static_cast<double>(t.kernels),
        format("{} synchronizing calls for {} kernels{}", t.syncs, t.kernels,
            t.steps > 0 ? format(", {:.1f} a step", each) : ""));
  });
}

Outcome copies_are_pinned(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (t.in_bytes <= 0) return not_applicable("nothing was copied to the GPU");
    return judge(t.pageable_in_bytes <= kMostPageable * t.in_bytes,
        format("{:.0f} % of the bytes to the GPU come from pageable memory",
            100 * t.pageable_in_bytes / t.in_bytes));
  });
}

Outcome copies_are_large(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (t.copy_us <= 0) return not_applicable("nothing was copied");
    return judge(t.small_copy_us <= std::max(kMostSmallCopies * t.copy_us, 0.01 * t.window_us),
        format("{:.0f} % of the copying time is in copies below 64 KiB", 100 * t.small_copy_us / t.copy_us));
  });
}

Outcome copies_are_hidden(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (t.in_us < 0.005 * t.window_us) return not_applicable("hardly any time goes into copies to the GPU");
    return judge(t.in_hidden_us >= kLeastHiddenCopies * t.in_us,
        format(
            "{:.0f} % of the copying to the GPU is hidden behind kernels", 100 * t.in_hidden_us / t.in_us));
  });
}

Outcome communication_is_hidden(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (t.communication_us < 0.01 * t.window_us) return not_applicable("there is hardly any communication");
    Outcome outcome = judge(t.communication_hidden_us >= kLeastHiddenTalk * t.communication_us,
        format("{:.0f} % of the communication is hidden behind compute; {:.0f} % of the time is exposed",
            100 * t.communication_hidden_us / t.communication_us,
            100 * (t.communication_us - t.communication_hidden_us) / t.window_us));
    outcome.risk = std::min(0.95, (t.communication_us - t.communication_hidden_us) / t.window_us);
    return outcome;
  });
}

Outcome one_kernel_leads(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (t.top.empty()) return not_applicable("there are no kernels");
    std::string list;
    for (const TopKernel& top : t.top)
      list += format("{}{} {:.0f} %", list.empty() ? "" : ", ", top.name.substr(0, 48), 100 * top.share);
    const TopKernel& first = t.top.front();
    return judge(first.share < 0.5,
        format("{}; twice as fast a first one gives {:.2f}x in all", list, 1 / (1 - first.share / 2)));
  });
}

Outcome memory_is_not_allocated(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (!t.has_host) return not_applicable("the trace holds no CUDA calls");
    return judge(static_cast<double>(t.allocations) <= 2 * steps_of(t) || t.allocations < 10,
        format("{} calls of cudaMalloc and cudaFree", t.allocations));
  });
}

Outcome phases_are_marked(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    return judge(t.range_us >= kLeastCovered * t.window_us,
        format("annotations cover {:.0f} % of the time", 100 * t.range_us / t.window_us));
  });
}

Outcome pages_do_not_fault(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    return judge(t.page_faults < 1000, format("{:.0f} page faults of managed memory", t.page_faults));
  });
}

Outcome host_is_ahead(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (!t.has_host) return not_applicable("the trace holds no CUDA calls");
    Outcome outcome = judge(t.host_gap_us <= kMostIdle * t.window_us,
        format("the GPU waits for the host {:.0f} % of the time", 100 * t.host_gap_us / t.window_us));
    outcome.risk = std::min(0.95, t.host_gap_us / t.window_us);
    return outcome;
  });
}

Outcome gemms_use_tensor_cores(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (t.gemm_us < 0.01 * t.window_us) return not_applicable("there are hardly any matrix products");
    return judge(t.tensor_gemm_us >= kLeastTensor * t.gemm_us,
        format("{:.0f} % of the matrix products' time is on tensor cores, by their names",
            100 * t.tensor_gemm_us / t.gemm_us));
  });
}

Outcome attention_is_fused(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    return judge(
        t.softmax_us <= 0.05 * t.kernel_us, format("{:.0f} % of the kernel time is softmax by itself",
                                                100 * t.softmax_us / std::max(t.kernel_us, 1e-9)));
  });
}

Outcome quantization_is_fused(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    return judge(
        t.quantize_us <= 0.05 * t.kernel_us, format("{:.0f} % of the kernel time is quantizing by itself",
                                                 100 * t.quantize_us / std::max(t.kernel_us, 1e-9)));
  });
}

Outcome graphs_are_used(const Facts& facts) {
  return with_timeline(facts, [](const TimelineFacts& t) {
    if (!t.has_host || t.launches + t.graph_launches == 0)
      return not_applicable("the trace holds no launches");
    const double per_step = static_cast<double>(t.launches) / steps_of(t);
    const double mean = t.kernel_us / std::max<double>(1, static_cast<double>(t.kernels));
    return judge(!(per_step > 100 && mean < 20 && t.graph_launches == 0),
        format("{} launches by hand, {} of graphs, {:.1f} us a kernel", t.launches, t.graph_launches, mean));
  });
}

Outcome nccl_takes_rdma(const Facts& facts) {
  if (!facts.profile) return not_applicable("no log was named (cheetah doctor profile FILE)");
  return when_known(
      [](const NcclLog& log) {
        if (log.rdma + log.sockets == 0 && log.nodes < 2)
          return not_applicable(log.nodes == 1 ? "the job did not leave its machine"
                                               : "the log does not say over which network ranks talk");
        if (log.rdma + log.sockets == 0 && log.network.empty())
          return not_applicable("the log names no network (NCCL_DEBUG_SUBSYS=INIT,NET shows it)");
        if (log.rdma + log.sockets == 0)
          return judge(log.network != "Socket", format("{} machines talk over {}", log.nodes, log.network));
        return judge(log.sockets == 0 && log.rdma_direct > 0,
            format("{} channels by RDMA ({} of them directly from GPU memory), {} by sockets", log.rdma,
                log.rdma_direct, log.sockets));
      },
      facts.profile->nccl);
}

Outcome nccl_warns_of_nothing(const Facts& facts) {
  if (!facts.profile) return not_applicable("no log was named (cheetah doctor profile FILE)");
  return when_known(
      [](const NcclLog& log) {
        return log.warnings == 0
                   ? good("NCCL warns of nothing")
                   : bad(format("NCCL warns {} times, first: {}", log.warnings, log.first_warning));
      },
      facts.profile->nccl);
}

Outcome nccl_takes_nvlink(const Facts& facts) {
  if (!facts.profile) return not_applicable("no log was named (cheetah doctor profile FILE)");
  return when_known(
      [](const NcclLog& log) {
        if (log.peer + log.shared_memory == 0) return not_applicable("no two ranks share a machine");
        return judge(log.shared_memory == 0,
            format("{} channels directly between GPUs, {} through host memory", log.peer, log.shared_memory));
      },
      facts.profile->nccl);
}

Outcome groups_are_kept(const Facts& facts) {
  if (!facts.profile) return not_applicable("no log was named (cheetah doctor profile FILE)");
  return when_known(
      [](const NcclLog& log) {
        return judge(log.initialized <= 64, format("communicators were made {} times", log.initialized));
      },
      facts.profile->nccl);
}

Outcome registers_do_not_spill(const Facts& facts) {
  if (!facts.profile) return not_applicable("no log was named (cheetah doctor profile FILE)");
  return when_known(
      [](double bytes) {
        return judge(bytes == 0, format("{:.0f} bytes of registers are spilled to memory", bytes));
      },
      facts.profile->spill_bytes);
}

Outcome nothing_is_recompiled(const Facts& facts) {
  if (!facts.profile) return not_applicable("no log was named (cheetah doctor profile FILE)");
  return when_known(
      [](double count) { return judge(count == 0, format("{:.0f} recompilations and graph breaks", count)); },
      facts.profile->recompiles);
}

constexpr Check kChecks[] = {
    {"PRF-01", Layer::kProfile, Level::kWarn, 0.30, "The GPU is busy",
        "Time without a kernel or copy is time paid for and not used.", "the idle share", FixKind::kSetting,
        "find what comes before the gaps: data, host, sync or a peer", "", "J03,A01", gpu_is_busy},
    {"PRF-02", Layer::kProfile, Level::kWarn, 0.25, "Kernels are not tiny",
        "A launch costs 2-5 us, by a framework 5-20 us; shorter kernels wait for it.", "the gaps' share",
        FixKind::kSetting, "fuse (torch.compile, Triton), CUDA graphs, larger batches, persistent kernels",
        "", "K16,L02,L04,K21,M10", launches_are_few},
    {"PRF-03", Layer::kProfile, Level::kWarn, 0.15, "The host seldom waits",
        "Each synchronization drains the queue; the GPU idles until it is filled again.", "a gap for each",
        FixKind::kSetting, "remove .item(), .cpu() and device syncs from the loop; use events", "", "L01",
        syncs_are_few},
    {"PRF-04", Layer::kProfile, Level::kWarn, 0.08, "Copies come from pinned memory",
        "Pageable memory is staged and cannot overlap.", "half the copy bandwidth", FixKind::kSetting,
        "pin_memory=True, cudaHostAlloc", "", "H02", copies_are_pinned},
    {"PRF-05", Layer::kProfile, Level::kWarn, 0.05, "Copies are large",
        "A small copy costs as much as a large one.", "latency of each", FixKind::kSetting,
        "pack small tensors into one copy", "", "K05,I11", copies_are_large},
    {"PRF-06", Layer::kProfile, Level::kWarn, 0.10, "Copies are hidden",
        "A copy in the compute stream stops it.", "the copying time", FixKind::kSetting,
        "prefetch on a copy stream, pinned and non-blocking", "", "H03,K09,I11", copies_are_hidden},
    {"PRF-07", Layer::kProfile, Level::kWarn, 0.20, "Communication is hidden",
        "Exposed collectives are idle math units.", "the exposed time", FixKind::kSetting,
        "bucket and overlap gradients, separate streams, smaller tensor-parallel groups", "", "N04,E05,M08",
        communication_is_hidden},
    {"PRF-09", Layer::kProfile, Level::kInfo, 0.05, "No kernel dominates",
        "Where one kernel takes half the time, work belongs there first.", "see the bound in the finding",
        FixKind::kAdvice, "profile that kernel with ncu; compare with the library's", "", "A01,K15",
        one_kernel_leads},
    {"PRF-10", Layer::kProfile, Level::kWarn, 0.10, "Memory is not allocated in the loop",
        "cudaMalloc and cudaFree synchronize the device.", "a stall for each", FixKind::kSetting,
        "a pool: cudaMallocAsync or the framework's allocator", "", "K06", memory_is_not_allocated},
    {"PRF-11", Layer::kProfile, Level::kInfo, 0.01, "Phases are marked",
        "Without ranges nobody can tell loading from math in a trace.", "slower diagnosis", FixKind::kSetting,
        "an NVTX range around each phase", "", "J04,B03", phases_are_marked},
    {"PRF-12", Layer::kProfile, Level::kWarn, 0.20, "Managed memory does not fault",
        "Each fault stops a warp for tens of microseconds.", "up to 10x slower kernels", FixKind::kSetting,
        "cudaMemPrefetchAsync before use, or plain allocations", "", "D02,D03,D05,K05", pages_do_not_fault},
    {"PRF-13", Layer::kProfile, Level::kWarn, 0.30, "The host is ahead of the GPU",
        "Gaps in which the host was not waiting are gaps in which it was too slow.", "those gaps",
        FixKind::kSetting, "compile or capture the step, move Python work out of the loop, pin the thread",
        "", "J02", host_is_ahead},
    {"PRF-23", Layer::kProfile, Level::kWarn, 0.40, "Matrix products use tensor cores",
        "An FP32 product without TF32 runs at an eighth of the rate.", "up to 8x on those kernels",
        FixKind::kSetting, "bf16 or TF32; dimensions that are multiples of 8 (16 for FP8)", "", "M05,M01,J11",
        gemms_use_tensor_cores},
    {"PRF-34", Layer::kProfile, Level::kWarn, 0.15, "Attention is fused",
        "A softmax kernel of its own means the scores go to memory.", "2x-4x slower attention",
        FixKind::kSetting, "FlashAttention, FlashInfer or cuDNN attention", "", "N03", attention_is_fused},
    {"PRF-35", Layer::kProfile, Level::kInfo, 0.05, "Quantization is fused",
        "Separate quantize kernels read and write everything once more.", "their time", FixKind::kSetting,
        "scale inside the GEMM's prologue or epilogue", "", "M10", quantization_is_fused},
    {"PRF-36", Layer::kProfile, Level::kWarn, 0.20, "Repeated steps are captured",
        "Hundreds of short launches per step are the case CUDA graphs were made for.",
        "launch time of the step", FixKind::kSetting, "capture the step in a graph", "", "K16",
        graphs_are_used},
    {"PRF-26", Layer::kProfile, Level::kFail, 0.40, "NCCL uses RDMA",
        "The log tells the way each channel takes; sockets are the fallback.",
        "several times slower collectives", FixKind::kSetting, "check NET-01, NET-03, GPU-24 and NCCL_IB_HCA",
        "", "O01,O06,E04,E07", nccl_takes_rdma},
    {"PRF-37", Layer::kProfile, Level::kFail, 0.30, "NCCL uses direct links inside",
        "Shared memory as a way between GPUs of one machine means peer access failed.",
        "10x slower inside the machine", FixKind::kSetting,
        "check IOMMU, ACS, NCCL_P2P_DISABLE and the fabric manager", "", "O06,E04", nccl_takes_nvlink},
    {"PRF-40", Layer::kProfile, Level::kWarn, 0.10, "NCCL warns of nothing",
        "A warning comes before a fallback, a retry or the end of the job.", "slow paths, lost jobs",
        FixKind::kAdvice, "look the warning up; the first one names the cause", "", "O06",
        nccl_warns_of_nothing},
    {"PRF-27", Layer::kProfile, Level::kWarn, 0.05, "Communicators are kept",
        "Making one takes tens of milliseconds and memory.", "a stall for each", FixKind::kSetting,
        "create groups once, before the loop", "", "O06", groups_are_kept},
    {"PRF-22", Layer::kProfile, Level::kWarn, 0.10, "Registers do not spill",
        "Spilled registers are loads and stores in the inner loop.", "10-50 % of that kernel",
        FixKind::kSetting, "fewer live values, smaller tiles, launch bounds", "", "K08,K18",
        registers_do_not_spill},
    {"PRF-28", Layer::kProfile, Level::kWarn, 0.10, "Nothing is recompiled",
        "A recompilation stops the step for seconds.", "stalls at new shapes", FixKind::kSetting,
        "mark dynamic dimensions; pad or bucket shapes", "", "K20", nothing_is_recompiled},
};

}  // namespace

std::span<const Check> profile_checks() { return kChecks; }

}  // namespace cheetah::doctor
