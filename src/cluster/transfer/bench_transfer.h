// SPDX-License-Identifier: MIT
#pragma once
// How fast slabs move between two processes of this machine, checksums and answers included.
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/transfer/transfer.h"

namespace cheetah::cluster {

struct TransferBenchResult {
  int64_t message_bytes = 0;
  int64_t count = 0;
  double seconds = 0;

  double gigabytes_per_second() const {
    return static_cast<double>(message_bytes) * static_cast<double>(count) / seconds / 1e9;
  }
};
// Starts a receiver by fork(), so it must be called while the process has no other threads. Throws Error when
// a slab does not arrive as it was sent.
TransferBenchResult bench_transfer(
    TransferBackend backend, int64_t message_bytes, int64_t count, const std::string& ucx_transports = {});

// What UCX's own benchmark reaches between two processes with messages of this size, in GB/s. It spins on
// both sides, counts no checksum and asks for no answer.
struct UcxPerftest {
  std::string test = "ucp_am_bw";  // as `ucx_perftest -t` names it
  std::string transports;          // UCX_TLS; empty: what UCX finds
  int64_t message_bytes = 0;
  int64_t count = 0;
};
struct UcxPerftestResult {
  double gigabytes_per_second = 0;
  std::string why;  // there is no number
};
UcxPerftestResult run_ucx_perftest(const UcxPerftest& perftest);

}  // namespace cheetah::cluster
