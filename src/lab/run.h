// SPDX-License-Identifier: MIT
#pragma once
// A whole run: experiments' results and where they come from.
#include <functional>

#include "lab/result.h"
#include "lab/roofs.h"
#include "lab/runner.h"

namespace cheetah::lab {

// Where numbers come from. Results of different `hardware` are never compared.
struct Provenance {
  std::string time;      // UTC, 2026-01-31T12:00:00Z
  std::string hardware;  // one line: CPU, cores, GPU
  std::string cpu, simd;
  int cores = 0;
  std::string gpu = {}, driver = {}, cuda = {};
  double sm_mhz = 0, memory_mhz = 0;  // at the start
  std::string commit, compiler;
  bool quick = false;
};

struct LabRun {
  Provenance provenance;
  std::vector<MeasuredRoof> roofs;
  std::vector<ExperimentResult> experiments;

  bool has_wrong() const;
};

struct BuildText {
  std::string commit, compiler, cuda;
};

Provenance describe_machine(Machine& machine, const BuildText& build);

// Runs them until all are done or `heard`, which gets each result as it comes, returns false.
LabRun run_lab(std::span<const Experiment* const> experiments, const RunOptions& options,
    const BuildText& build, const std::function<bool(const ExperimentResult&)>& heard);

}  // namespace cheetah::lab
