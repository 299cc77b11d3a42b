// SPDX-License-Identifier: MIT
#pragma once
// What one warp's load or store costs in global memory (sectors, lines) and in shared memory (banks).
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/analysis/lane_pattern.h"

namespace cheetah::analysis {

inline constexpr int64_t kLanes = 32, kSectorBytes = 32, kLineBytes = 128, kBanks = 32, kBankBytes = 4;

struct WarpAccess {
  std::array<std::optional<int64_t>, kLanes>
      address;        // in bytes, from 0 up; nullopt: the lane is switched off
  int64_t width = 4;  // bytes per lane moves: 1, 2, 4, 8, 16 or 32

  int64_t active_lanes() const;
};

// address = offset + index(lane) * element_bytes for the lanes of `mask`. Throws Error for a negative address
// or one past 2^62.
WarpAccess make_access(
    const LanePattern& index, int64_t offset, int64_t element_bytes, int64_t width, uint32_t mask);

// One 128-byte line and how many bytes of each of its sectors are wanted.
struct LineUse {
  int64_t line = 0;  // address / 128
  std::array<int, 4> sector_bytes{};
};

struct GlobalReport {
  int64_t sectors = 0, ideal_sectors = 0;
  int64_t lines = 0, ideal_lines = 0;
  int64_t wanted_bytes = 0;                        // distinct
  double efficiency = 0;                           // wanted over fetched
  bool split = false;                              // touches more lines than its bytes need
  bool broadcast = false;                          // lanes share bytes
  int64_t misaligned_lanes = 0;                    // not a multiple of their width: the hardware faults
  int64_t start_in_sector = 0, start_in_line = 0;  // where the lowest byte lies
  std::vector<LineUse> uses;                       // in order of address
  std::string verdict, remedy;
};
GlobalReport global_report(const WarpAccess& access);

struct BankReport {
  int64_t phases = 0;                       // 1 for up to 4 bytes per lane, 2 for 8, 4 for 16
  int64_t wavefronts = 0;                   // passes through the banks
  int64_t degree = 0;                       // the worst phase: n-way
  bool broadcast = false;                   // lanes share a word, which costs nothing
  std::array<int, kBanks> words_of_bank{};  // distinct words each bank gives in the worst phase
  int64_t conflicts() const { return wavefronts - phases; }
};
// Throws Error for lanes wider than 16 bytes, which shared memory has no instruction for.
BankReport bank_report(const WarpAccess& access);

// A change of the layout that takes the conflicts away.
struct Cure {
  enum class Kind { kPad, kSwizzle };
  Kind kind = Kind::kPad;
  int64_t pad_bytes = 0;        // after each row
  int64_t mask = 0, shift = 0;  // chunk ^= (row >> shift) & mask, chunks as wide as the access
  int64_t row_bytes = 0, chunk_bytes = 0;
  int64_t degree = 1;  // after it
  std::string words() const;
};
// The smallest pad and the smallest swizzle for an array of rows of row_bytes; those that help, best effort
// when nothing cures. Empty when there is no conflict.
std::vector<Cure> find_cures(const WarpAccess& access, int64_t row_bytes);

}  // namespace cheetah::analysis
