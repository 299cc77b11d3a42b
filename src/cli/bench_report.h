// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "base/json.h"
#include "hw/gpu_watch.h"
#include "model/engine_bench.h"

namespace cheetah {

// Everything the report of one `bench engine` run is made from.
struct BenchFacts {
  const Model& model;
  const EngineBenchPlan& plan;
  const EngineBenchSamples& samples;
  std::string dtype;  // as asked for, or "as stored"
  DType kv_dtype;
  std::string compute;
  int threads;
  std::string device;           // "CPU", "NVIDIA H200"
  double read_bandwidth;        // bytes/s, measured in the same run
  double fma_peak;              // operations/s in F32, measured in the same run
  std::string unit;             // what multiplies the layers' weights: "F32 FMA", "INT8 dots"
  double unit_peak;             // its operations/s, measured in the same run
  std::vector<GpuReading> gpu;  // while it was measured; none on the CPU or without NVML
};

std::string utc_now();         // 2026-01-31T12:00:00Z
Json provenance(int threads);  // machine, build and date: what every result carries
std::string bench_table(const BenchFacts& facts);
Json bench_json(const BenchFacts& facts);

}  // namespace cheetah
