// SPDX-License-Identifier: MIT
#include "doctor/facts/profile.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "base/run_tool.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxProfileBytes = int64_t{512} << 20;

// "Using network AWS Libfabric", "… nNodes 2 localRanks 8 …", "NCCL WARN …"
void read_nccl_line(std::string_view line, NcclLog& nccl) {
  if (const size_t at = line.find("Using network "); at != std::string_view::npos)
    nccl.network = printable(trimmed(line.substr(at + 14)), 60);
  if (const size_t at = line.find("nNodes "); at != std::string_view::npos) {
    const auto words = words_of(line.substr(at + 7, 16));
    if (const auto nodes = words.empty() ? std::nullopt : to_integer(words[0]))
      nccl.nodes = std::max(nccl.nodes, *nodes);
  }
  if (const size_t at = line.find("NCCL WARN "); at != std::string_view::npos && ++nccl.warnings == 1)
    nccl.first_warning = printable(trimmed(line.substr(at + 10)), 200);
}

// torch.profiler writes its traces packed.
std::string unpacked(const std::string& path) {
  const ToolResult result = run_tool(
      {"gzip", "-dc", "--", path}, {.time = std::chrono::minutes(2), .output_bytes = kMaxProfileBytes + 1});
  if (!result.started) throw Error(format("{}: packed with gzip, which is not installed: unpack it", path));
  if (static_cast<int64_t>(result.output.size()) > kMaxProfileBytes)
    throw Error(
        format("{}: larger than {} MiB unpacked: export a shorter part", path, kMaxProfileBytes >> 20));
  if (!result.complete || result.exit_code != 0) throw Error(format("{}: cut short or not gzip", path));
  return result.output;
}

}  // namespace

ProfileFacts read_log(std::string_view text, const std::string& what) {
  ProfileFacts facts;
  facts.source = what;
  NcclLog nccl;
  double spills = 0, recompiles = 0;
  bool is_nccl = false, is_ptxas = false;
  for (const std::string_view line : lines_of(text)) {
    is_nccl = is_nccl || contains(line, "NCCL INFO");
    is_ptxas = is_ptxas || contains(line, "ptxas info");
    // A plugin gives its network a name of its own: AWS Libfabric, OFI, FasTrak, gIB.
    const bool plugin = contains(line, "via NET/") && !contains(line, "via NET/Socket");
    nccl.rdma += plugin ? 1 : 0;
    nccl.rdma_direct += plugin && contains(line, "GDRDMA") ? 1 : 0;
    read_nccl_line(line, nccl);
    is_nccl = is_nccl || contains(line, "NCCL WARN");
    nccl.sockets += contains(line, "via NET/Socket") ? 1 : 0;
    nccl.peer += contains(line, "via P2P") || contains(line, "NVLS") ? 1 : 0;
    nccl.shared_memory += contains(line, "via SHM") ? 1 : 0;
    nccl.initialized += contains(line, "Init COMPLETE") ? 1 : 0;
    recompiles += contains(line, "Recompiling function") || contains(line, "Graph break") ? 1 : 0;
    if (contains(line, "bytes spill stores")) {
      const auto words = words_of(line);
      for (size_t i = 0; i + 3 < words.size(); ++i)
        if (words[i + 1] == "bytes" && words[i + 2] == "spill") spills += to_number(words[i]).value_or(0);
    }
  }
  if (is_nccl) facts.nccl = {nccl, what};
  if (is_ptxas) facts.spill_bytes = {spills, what};
  if (is_nccl || is_ptxas || recompiles > 0 || contains(text, "torch._dynamo"))
    facts.recompiles = {recompiles, what};
  return facts;
}

ProfileFacts read_profile(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::string plain;
  if (starts_with(text, "\x1f\x8b")) text = plain = unpacked(path);
  if (static_cast<int64_t>(text.size()) > kMaxProfileBytes)
    throw Error(format("{}: larger than {} MiB: export a shorter part", path, kMaxProfileBytes >> 20));
  ProfileFacts facts;
  facts.source = path;
  const std::string_view start = trimmed(text.substr(0, 4096));
  if (starts_with(text, "SQLite format 3")) {
    facts.timeline = {summarize(read_nsys_export(path)), path};
  } else if (starts_with(start, "{") || starts_with(start, "[")) {
    facts.timeline = {summarize(read_chrome_trace(text, path)), path};
  } else if (contains(text.substr(0, 65536), "Kernel Name")) {
    auto kernels = read_ncu_csv(text);
    if (kernels.empty()) throw Error(format("{}: no kernel in it", path));
    facts.counters = {std::move(kernels), path};
  } else {
    facts = read_log(text, path);
    if (!facts.nccl && !facts.spill_bytes && !facts.recompiles)
      throw Error(
          format("{}: not a Chrome trace, Nsight Systems SQLite export, Nsight Compute CSV, NCCL log or "
                 "ptxas output",
              path));
  }
  return facts;
}

}  // namespace cheetah::doctor
