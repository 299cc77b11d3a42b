// SPDX-License-Identifier: MIT
// cheetah bench transfer: how fast KV slabs move between two processes of this machine, beside UCX's own
// benchmark in the same run.
#include "cli/bench_transfer.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "base/statistics.h"
#include "base/table.h"
#include "cli/bench_report.h"
#include "cli/json_file.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cluster/transfer/bench_transfer.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah bench transfer
  cheetah bench transfer --size 128KiB,16MiB --repeat 5 --json transfer.json
  cheetah bench transfer --transports tcp

Each number is GB/s of slabs that landed in the other process, were checked and answered for; tcp and ucx seal them
(AES-256-GCM). Beside it stands what ucx_perftest (Debian: ucx-utils) reaches with active messages, which is what the ucx
transfer uses, and with puts, both in the clear.
)";

struct TransferBenchOptions {
  std::string sizes = "64KiB,1MiB,16MiB";
  std::string transports;
  std::string json;
  int64_t bytes = int64_t{1} << 30;
  int64_t repeats = 3;
};

// One way to move messages, measured several times.
struct Column {
  std::string name;
  std::function<cluster::UcxPerftestResult(int64_t bytes, int64_t count)> measure;
};

std::vector<Column> columns_of(const TransferBenchOptions& options) {
  const auto ours = [&](cluster::TransferBackend backend) {
    return [=, transports = options.transports](int64_t bytes, int64_t count) -> cluster::UcxPerftestResult {
      if (const std::string why = cluster::why_unavailable(backend); !why.empty()) return {0, why};
      return {cluster::bench_transfer(backend, bytes, count, transports).gigabytes_per_second(), {}};
    };
  };
  const auto theirs = [&](const char* test) {
    return [=, transports = options.transports](int64_t bytes, int64_t count) {
      return cluster::run_ucx_perftest(
          {.test = test, .transports = transports, .message_bytes = bytes, .count = count});
    };
  };
  return {{"shm", ours(cluster::TransferBackend::kSharedMemory)},
      {"tcp", ours(cluster::TransferBackend::kTcp)}, {"ucx", ours(cluster::TransferBackend::kUcx)},
      {"perftest am", theirs("ucp_am_bw")}, {"perftest put", theirs("ucp_put_bw")}};
}

std::vector<int64_t> parse_sizes(const std::string& text) {
  std::vector<int64_t> sizes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(parse_bytes("--size", text.substr(begin, end - begin)));
    if (sizes.back() < 1 || sizes.back() > (int64_t{1} << 30))
      throw UsageError("--size: expected 1 byte to 1 GiB");
    begin = end + 1;
  }
  return sizes;
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

struct SizeResult {
  int64_t bytes = 0, count = 0;
  std::vector<std::vector<double>> samples;  // of each column
  std::vector<std::string> missing;

  double median_of(size_t column) const { return samples[column].empty() ? 0 : median(samples[column]); }
};

SizeResult measure_size(
    const TransferBenchOptions& options, const std::vector<Column>& columns, int64_t bytes) {
  SizeResult result{bytes, std::clamp<int64_t>(options.bytes / bytes, 8, 20000), {}, {}};
  result.samples.resize(columns.size());
  result.missing.resize(columns.size());
  for (int64_t repeat = 0; repeat < options.repeats;
       ++repeat)  // in turn: what else runs here disturbs all alike
    for (size_t i = 0; i < columns.size(); ++i) {
      const cluster::UcxPerftestResult one = columns[i].measure(bytes, result.count);
      if (one.why.empty()) result.samples[i].push_back(one.gigabytes_per_second);
      result.missing[i] = one.why;
    }
  return result;
}

std::vector<std::string> table_row(const SizeResult& result) {
  const auto cell = [&](size_t column) {
    const double value = result.median_of(column);
    return value > 0 ? format("{:.2f}", value) : std::string("-");
  };
  const auto share = [&](size_t a, size_t b) {
    const double ours = result.median_of(a), theirs = result.median_of(b);
    return ours > 0 && theirs > 0 ? format("{:.0f} %", 100 * ours / theirs) : std::string("-");
  };
  return {human_bytes(static_cast<double>(result.bytes)), cell(0), cell(1), cell(2), cell(3), cell(4),
      share(2, 3), share(2, 4), share(1, 4), share(0, 4)};
}

Json json_row(const SizeResult& result, const std::vector<Column>& columns) {
  Json row{{"message_bytes", result.bytes}, {"messages", result.count}};
  for (size_t i = 0; i < columns.size(); ++i)
    row[columns[i].name] = result.samples[i].empty() ? Json{{"missing", result.missing[i]}}
                                                     : Json{{"median_gb_s", result.median_of(i)},
                                                           {"samples_gb_s", result.samples[i]}};
  return row;
}

int run_bench_transfer(const TransferBenchOptions& options) {
  JsonFile json(options.json);
  const std::vector<Column> columns = columns_of(options);
  Table table({"message", "shm GB/s", "tcp GB/s", "ucx GB/s", "perftest am", "perftest put", "ucx / am",
      "ucx / put", "tcp / put", "shm / put"});
  Json rows = Json::array();
  const double load = load_average();
  const InterruptScope interrupt;
  for (const int64_t bytes : parse_sizes(options.sizes)) {
    if (interrupt.pending()) break;
    const SizeResult result = measure_size(options, columns, bytes);
    table.add(table_row(result));
    rows.push_back(json_row(result, columns));
  }
  if (options.json != "-") print(table.render());
  json.write({{"schema_version", 1}, {"kind", "bench-transfer"}, {"provenance", provenance(2)},
      {"load_average_at_start", load}, {"repeats", options.repeats}, {"ucx_transports", options.transports},
      {"rows", rows}});
  return interrupt.pending() ? 130 : 0;
}

}  // namespace

void add_bench_transfer(CLI::App& bench, Action& action) {
  auto* command =
      bench.add_subcommand("transfer", "How fast KV pages move between two processes of this machine");
  auto options = std::make_shared<TransferBenchOptions>();
  command->add_option("--size", options->sizes, "sizes of a message")->capture_default_str();
  command->add_option("--transports", options->transports, "UCX's transports (UCX_TLS), e.g. tcp");
  accept_counts(command->add_option("--bytes", options->bytes, "bytes to move in each measurement")
                    ->capture_default_str(),
      1, int64_t{1} << 40);
  accept_counts(command->add_option("--repeat", options->repeats, "measurements of each; the median is shown")
                    ->capture_default_str(),
      1, 1000);
  command->add_option(
      "--json", options->json, "write the result with its provenance to FILE; - prints it instead");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_bench_transfer(*options); }; });
}

}  // namespace cheetah
