// SPDX-License-Identifier: MIT
#pragma once
// Counters of kernels as Nsight Compute writes them: `ncu --csv`, page raw (one row a kernel) or details (one
// row a metric).
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

struct KernelCounters {
  std::string name;
  // By metric ("dram__bytes_read.sum") or by label ("Duration"). In base units: bytes, nanoseconds, hertz,
  // and a second below a fraction line. A label that comes twice with different units keeps the first; the
  // other one is found as "Memory Throughput [byte/second]".
  std::map<std::string, double, std::less<>> metrics;
  std::string block_size, grid_size, compute_capability;  // as written, "" where the columns are missing

  // The first of these names that was collected.
  std::optional<double> find(std::initializer_list<std::string_view> names) const;
};

// Kernels in the order of the file; empty when there is no table in it. Other lines (ncu's remarks, what the
// program printed) are passed over.
std::vector<KernelCounters> read_ncu_csv(std::string_view text);

}  // namespace cheetah
