// SPDX-License-Identifier: MIT
#include "lab/analysis/access.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah::analysis {
namespace {

constexpr int64_t kMaxAddress = int64_t{1} << 62;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The bytes wanted, as disjoint ranges in order.
std::vector<std::pair<int64_t, int64_t>> wanted_ranges(const WarpAccess& access) {
  std::vector<std::pair<int64_t, int64_t>> all, merged;
  for (const auto& address : access.address)
    if (address) all.emplace_back(*address, *address + access.width);
  std::sort(all.begin(), all.end());
  for (const auto& [begin, end] : all)
    if (!merged.empty() && begin < merged.back().second)
      merged.back().second = std::max(merged.back().second, end);
    else
      merged.emplace_back(begin, end);
  return merged;
}

std::vector<LineUse> uses_of(const std::vector<std::pair<int64_t, int64_t>>& ranges) {
  std::map<int64_t, LineUse> lines;
  for (const auto& [begin, end] : ranges)
    for (int64_t sector = begin / kSectorBytes; sector * kSectorBytes < end; ++sector) {
      const int64_t from = std::max(begin, sector * kSectorBytes),
                    to = std::min(end, (sector + 1) * kSectorBytes);
      LineUse& use = lines[sector / 4];
      use.line = sector / 4;
      use.sector_bytes[static_cast<size_t>(sector % 4)] += static_cast<int>(to - from);
    }
  std::vector<LineUse> uses;
  for (const auto& [line, use] : lines) uses.push_back(use);
  return uses;
}

void judge(GlobalReport& report) {
  if (report.misaligned_lanes > 0) {
    report.verdict =
        format("{} lanes are not aligned to their width: the hardware raises a misaligned address",
            report.misaligned_lanes);
    report.remedy = "align the base, or use a narrower access";
  } else if (report.sectors == report.ideal_sectors) {
    report.verdict = report.broadcast ? "coalesced; lanes share bytes, which are fetched once" : "coalesced";
    if (report.split) report.verdict += ", though it touches one line more than needed";
  } else if (report.sectors == report.ideal_sectors + 1) {
    report.verdict =
        format("contiguous but misaligned: starts {} bytes into a sector", report.start_in_sector);
    report.remedy = "align the base to 32 bytes (128 saves a line too): pad rows, or peel the first elements";
  } else {
    report.verdict =
        format("uncoalesced: {} sectors where {} would do", report.sectors, report.ideal_sectors);
    report.remedy =
        "let neighbouring lanes touch neighbouring elements: change the index, turn an array of structures "
        "into a "
        "structure of arrays, or stage the tile through shared memory";
  }
}

// The words each bank gives while the lanes [first, last) are served; the most of any bank.
int64_t phase_degree(const WarpAccess& access, int64_t first, int64_t last, std::array<int, kBanks>& words) {
  std::array<std::set<int64_t>, kBanks> wanted;
  for (int64_t lane = first; lane < last; ++lane) {
    const auto& address = access.address[static_cast<size_t>(lane)];
    if (!address) continue;
    const int64_t end = (*address + access.width - 1) / kBankBytes;
    for (int64_t word = *address / kBankBytes; word <= end; ++word)
      wanted[static_cast<size_t>(word % kBanks)].insert(word);
  }
  size_t degree = 0;
  for (size_t bank = 0; bank < wanted.size(); ++bank) {
    words[bank] = static_cast<int>(wanted[bank].size());
    degree = std::max(degree, wanted[bank].size());
  }
  return static_cast<int64_t>(degree);
}

bool shares_words(const WarpAccess& access) {
  std::set<int64_t> words;
  for (const auto& address : access.address)
    if (address && !words.insert(*address / kBankBytes).second) return true;
  return false;
}

template <class Move>
WarpAccess moved(WarpAccess access, Move move) {
  for (auto& address : access.address)
    if (address) address = move(*address);
  return access;
}

// Conflicts are gone when a phase takes one pass; a wide phase of few lanes can never take less.
std::optional<Cure> best_pad(const WarpAccess& access, int64_t row_bytes, int64_t now) {
  const int64_t unit = std::max<int64_t>(access.width, kBankBytes);
  std::optional<Cure> best;
  for (int64_t pad = unit; pad <= kLineBytes; pad += unit) {
    const WarpAccess padded = moved(access, [&](int64_t a) { return a + a / row_bytes * pad; });
    const int64_t degree = bank_report(padded).degree;
    if (degree < (best ? best->degree : now))
      best = Cure{.kind = Cure::Kind::kPad, .pad_bytes = pad, .row_bytes = row_bytes, .degree = degree};
    if (best && best->degree == 1) break;
  }
  return best;
}

std::optional<Cure> best_swizzle(const WarpAccess& access, int64_t row_bytes, int64_t now) {
  const int64_t chunk = std::max<int64_t>(access.width, kBankBytes);
  std::optional<Cure> best;
  // A mask within 128 bytes permutes the chunks of each line of a row, so that reads along the row stay free
  // of conflicts.
  for (int64_t mask = 1; mask < kLineBytes / chunk; mask = 2 * mask + 1)
    for (int64_t shift = 0; shift <= 4; ++shift) {
      if (row_bytes % ((mask + 1) * chunk) != 0) continue;
      const WarpAccess swizzled = moved(access, [&](int64_t a) {
        const int64_t row = a / row_bytes, column = a % row_bytes;
        const int64_t turned = (column / chunk) ^ ((row >> shift) & mask);
        return row * row_bytes + turned * chunk + column % chunk;
      });
      const int64_t degree = bank_report(swizzled).degree;
      if (degree < (best ? best->degree : now))
        best = Cure{.kind = Cure::Kind::kSwizzle,
            .mask = mask,
            .shift = shift,
            .row_bytes = row_bytes,
            .chunk_bytes = chunk,
            .degree = degree};
      if (best && best->degree == 1) return best;
    }
  return best;
}

}  // namespace

