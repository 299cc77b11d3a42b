// SPDX-License-Identifier: MIT
// Any bytes as a tree, as YAML, as metrics, as a trace or as a log: an answer or an Error, within limits.
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "doctor/facts/options.h"
#include "doctor/fixes/mend.h"
#include "doctor/fixture.h"
#include "doctor/report.h"

namespace {

using namespace cheetah;
using namespace cheetah::doctor;

// "== PATH" begins a file, "-> PATH TARGET" is a link: the trees of the tests, without their short forms.
void load_plain(const std::string& text, MemorySource& source) {
  std::string path, content;
  for (const std::string_view line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() == 3 && words[0] == "->") source.set_link(std::string(words[1]), std::string(words[2]));
    if (words.size() == 2 && words[0] == "==") {
      source.set(path, content);
      path = words[1];
      content.clear();
    } else {
      content.append(line).append("\n");
    }
  }
  source.set(path, content);
}

void examine_tree(const std::string& text) {
  Machine machine;
  load_plain(text, *machine.source);
  machine.intent = {.purpose = Purpose::kTrain,
      .multi_node = true,
      .pid = "1",
      .data_path = "/d",
      .checkpoint_path = "/c",
      .binary = "b",
      .config = "e"};
  const Facts facts = collect(
      machine.source, machine.intent, {.layer_limit = std::chrono::seconds(20), .counter_interval = {}})
                          .facts;
  const Report report =
      examine(facts, {.layers = {}, .only = {}, .waived = {}, .read = machine.source.get()});
  fix_plan(report);
  for (const Finding& finding : report.findings)
    if (finding.outcome.found.starts_with("the check failed")) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 9) {
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
      case 5:
        log_events(text);
        engine_settings(command_words(text));
        keys_of_list(text);
        ucx_allows_rdma(text);
        break;
      case 6:
        parse_journal(text, "journal");
        break;
      case 7:
        parse_expected(text, "profile");
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
