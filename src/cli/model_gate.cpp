// SPDX-License-Identifier: MIT
#include "cli/model_gate.h"

#include "base/format.h"
#include "cli/model_lookup.h"
#include "cli/output.h"
#include "quantize/gate.h"

namespace cheetah {

void tell_evaluation(const std::string& model) {
  const std::string path = find_model(model);
  if (path.starts_with("random:")) return;
  const RecordedEvaluation recorded = read_recorded_evaluation(path);
  if (!recorded.quantized) return;
  const std::string name = model_name(path);
  if (!recorded.present)
    print_note(format(
        "{} is quantized and carries no evaluation of what that cost: see cheetah eval --against", name));
  else if (recorded.stale)
    print_note(
        format("{} carries an evaluation of other weights than these: see cheetah eval --against", name));
  else if (!recorded.passed)
    print_note(format("{} failed its evaluation: {}", name, recorded.summary));
  else
    print(format("quantized, evaluated: {}\n", recorded.summary));
}

}  // namespace cheetah
