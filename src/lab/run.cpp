// SPDX-License-Identifier: MIT
#include "lab/run.h"

#include <algorithm>
#include <ctime>

#include "base/format.h"
#include "gpu/pci_address.h"
#include "hw/cpu.h"
#include "lab/watch.h"

namespace cheetah::lab {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string cuda_version(int version) { return format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

bool LabRun::has_wrong() const {
  return std::ranges::any_of(experiments, [](const ExperimentResult& e) { return e.has_wrong(); });
}

Provenance describe_machine(Machine& machine, const BuildText& build) {
  const CpuInfo cpu = read_cpu_info();
  Provenance p;
  p.time = utc_now();
  p.cpu = cpu.model;
  p.simd = cpu.simd;
  p.cores = cpu.usable_cores;
  p.commit = build.commit;
  p.compiler = build.compiler;
  p.hardware = format("{}, {} cores", cpu.model, cpu.usable_cores);
  if (!machine.has_gpu()) return p;
  const GpuWatch watch(gpu::pci_address(machine.device().index));
  const GpuReading reading = watch.read();
  p.gpu = machine.device().name;
  p.driver = watch.driver_version();
  p.cuda = format("{} (driver speaks {})", cuda_version(machine.device().runtime_version),
      cuda_version(machine.device().driver_version));
  p.sm_mhz = reading.sm_mhz.value_or(0);
  p.memory_mhz = reading.memory_mhz.value_or(0);
  p.hardware += format(", {}", p.gpu);
  return p;
}

LabRun run_lab(std::span<const Experiment* const> experiments, const RunOptions& options,
    const BuildText& build, const std::function<bool(const ExperimentResult&)>& heard) {
  Machine machine;
  Roofs roofs(machine);
  LabRun run;
  run.provenance = describe_machine(machine, build);
  run.provenance.quick = options.quick;
  const GpuWatch watch(machine.has_gpu() ? gpu::pci_address(machine.device().index) : "");
  for (const Experiment* experiment : experiments) {
    const GpuReading gpu_before = watch.read();
    const CpuReading cpu_before = read_cpu();
    ExperimentResult result = run_experiment(*experiment, machine, roofs, options);
    if (result.skipped.empty() && !options.check_only)
      result.disturbances = experiment->domain == Domain::kCuda ? disturbances(gpu_before, watch.read())
                                                                : disturbances(cpu_before, read_cpu());
    const bool goes_on = heard(result);
    run.experiments.push_back(std::move(result));
    if (!goes_on) break;
  }
  run.roofs = roofs.measured();
  return run;
}

}  // namespace cheetah::lab
