#include "doctor/facts/profile.h"

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxProfileBytes = int64_t{512} << 20;

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
    nccl.rdma += contains(line, "via NET/IB") ? 1 : 0;
    nccl.rdma_direct += contains(line, "via NET/IB") && contains(line, "GDRDMA") ? 1 : 0;
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
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
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
