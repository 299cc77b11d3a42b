// SPDX-License-Identifier: MIT
#include "lab/analysis/access_report.h"

#include <algorithm>

#include "base/format.h"

namespace cheetah::analysis {
namespace {

constexpr size_t kMaxLinesShown = 16;

int64_t row_of(const AccessQuestion& question) {
  return question.row_bytes > 0 ? question.row_bytes : kLineBytes;
}
// Shared memory has no instruction of 32 bytes per lane.
bool asks_banks(const AccessQuestion& question) { return question.shared && question.access.width <= 16; }

std::string line_picture(const GlobalReport& report) {
  std::string text = "  bytes wanted of each sector, a line of memory a row\n";
  for (size_t i = 0; i < std::min(report.uses.size(), kMaxLinesShown); ++i) {
    const LineUse& use = report.uses[i];
    text += format("  {:>8}", format("0x{:x}", use.line * kLineBytes));
    for (const int bytes : use.sector_bytes) text += bytes > 0 ? format(" [{:>2}]", bytes) : " [ .]";
    text += "\n";
  }
  if (report.uses.size() > kMaxLinesShown)
    text += format("  … {} lines more\n", report.uses.size() - kMaxLinesShown);
  return text;
}

std::string global_text(const AccessQuestion& question) {
  const GlobalReport report = global_report(question.access);
  if (report.sectors == 0) return format("global memory: {}\n", report.verdict);
  std::string text = format("global memory: {}\n", report.verdict);
  text +=
      format("  {} sectors (ideal {}), {} lines (ideal {}), {} of {} bytes fetched are wanted: {:.3g} %\n",
          report.sectors, report.ideal_sectors, report.lines, report.ideal_lines, report.wanted_bytes,
          report.sectors * kSectorBytes, 100 * report.efficiency);
  text += format(
      "  starts {} bytes into a line and {} into a sector\n", report.start_in_line, report.start_in_sector);
  if (!report.remedy.empty()) text += format("  try: {}\n", report.remedy);
  return text + line_picture(report);
}

std::string bank_picture(const BankReport& report) {
  std::string text = "  words each bank gives in the worst phase, bank 0 first\n  ";
  for (const int words : report.words_of_bank) text += words == 0 ? " ." : format(" {}", words);
  return text + "\n";
}

std::string shared_text(const AccessQuestion& question) {
  const BankReport report = bank_report(question.access);
  std::string text = "shared memory: ";
  if (report.degree == 0) return text + "no lane is active\n";
  text += report.degree == 1 ? "no bank conflict" : format("{}-way bank conflict", report.degree);
  text += format("{}\n  {} passes for {} phase{} of {} lanes\n",
      report.broadcast ? "; equal words are broadcast" : "", report.wavefronts, report.phases,
      report.phases == 1 ? "" : "s", kLanes / std::max<int64_t>(1, question.access.width / kBankBytes));
  for (const Cure& cure : find_cures(question.access, row_of(question)))
    text += format("  try: {}\n", cure.words());
  return text + bank_picture(report);
}

Json shared_json(const AccessQuestion& question) {
  const BankReport report = bank_report(question.access);
  Json cures = Json::array();
  for (const Cure& cure : find_cures(question.access, row_of(question))) {
    Json one = {{"kind", cure.kind == Cure::Kind::kPad ? "pad" : "swizzle"}, {"degree", cure.degree},
        {"words", cure.words()}};
    if (cure.kind == Cure::Kind::kPad) one["pad_bytes"] = cure.pad_bytes;
    if (cure.kind == Cure::Kind::kSwizzle)
      one.update({{"mask", cure.mask}, {"shift", cure.shift}, {"chunk_bytes", cure.chunk_bytes}});
    cures.push_back(std::move(one));
  }
  return {{"degree", report.degree}, {"phases", report.phases}, {"wavefronts", report.wavefronts},
      {"conflicts", report.conflicts()}, {"broadcast", report.broadcast},
      {"words_of_bank", report.words_of_bank}, {"row_bytes", row_of(question)}, {"cures", std::move(cures)}};
}

Json global_json(const AccessQuestion& question) {
  const GlobalReport report = global_report(question.access);
  return {{"sectors", report.sectors}, {"ideal_sectors", report.ideal_sectors}, {"lines", report.lines},
      {"ideal_lines", report.ideal_lines}, {"wanted_bytes", report.wanted_bytes},
      {"efficiency_percent", 100 * report.efficiency}, {"split", report.split},
      {"broadcast", report.broadcast}, {"misaligned_lanes", report.misaligned_lanes},
      {"start_in_line", report.start_in_line}, {"verdict", report.verdict}, {"remedy", report.remedy}};
}

}  // namespace

std::string access_text(const AccessQuestion& question) {
  std::string text =
      format("{} of 32 lanes, {} bytes each\n", question.access.active_lanes(), question.access.width);
  if (question.global) text += global_text(question);
  if (asks_banks(question)) text += shared_text(question);
  return text + "One instruction of one warp; caches, other warps and replays are not in it.\n";
}

Json access_json(const AccessQuestion& question) {
  Json result = {{"lanes", question.access.active_lanes()}, {"width", question.access.width}};
  if (question.global) result["global"] = global_json(question);
  if (asks_banks(question)) result["shared"] = shared_json(question);
  return result;
}

}  // namespace cheetah::analysis