int64_t WarpAccess::active_lanes() const {
  return std::ranges::count_if(address, [](const auto& lane) { return lane.has_value(); });
}

WarpAccess make_access(
    const LanePattern& index, int64_t offset, int64_t element_bytes, int64_t width, uint32_t mask) {
  WarpAccess access{.address = {}, .width = width};
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const int64_t at =
        (Checked<int64_t>(offset) + Checked<int64_t>(index.at(lane)) * Checked<int64_t>(element_bytes)).get();
    if (at < 0 || at > kMaxAddress)
      throw Error(format("lane {} touches byte {}; expected addresses from 0 to 2^62", lane, at));
    access.address[static_cast<size_t>(lane)] = at;
  }
  return access;
}

GlobalReport global_report(const WarpAccess& access) {
  GlobalReport report;
  const auto ranges = wanted_ranges(access);
  if (ranges.empty()) {
    report.verdict = "no lane is active";
    return report;
  }
  for (const auto& [begin, end] : ranges) report.wanted_bytes += end - begin;
  report.uses = uses_of(ranges);
  for (const LineUse& use : report.uses)
    report.sectors += std::ranges::count_if(use.sector_bytes, [](int bytes) { return bytes > 0; });
  report.lines = static_cast<int64_t>(report.uses.size());
  report.ideal_sectors = ceil_div(report.wanted_bytes, kSectorBytes);
  report.ideal_lines = ceil_div(report.wanted_bytes, kLineBytes);
  report.efficiency =
      static_cast<double>(report.wanted_bytes) / static_cast<double>(kSectorBytes * report.sectors);
  report.split = report.lines > report.ideal_lines;
  report.broadcast = report.wanted_bytes < access.active_lanes() * access.width;
  for (const auto& address : access.address)
    report.misaligned_lanes += address && *address % access.width != 0 ? 1 : 0;
  report.start_in_sector = ranges.front().first % kSectorBytes;
  report.start_in_line = ranges.front().first % kLineBytes;
  judge(report);
  return report;
}

BankReport bank_report(const WarpAccess& access) {
  if (access.width > 16)
    throw Error(format("{} bytes per lane: shared memory moves at most 16 in one instruction", access.width));
  BankReport report;
  const int64_t num_phases = std::max<int64_t>(1, access.width / kBankBytes), lanes = kLanes / num_phases;
  for (int64_t phase = 0; phase < num_phases; ++phase) {
    std::array<int, kBanks> words{};
    const int64_t degree = phase_degree(access, phase * lanes, (phase + 1) * lanes, words);
    report.phases += degree > 0 ? 1 : 0;
    report.wavefronts += degree;
    if (degree > report.degree) report.degree = degree, report.words_of_bank = words;
  }
  report.broadcast = shares_words(access);
  return report;
}

std::string Cure::words() const {
  const std::string left = degree > 1 ? format(", which leaves {}-way conflicts", degree) : "";
  if (kind == Kind::kPad)
    return format("pad each row of {} bytes by {} ({:.1f} % more memory){}", row_bytes, pad_bytes,
        100.0 * static_cast<double>(pad_bytes) / static_cast<double>(row_bytes), left);
  const std::string row = shift > 0 ? format("(row >> {})", shift) : "row";
  return format(
      "swizzle: store chunk c of {} bytes at c ^ ({} & {}), for no memory{}", chunk_bytes, row, mask, left);
}

std::vector<Cure> find_cures(const WarpAccess& access, int64_t row_bytes) {
  std::vector<Cure> cures;
  const int64_t now = bank_report(access).degree;
  if (now <= 1 || row_bytes < 1) return cures;
  if (const auto pad = best_pad(access, row_bytes, now)) cures.push_back(*pad);
  if (const auto swizzle = best_swizzle(access, row_bytes, now)) cures.push_back(*swizzle);
  return cures;
}

}  // namespace cheetah::analysis
