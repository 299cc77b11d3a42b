// SPDX-License-Identifier: MIT
// Any bytes as a disassembly, a counter table, JSON or a formula: an answer or an Error, within limits.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "lab/analysis/access_report.h"
#include "lab/analysis/diagnose.h"
#include "lab/analysis/lab_results.h"
#include "lab/analysis/sass.h"

namespace {

using namespace cheetah;
using namespace cheetah::analysis;

void read_as_json(const std::string& text) {
  const Json document = parse_json(text, "fuzz");
  if (is_lab_run(document)) {
    const RoofSet roofs = roofs_of_run(document, "", "fuzz");
    std::vector<PointReading> readings;
    for (const RooflinePoint& point : points_of_run(document, "cuda", "fuzz"))
      readings.push_back(read_point(roofs, point));
    roofline_text(roofs, readings);
    counters_of_run(document, "fuzz");
  } else {
    for (const Counters& counters : counters_from_json(document, "fuzz")) diagnosis_text(diagnose(counters));
  }
}

void read_as_formula(const std::string& text) {
  AccessQuestion question{.access = make_access(LanePattern::parse(text), 0, 4, 4, 0xffffffff)};
  access_text(question);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
        code_json(read_code(text));
        break;
      case 1:
        for (const KernelCounters& kernel : read_ncu_csv(text))
          diagnosis_text(diagnose(counters_from_ncu(kernel)));
        break;
      case 2:
        read_as_json(text);
        break;
      default:
        read_as_formula(text);
        break;
    }
  } catch (const Error&) {
    // a refusal is an answer
  }
  return 0;
}
