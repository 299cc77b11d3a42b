#include "lab/roofs.h"

#include "gpu/ceilings.h"
#include "hw/ceilings.h"

namespace cheetah::lab {
namespace {

double measure_cpu(Roof roof, Machine& machine) {
  ThreadPool one({.num_threads = 1, .pin = false});
  switch (roof) {
    case Roof::kDram:
      return measure_read_bandwidth(machine.threads());
    case Roof::kCoreDram:
      return measure_read_bandwidth(one);
    case Roof::kFp32:
      return measure_fma_peak(machine.threads());
    case Roof::kCoreFp32:
      return measure_fma_peak(one);
    default:
      return 0;
  }
}

double measure_cuda(Roof roof, Machine& machine) {
  if (!machine.has_gpu()) return 0;
  switch (roof) {
    case Roof::kDram:
      return gpu::measure_read_bandwidth(machine.memory(), machine.stream());
    case Roof::kFp32:
      return gpu::measure_fma_peak(machine.memory(), machine.stream());
    default:
      return 0;
  }
}

}  // namespace

double Roofs::rate(Domain domain, Roof roof) {
  double& rate = slot(domain, roof);
  if (rate == kUnmeasured)
    rate = domain == Domain::kCpu ? measure_cpu(roof, machine_) : measure_cuda(roof, machine_);
  return rate;
}

}  // namespace cheetah::lab
