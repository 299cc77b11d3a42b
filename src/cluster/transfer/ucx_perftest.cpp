// SPDX-License-Identifier: MIT
#include <sstream>
#include <thread>

#include "base/format.h"
#include "base/free_port.h"
#include "base/run_tool.h"
#include "cluster/transfer/bench_transfer.h"

namespace cheetah::cluster {
namespace {

constexpr std::chrono::seconds kLimit{15};

// The last line of its table: iterations, three times, and the bandwidths in MiB/s, the last one over all.
UcxPerftestResult read_result(const ToolResult& run) {
  if (!run.started) return {0, "ucx_perftest is not installed (Debian: ucx-utils)"};
  std::string last;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_of("0123456789") != std::string::npos) last = line;
  std::istringstream fields(last);
  double value = 0;
  int count = 0;
  for (double field; count < 6 && fields >> field; ++count) value = field;
  if (!run.complete || run.exit_code != 0 || count < 6 || value <= 0)
    return {0, "ucx_perftest gave no result"};
  return {value * (1 << 20) / 1e9, {}};
}

}  // namespace

UcxPerftestResult run_ucx_perftest(const UcxPerftest& perftest) {
  const std::string port = std::to_string(free_port());
  std::vector<std::string> server{"env", "UCX_LOG_LEVEL=error"};
  if (!perftest.transports.empty()) server.push_back("UCX_TLS=" + perftest.transports);
  server.insert(server.end(), {"ucx_perftest", "-p", port});
  std::vector<std::string> client = server;
  client.insert(client.end(), {"127.0.0.1", "-t", perftest.test, "-s", std::to_string(perftest.message_bytes),
                                  "-n", std::to_string(perftest.count), "-w", "10", "-f"});
  ToolLimits limits;
  limits.time = kLimit;
  std::thread other([&] { run_tool(server, limits); });
  UcxPerftestResult result;
  // The server needs a moment to listen; the client gives up at once where nobody does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    result = read_result(run_tool(client, limits));
    if (result.why.empty()) break;
  }
  other.join();
  return result;
}

}  // namespace cheetah::cluster
