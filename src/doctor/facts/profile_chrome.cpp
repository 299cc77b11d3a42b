// SPDX-License-Identifier: MIT
// Chrome's trace format as PyTorch (Kineto), JAX and ourselves write it.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "doctor/facts/profile.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxTraceBytes = int64_t{512} << 20;

std::string text_of(const Json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_of(const Json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

// "Memcpy HtoD (Pageable -> Device)"
GpuWork copy_kind(std::string_view name) {
  if (contains(name, "HtoD")) return GpuWork::kCopyIn;
  return contains(name, "DtoH") ? GpuWork::kCopyOut : GpuWork::kCopyInside;
}

void add_event(const Json& event, Timeline& timeline) {
  if (!event.is_object() || text_of(event, "ph") != "X") return;
  const std::string category = text_of(event, "cat"), name = text_of(event, "name");
  const double begin = number_of(event, "ts"), end = begin + std::max(0.0, number_of(event, "dur"));
  const auto args = event.find("args");
  const double bytes = args != event.end() && args->is_object() ? number_of(*args, "bytes") : 0;
  const int device = args != event.end() && args->is_object()
                         ? static_cast<int>(std::clamp(number_of(*args, "device"), 0.0, 4096.0))
                         : 0;
  const std::string shown = printable(name, 200);
  if (category == "kernel" || category == "Kernel")
    timeline.gpu.push_back({begin, end, GpuWork::kKernel, shown, 0, false, device});
  else if (category == "gpu_memcpy")
    timeline.gpu.push_back({begin, end, copy_kind(name), shown, bytes, contains(name, "Pageable"), device});
  else if (category == "gpu_memset")
    timeline.gpu.push_back({begin, end, GpuWork::kSet, shown, bytes, false, device});
  else if (category == "cuda_runtime" || category == "cuda_driver")
    timeline.host.push_back({begin, end, shown});
  else if (category == "user_annotation" || category == "gpu_user_annotation" || category == "nvtx")
    timeline.ranges.push_back({begin, end, shown});
}

}  // namespace

Timeline read_chrome_trace(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what, {.max_bytes = kMaxTraceBytes, .max_depth = 32});
  const Json* events = &json;
  if (json.is_object()) {
    const auto found = json.find("traceEvents");
    if (found == json.end()) throw Error(format("{}: no traceEvents in it: expected a trace", what));
    events = &*found;
  }
  if (!events->is_array()) throw Error(format("{}: traceEvents is no list", what));
  Timeline timeline;
  for (const Json& event : *events) add_event(event, timeline);
  timeline.has_host = !timeline.host.empty();
  return timeline;
}

}  // namespace cheetah::doctor
