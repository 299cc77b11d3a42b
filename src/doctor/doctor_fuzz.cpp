// Any bytes as a tree, as YAML, as metrics, as a trace or as a log: an answer or an Error, within limits.
#include <cstdint>

#include "base/error.h"
#include "doctor/fixture.h"
#include "doctor/report.h"

namespace {

using namespace cheetah::doctor;

void examine_tree(const std::string& text) {
  Machine machine;
  load_tree(text, *machine.source);
  machine.intent = {.purpose = Purpose::kTrain,
                    .multi_node = true,
                    .pid = "1",
                    .data_path = "/d",
                    .checkpoint_path = "/c",
                    .binary = "b",
                    .config = "e"};
  const Report report = examine(collect(machine.source, machine.intent,
                                        {.layer_limit = std::chrono::seconds(20), .counter_interval = {}})
                                    .facts);
  for (const Finding& finding : report.findings)
    if (finding.outcome.found.starts_with("the check failed")) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 6) {
      case 0:
        examine_tree(text);
        break;
      case 1:
        read_pods(text, "pod");
        break;
      case 2:
        Metrics::parse(text);
        break;
      case 3:
        summarize(read_chrome_trace(text, "trace"));
        break;
      case 4:
        read_ncu_csv(text);
        read_log(text, "log");
        find_device_code(text);
        break;
      default:
        parse_snapshot(text, "snapshot");
        break;
    }
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
