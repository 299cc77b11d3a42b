// SPDX-License-Identifier: MIT
#include "cluster/core/worker_trace.h"

#include "base/format.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kTraceparentLength = 55, kSpanIdAt = 36, kSpanIdLength = 16;

enum class Part : uint64_t { kAnswer, kWait, kReceive, kGenerate, kJob, kCompute, kSlabIn, kSlabOut };

// The same in every process that knows the key, and not 0, which stands for none.
uint64_t span_id(RequestKey key, Part part, uint64_t index = 0) {
  uint64_t mixed = static_cast<uint64_t>(key.uid);
  for (const uint64_t more :
      {uint64_t{static_cast<uint32_t>(key.attempt)}, static_cast<uint64_t>(part), index}) {
    mixed = (mixed ^ more) * 0x9e3779b97f4a7c15;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9;
    mixed ^= mixed >> 32;
  }
  return mixed == 0 ? 1 : mixed;
}

// For those who work below the span.
std::string below(const std::string& trace, uint64_t span) {
  if (trace.size() < kTraceparentLength) return {};
  return std::string(trace).replace(kSpanIdAt, kSpanIdLength, format("{:016x}", span));
}

}  // namespace

std::string trace_of_answer(const Generate& generate) {
  return below(generate.trace, span_id(generate.key, Part::kAnswer));
}

void record_answer(const Serving& serving, WorkerStep& step) {
  const Generate& generate = serving.generate;
  const RequestKey key = generate.key;
  const std::string own = trace_of_answer(generate);
  if (own.empty()) return;
  const Waterfall& spent = serving.waterfall;
  step.want(RecordSpan{.parent = generate.trace,
      .id = span_id(key, Part::kAnswer),
      .name = "answer",
      .begin = serving.arrived,
      .end = step.now,
      .numbers = {{"attempt", static_cast<uint32_t>(key.attempt)}, {"remote_tokens", spent.remote_tokens}}});
  const auto record = [&](Part part, const char* name, Time begin, Time end) {
    step.want(RecordSpan{own, span_id(key, part), name, begin, end, {}});
  };
  if (serving.claimed_at != Time{}) {
    const Time until = serving.submitted ? serving.submitted_at : step.now;
    record(Part::kWait, "wait for a prefill worker", serving.arrived, serving.claimed_at);
    record(Part::kReceive, "receive pages", serving.claimed_at, until);
  }
  if (serving.submitted) record(Part::kGenerate, "generate", serving.submitted_at, step.now);
  const std::string receiving = below(own, span_id(key, Part::kReceive));
  for (const SlabTimes& slab : spent.slabs)
    if (slab.imported != Microseconds{})
      step.want(RecordSpan{.parent = receiving,
          .id = span_id(key, Part::kSlabIn, static_cast<uint64_t>(slab.first_token)),
          .name = "import slab",
          .begin = serving.arrived + slab.landed,
          .end = serving.arrived + slab.imported,
          .numbers = {{"first_token", slab.first_token}, {"tokens", slab.num_tokens}}});
}

void record_job(const PrefillWork& work, WorkerStep& step) {
  const PrefillJob& job = work.job;
  const uint64_t id = span_id(job.key, Part::kJob);
  const std::string own = below(job.trace, id);
  if (own.empty() || work.started == Time{}) return;
  step.want(RecordSpan{.parent = job.trace,
      .id = id,
      .name = "prefill job",
      .begin = work.received,
      .end = step.now,
      .numbers = {{"tokens", work.end_token}, {"slabs_hidden", work.num_hidden}}});
  step.want(RecordSpan{own, span_id(job.key, Part::kCompute), "compute prompt", work.started,
      work.computed.value_or(step.now), {}});
  for (size_t i = 0; i < work.slabs.size(); ++i) {
    const int64_t begins = job.first_token + static_cast<int64_t>(i) * job.slab_tokens;
    if (work.slabs[i].sent == Time{}) continue;
    step.want(RecordSpan{.parent = own,
        .id = span_id(job.key, Part::kSlabOut, static_cast<uint64_t>(begins)),
        .name = "send slab",
        .begin = work.slabs[i].posted,
        .end = work.slabs[i].sent,
        .numbers = {
            {"first_token", begins}, {"tokens", std::min(work.end_token - begins, job.slab_tokens)}}});
  }
}

}  // namespace cheetah::cluster
