// SPDX-License-Identifier: MIT
// cheetah lab access: what one warp's load or store costs in global and in shared memory.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/lab_analysis.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "lab/analysis/access_report.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah lab access --stride 2
  cheetah lab access --width 16 --offset 16
  cheetah lab access --stride 32 --memory shared
  cheetah lab access --pattern "(lane % 8) * 32 + lane / 8" --row 128
  cheetah lab access --addresses 0,4,8,-,16 --json
)";

struct AccessOptions {
  int64_t stride = 1, offset = 0, width = 4, element = 0, row = 0;
  std::string pattern, addresses, mask = "0xffffffff", memory = "both";
  bool json = false;
};

uint32_t mask_of(const std::string& text) {
  const auto mask = to_integer(text);
  if (!mask || *mask < 0 || *mask > 0xffffffff)
    throw UsageError(format("--mask: '{}' is not a number from 0 to 0xffffffff", printable(text)));
  return static_cast<uint32_t>(*mask);
}

// "0,4,-,12": bytes, '-' for a lane that is off; lanes not named are off.
analysis::WarpAccess explicit_access(const std::string& text, int64_t width) {
  analysis::WarpAccess access{.address = {}, .width = width};
  const auto parts = split(text, ',');
  if (parts.size() > access.address.size())
    throw UsageError(format("--addresses: {} addresses; a warp has 32 lanes", parts.size()));
  for (size_t lane = 0; lane < parts.size(); ++lane) {
    if (trimmed(parts[lane]) == "-") continue;
    const auto address = to_integer(parts[lane]);
    if (!address || *address < 0 || *address > int64_t{1} << 62)
      throw UsageError(format(
          "--addresses: '{}' is not a byte address such as 256 or 0x100, nor '-'", printable(parts[lane])));
    access.address[lane] = *address;
  }
  return access;
}

analysis::WarpAccess access_of(const AccessOptions& options) {
  if (!options.addresses.empty()) return explicit_access(options.addresses, options.width);
  const std::string formula = options.pattern.empty() ? format("lane * {}", options.stride) : options.pattern;
  try {
    return analysis::make_access(analysis::LanePattern::parse(formula), options.offset,
        options.element > 0 ? options.element : options.width, options.width, mask_of(options.mask));
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

int run_access(const AccessOptions& options) {
  const int64_t element = options.element > 0 ? options.element : options.width;
  analysis::AccessQuestion question{.access = access_of(options)};
  question.global = options.memory != "shared";
  question.shared = options.memory != "global";
  if (options.memory == "shared" && options.width > 16)
    throw UsageError(format("--width: {} bytes a lane; shared memory moves at most 16", options.width));
  // Lanes a stride apart read a column: the stride is the row.
  question.row_bytes = options.row > 0 ? options.row : options.pattern.empty() ? options.stride * element : 0;
  print(
      options.json ? dump_json(analysis::access_json(question), 2) + "\n" : analysis::access_text(question));
  return 0;
}

}  // namespace

void add_lab_access(CLI::App& lab, Action& action) {
  auto* command =
      lab.add_subcommand("access", "Sectors, lines and bank conflicts of one warp's load or store");
  auto options = std::make_shared<AccessOptions>();
  constexpr int64_t kMost = int64_t{1} << 40;
  auto* stride = command->add_option("--stride", options->stride, "elements between neighbouring lanes")
                     ->check(CLI::Range(int64_t{0}, kMost))
                     ->capture_default_str();
  auto* pattern = command->add_option("--pattern", options->pattern,
      "the element each lane touches: a formula of `lane` with + - * / % & | ^ << >>");
  auto* addresses = command->add_option(
      "--addresses", options->addresses, "byte addresses of the lanes: 0,4,-,12 (- is off)");
  stride->excludes(pattern)->excludes(addresses);
  pattern->excludes(addresses);
  command->add_option("--offset", options->offset, "bytes from an aligned base to element 0")
      ->check(CLI::Range(int64_t{0}, kMost))
      ->capture_default_str();
  command->add_option("--width", options->width, "bytes a lane moves")
      ->check(CLI::IsMember(std::vector<int64_t>{1, 2, 4, 8, 16, 32}))
      ->capture_default_str();
  command->add_option("--element", options->element, "bytes of an element (default: the width)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--mask", options->mask, "active lanes")->capture_default_str();
  command
      ->add_option(
          "--row", options->row, "bytes of a row of the array in shared memory (default: the stride, or 128)")
      ->check(CLI::Range(int64_t{1}, kMost));
  command->add_option("--memory", options->memory, "which one to look at")
      ->check(CLI::IsMember({"global", "shared", "both"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_access(*options); }; });
}

}  // namespace cheetah
