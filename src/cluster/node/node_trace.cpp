// SPDX-License-Identifier: MIT
// The spans of a worker, for the trace of the call it works for.
#include "base/format.h"
#include "cluster/node/node_state.h"
#include "observe/trace_exporter.h"

namespace cheetah::cluster {

void Node::State::record(const RecordSpan& span) const {
  if (!parts.traces) return;
  const auto context = parse_traceparent(span.parent);
  if (!context || !context->sampled) return;
  // Steady times become wall times by their distance from now.
  const auto steady = std::chrono::steady_clock::now();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto unix_ns = [&](Time at) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(wall - (steady - at)).count();
  };
  parts.traces->add(TraceSpan{.context = *context,
      .span_id = format("{:016x}", span.id),
      .name = span.name,
      .worker = config.name,
      .start_unix_ns = unix_ns(span.begin),
      .end_unix_ns = unix_ns(span.end),
      .numbers = span.numbers});
}

}  // namespace cheetah::cluster
