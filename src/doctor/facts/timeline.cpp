// SPDX-License-Identifier: MIT
// The numbers of a timeline: unions and overlaps of intervals.
#include <algorithm>
#include <map>
#include <set>

#include "base/statistics.h"
#include "doctor/facts/profile.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

struct Interval {
  double begin, end;
};

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
      [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& one : intervals) {
    if (!result.empty() && one.begin <= result.back().end)
      result.back().end = std::max(result.back().end, one.end);
    else
      result.push_back(one);
  }
  return result;
}

double length(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& one : intervals) sum += one.end - one.begin;
  return sum;
}

// Both are merged: sorted and without overlaps.
double overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return sum;
}

bool has_any(std::string_view name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) { return contains(name, part); });
}
bool is_communication(std::string_view name) {
  return has_any(name, {"nccl", "NCCL", "nvshmem", "all_reduce", "AllReduce", "cross_device_reduce"});
}
bool is_gemm(std::string_view name) {
  return has_any(name, {"gemm", "Gemm", "GEMM", "nvjet", "xmma", "cutlass", "matmul"});
}
bool is_tensor_gemm(std::string_view name) {
  return has_any(name, {"nvjet", "xmma", "wgmma", "16816", "1688", "hmma", "tensorop", "bf16", "f16", "e4m3",
                           "tcgen05", "cutlass3x", "sm90", "sm80", "sm100"});
}
bool is_sync(std::string_view name) {
  return has_any(name, {"Synchronize", "cudaMemcpy_v", "cuMemcpyDtoH_v"}) || name == "cudaMemcpy";
}
bool is_allocation(std::string_view name) {
  return name == "cudaMalloc" || name == "cudaFree" || name == "cuMemAlloc_v2" || name == "cuMemFree_v2" ||
         starts_with(name, "cudaMalloc_v") || starts_with(name, "cudaFree_v");
}
bool is_launch(std::string_view name) { return has_any(name, {"LaunchKernel", "cuLaunch"}); }

void add_kernels(const Timeline& timeline, TimelineFacts& facts) {
  std::vector<double> durations;
  std::map<std::string, TopKernel> by_name;
  for (const GpuSpan& span : timeline.gpu) {
    const double duration = span.end_us - span.begin_us;
    if (span.work != GpuWork::kKernel) {
      if (span.work != GpuWork::kSet) {
        facts.copy_us += duration;
        if (span.bytes > 0 && span.bytes < 65536) facts.small_copy_us += duration;
      }
      if (span.work == GpuWork::kCopyIn) {
        facts.in_bytes += span.bytes;
        facts.pageable_in_bytes += span.pageable ? span.bytes : 0;
      }
      continue;
    }
    ++facts.kernels;
    facts.kernel_us += duration;
    durations.push_back(duration);
    if (is_gemm(span.name)) facts.gemm_us += duration;
    if (is_gemm(span.name) && is_tensor_gemm(span.name)) facts.tensor_gemm_us += duration;
    if (has_any(span.name, {"softmax", "Softmax", "SoftMax"})) facts.softmax_us += duration;
    if (has_any(span.name, {"quantize", "Quantize"})) facts.quantize_us += duration;
    TopKernel& top = by_name[span.name];
    top.name = span.name;
    top.share += duration;
    ++top.count;
  }
  facts.median_kernel_us = median(durations);
  for (auto& [name, top] : by_name) {
    top.share /= std::max(facts.kernel_us, 1e-9);
    facts.top.push_back(top);
  }
  std::sort(facts.top.begin(), facts.top.end(),
      [](const TopKernel& a, const TopKernel& b) { return a.share > b.share; });
  if (facts.top.size() > 5) facts.top.resize(5);
}

void add_host(const Timeline& timeline, TimelineFacts& facts) {
  for (const HostCall& call : timeline.host) {
    facts.syncs += is_sync(call.name) ? 1 : 0;
    facts.allocations += is_allocation(call.name) ? 1 : 0;
    facts.launches += is_launch(call.name) ? 1 : 0;
    facts.graph_launches += contains(call.name, "GraphLaunch") ? 1 : 0;
  }
}

std::vector<Interval> host_waits(const Timeline& timeline) {
  std::vector<Interval> waits;
  for (const HostCall& call : timeline.host)
    if (is_sync(call.name)) waits.push_back({call.begin_us, call.end_us});
  return merged(std::move(waits));
}

// One GPU's times within the window of all, added to the sums.
void add_gpu(const Timeline& timeline, int device, const Interval& window, const std::vector<Interval>& waits,
    TimelineFacts& facts) {
  std::vector<Interval> all, compute, communication, copies_in;
  for (const GpuSpan& span : timeline.gpu) {
    if (span.device != device) continue;
    const Interval interval{span.begin_us, span.end_us};
    all.push_back(interval);
    if (span.work == GpuWork::kKernel)
      (is_communication(span.name) ? communication : compute).push_back(interval);
    if (span.work == GpuWork::kCopyIn) copies_in.push_back(interval);
  }
  const auto busy = merged(std::move(all)), math = merged(std::move(compute));
  const auto talk = merged(std::move(communication)), in = merged(std::move(copies_in));
  facts.gpus.push_back({device, length(busy)});
  facts.window_us += window.end - window.begin;
  facts.busy_us += length(busy);
  facts.communication_us += length(talk);
  facts.communication_hidden_us += overlap(talk, math);
  facts.in_us += length(in);
  facts.in_hidden_us += overlap(in, math);
  std::vector<Interval> gaps;
  double at = window.begin;
  for (const Interval& one : busy) {
    if (one.begin > at) gaps.push_back({at, one.begin});
    at = one.end;
  }
  if (window.end > at) gaps.push_back({at, window.end});
  facts.gap_us += length(gaps);
  facts.host_gap_us += length(gaps) - overlap(gaps, waits);
}

}  // namespace

TimelineFacts summarize(const Timeline& timeline) {
  TimelineFacts facts;
  facts.has_host = timeline.has_host;
  facts.page_faults = timeline.page_faults;
  if (timeline.gpu.empty()) return facts;
  Interval window{timeline.gpu.front().begin_us, timeline.gpu.front().end_us};
  std::set<int> devices;
  for (const GpuSpan& span : timeline.gpu) {
    window = {std::min(window.begin, span.begin_us), std::max(window.end, span.end_us)};
    devices.insert(span.device);
  }
  const auto waits = host_waits(timeline);
  for (const int device : devices) add_gpu(timeline, device, window, waits, facts);
  add_kernels(timeline, facts);
  add_host(timeline, facts);
  std::vector<Interval> ranges;
  for (const HostCall& range : timeline.ranges) {
    ranges.push_back({range.begin_us, range.end_us});
    facts.steps +=
        contains(range.name, "Step") || contains(range.name, "step") || contains(range.name, "iter") ? 1 : 0;
  }
  facts.range_us = overlap(merged(std::move(ranges)), {window}) * static_cast<double>(devices.size());
  return facts;
}

}  // namespace cheetah::doctor
