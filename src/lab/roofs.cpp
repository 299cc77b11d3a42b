#include "lab/roofs.h"

#include <algorithm>

namespace cheetah::lab {

double Roofs::rate(Domain domain, Roof roof) {
  if (roof == Roof::kNone) return 0;
  for (const MeasuredRoof& known : roofs_)
    if (known.domain == domain && known.roof == roof) return known.rate;
  roofs_.push_back(domain == Domain::kCpu ? measure_cpu_roof(roof, machine_)
                                          : measure_cuda_roof(roof, machine_));
  return roofs_.back().rate;
}

double Roofs::measure_again(Domain domain, Roof roof) {
  const double before = rate(domain, roof);
  if (before <= 0) return before;
  const MeasuredRoof again =
      domain == Domain::kCpu ? measure_cpu_roof(roof, machine_) : measure_cuda_roof(roof, machine_);
  for (MeasuredRoof& known : roofs_)
    if (known.domain == domain && known.roof == roof && again.rate > known.rate) known = again;
  return std::max(before, again.rate);
}

std::vector<MeasuredRoof> Roofs::measured() const {
  std::vector<MeasuredRoof> all;
  for (const MeasuredRoof& known : roofs_)
    if (known.rate > 0) all.push_back(known);
  return all;
}

}  // namespace cheetah::lab
