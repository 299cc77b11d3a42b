// SPDX-License-Identifier: MIT
#include "lab/roofs.h"

#include <algorithm>

namespace cheetah::lab {

MeasuredRoof Roofs::measure(Domain domain, Roof roof) {
  return domain == Domain::kCpu ? measure_cpu_roof(roof, machine_) : measure_cuda_roof(roof, machine_);
}

double Roofs::rate(Domain domain, Roof roof) {
  if (roof == Roof::kNone) return 0;
  for (const MeasuredRoof& known : roofs_)
    if (known.domain == domain && known.roof == roof) return known.rate;
  MeasuredRoof measured = measure(domain, roof);
  // On a busy machine all cores together can look slower than one.
  if (domain == Domain::kCpu && roof == Roof::kDram)
    measured.rate = std::max(measured.rate, rate(domain, Roof::kCoreDram));
  if (domain == Domain::kCpu && roof == Roof::kFp32)
    measured.rate = std::max(measured.rate, rate(domain, Roof::kCoreFp32));
  roofs_.push_back(measured);
  return measured.rate;
}

double Roofs::measure_again(Domain domain, Roof roof) {
  const double before = rate(domain, roof);
  if (before <= 0) return before;
  const MeasuredRoof again = measure(domain, roof);
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
