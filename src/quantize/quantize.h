// SPDX-License-Identifier: MIT
#pragma once
// The whole of `cheetah quantize`: read, prepare, write, evaluate, put in place.
#include <functional>
#include <memory>
#include <string>

#include "quantize/gate.h"
#include "quantize/write_gguf.h"

namespace cheetah {

struct QuantizeOptions {
  std::string out;  // a folder, or a .gguf file; must not be there
  int64_t group = 0;
  GateOptions gate;
};

struct QuantizeHooks {
  WriteHooks write;
  GateHooks gate;
};

struct QuantizeReport {
  WriteReport written;
  GateResult gate;
};

// Throws UsageError for an --out that does not suit the format, Error where it is taken.
void check_out(const TargetFormat& target, const std::string& out);

// `preparation` may be nullptr: nothing is calibrated. The result is beside its place until it is whole; an interrupted run of the same source and options goes on
// with what is there.
QuantizeReport quantize(const SourceModel& source, const TargetFormat& format, const QuantizeOptions& options,
    Preparation* preparation, const QuantizeHooks& hooks);

}  // namespace cheetah
