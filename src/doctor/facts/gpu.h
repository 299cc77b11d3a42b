// SPDX-License-Identifier: MIT
#pragma once
// What NVML (or nvidia-smi) says, in one text form: "driver=580.65.06", "gpu.0.persistence=1" a line. The
// collector writes it, the parser reads it back; a snapshot and a fixture hold the same text.
#include <map>
#include <string>
#include <vector>

#include "doctor/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct GpuProcess {
  int64_t pid = 0;
  int64_t bytes = 0;
};

// One GPU: names as in the text form, e.g. "ecc.current". See docs/doctor.md for the list.
struct Gpu {
  int index = 0;
  Fields fields;
  std::string source;

  Value<std::string> text(const std::string& name) const;
  Value<double> number(const std::string& name) const;
  bool flag(const std::string& name) const { return number(name).value_or(0) != 0; }
  std::string name() const { return text("name").value_or("GPU"); }
  std::string address() const { return text("pci").value_or(""); }
  std::vector<GpuProcess> processes() const;
};

struct GpuFacts {
  Value<std::vector<Gpu>> gpus;                       // absent: no NVIDIA driver here, with the reason
  Value<std::string> driver;                          // "580.65.06", of the user-space library
  Value<double> cuda;                                 // newest CUDA the driver serves, e.g. 13.0
  Value<std::string> module_version, module_license;  // of the loaded kernel module
  Value<Fields> module_parameters;
  Value<std::vector<std::string>> driver_gpus;  // PCI addresses the kernel driver holds
  Value<Fields> device_nodes;                   // "dev/nvidia0" -> "rw"
  Value<std::vector<std::string>> libraries;    // libcuda, libcudart, libnccl files found in the usual places

  int count() const { return gpus ? static_cast<int>(gpus->size()) : 0; }
  double compute_capability() const;  // of the first; 0 unknown
  Value<std::string> library_version(std::string_view stem) const;
};

GpuFacts collect_gpu(const Source& source);
std::vector<Gpu> parse_gpus(std::string_view text, const std::string& source);

// The same text from NVML itself, loaded from `library` at run time.
Text read_nvml(const std::string& library);
// And from nvidia-smi's CSV, for a machine whose NVML cannot be loaded into us.
std::string gpu_text_from_csv(std::string_view csv);

}  // namespace cheetah::doctor
