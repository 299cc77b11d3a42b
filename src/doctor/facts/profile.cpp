#include "doctor/facts/profile.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxProfileBytes = int64_t{512} << 20;

// The cells of one CSV line; quotes may hold commas, "" is a quote.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

// "1,234.5" as ncu writes it for people.
std::optional<double> csv_number(std::string text) {
  std::erase(text, ',');
  return to_number(text);
}

size_t column(const std::vector<std::string>& header, std::string_view name) {
  return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
}

void read_long_row(const std::vector<std::string>& header, const std::vector<std::string>& cells,
                   std::map<std::string, KernelCounters>& kernels) {
  const size_t id = column(header, "ID"), name = column(header, "Kernel Name"),
               metric = column(header, "Metric Name"), value = column(header, "Metric Value");
  if (std::max({name, metric, value}) >= cells.size()) return;
  const auto number = csv_number(cells[value]);
  if (!number || kernels.size() > 10000) return;
  KernelCounters& kernel = kernels[(id < cells.size() ? cells[id] : "") + cells[name]];
  kernel.name = printable(cells[name], 200);
  kernel.metrics[cells[metric]] = *number;
}

void read_wide_row(const std::vector<std::string>& header, const std::vector<std::string>& cells,
                   std::vector<KernelCounters>& kernels) {
  const size_t name = column(header, "Kernel Name");
  if (name >= cells.size() || cells[name].empty() || kernels.size() > 10000) return;
  KernelCounters kernel;
  kernel.name = printable(cells[name], 200);
  for (size_t i = 0; i < cells.size() && i < header.size(); ++i)
    if (const auto number = csv_number(cells[i])) kernel.metrics[header[i]] = *number;
  kernels.push_back(std::move(kernel));
}

}  // namespace

Value<double> KernelCounters::metric(std::initializer_list<const char*> names) const {
  for (const char* wanted : names) {
    const auto found = metrics.find(wanted);
    if (found != metrics.end()) return {found->second, wanted};
  }
  return Value<double>::absent(*names.begin(), "the counter was not collected");
}

std::vector<KernelCounters> read_ncu_csv(std::string_view text) {
  std::vector<std::string> header;
  std::map<std::string, KernelCounters> long_form;
  std::vector<KernelCounters> kernels;
  for (const std::string_view line : lines_of(text)) {
    if (starts_with(line, "==")) continue;  // ncu's own remarks
    std::vector<std::string> cells = cells_of(line);
    if (header.empty()) {
      if (column(cells, "Kernel Name") < cells.size()) header = std::move(cells);
      continue;
    }
    if (column(header, "Metric Name") < header.size())
      read_long_row(header, cells, long_form);
    else
      read_wide_row(header, cells, kernels);
  }
  for (auto& [id, kernel] : long_form) kernels.push_back(std::move(kernel));
  return kernels;
}

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
