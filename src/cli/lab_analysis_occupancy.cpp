// SPDX-License-Identifier: MIT
// cheetah lab occupancy: how many blocks fit on an SM, what limits them, what would help.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "cli/lab_analysis.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "gpu/device.h"
#include "lab/analysis/occupancy_report.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah lab occupancy --threads 256 --registers 40
  cheetah lab occupancy --threads 128 --registers 64 --shared 48KiB --arch 9.0
  cheetah lab occupancy --threads 256 --elements 1000000 --launch-bounds 256,8 --json
)";

struct OccupancyOptions {
  std::string arch = "auto";
  analysis::Launch launch;
  std::string shared, carveout;
  std::vector<int64_t> grid, bounds;
  bool json = false;
};

// This machine's GPU, where it has one the tables know.
std::string arch_here(analysis::Launch& launch) {
  if (!gpu::cuda_available()) return "9.0";
  const gpu::DeviceInfo device = gpu::query_device();
  std::string capability = format("{}.{}", device.compute_major, device.compute_minor);
  for (const analysis::SmLimits& known : analysis::known_sm_limits())
    if (known.major == device.compute_major && known.minor == device.compute_minor) {
      if (launch.num_sms == 0) launch.num_sms = device.num_sms;
      return capability;
    }
  return "9.0";
}

int run_occupancy(const OccupancyOptions& options) {
  analysis::Launch launch = options.launch;
  const std::string arch = options.arch == "auto" ? arch_here(launch) : options.arch;
  const analysis::SmLimits& sm = analysis::sm_limits(arch);
  if (!options.shared.empty() && options.shared != "0")
    launch.kernel.shared_bytes = parse_bytes("--shared", options.shared);
  if (!options.carveout.empty())
    launch.kernel.shared_carveout_bytes = parse_bytes("--carveout", options.carveout);
  if (!options.grid.empty()) {
    launch.grid_x = options.grid[0];
    if (options.grid.size() > 1) launch.grid_y = options.grid[1];
    if (options.grid.size() > 2) launch.grid_z = options.grid[2];
  }
  if (!options.bounds.empty()) {
    launch.bounds_threads = options.bounds[0];
    launch.bounds_blocks = options.bounds.size() > 1 ? options.bounds[1] : 1;
  }
  const analysis::LaunchReport report = analysis::advise(sm, launch);
  print(options.json ? dump_json(analysis::occupancy_json(sm, report), 2) + "\n"
                     : analysis::occupancy_text(sm, report));
  return report.occupancy.blocks > 0 ? 0 : 1;
}

}  // namespace

void add_lab_occupancy(CLI::App& lab, Action& action) {
  auto* command =
      lab.add_subcommand("occupancy", "How many blocks an SM holds, what limits them, what would help");
  auto options = std::make_shared<OccupancyOptions>();
  analysis::KernelResources& kernel = options->launch.kernel;
  command
      ->add_option("--arch", options->arch,
          "compute capability: 8.0, 8.6, 8.9, 9.0, 10.0, 12.0 (auto: this GPU's, or 9.0)")
      ->capture_default_str();
  accept_counts(command->add_option("--threads", kernel.threads, "threads of a block")->capture_default_str(),
      1, 1 << 20);
  accept_counts(
      command->add_option("--registers", kernel.registers, "registers of a thread (ptxas -v, lab sass)")
          ->capture_default_str(),
      0, 1 << 20);
  command->add_option(
      "--shared", options->shared, "shared memory of a block, static and dynamic, e.g. 48KiB");
  command->add_option(
      "--carveout", options->carveout, "shared memory of the SM, where the kernel asks for less than all");
  const CLI::Range counts(int64_t{1}, int64_t{1} << 40);
  command->add_option("--elements", options->launch.elements, "elements to cover, for advice on the grid")
      ->check(counts);
  command->add_option("--per-thread", options->launch.per_thread, "elements a thread takes")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--grid", options->grid, "blocks: X or X,Y,Z")
      ->delimiter(',')
      ->expected(1, 3)
      ->check(counts);
  command
      ->add_option(
          "--sms", options->launch.num_sms, "SMs of the card (default: this GPU's, or the example's)")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}));
  command->add_option("--launch-bounds", options->bounds, "check __launch_bounds__(THREADS,MIN_BLOCKS)")
      ->delimiter(',')
      ->expected(1, 2)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_occupancy(*options); }; });
}

}  // namespace cheetah
