// SPDX-License-Identifier: MIT
#pragma once
// What runs on the machine rather than what it is made of: libraries, variables, settings, GPU code.
#include <string>
#include <vector>

#include "doctor/document.h"
#include "doctor/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct DeviceCode {
  int arch = 0;  // 90 for sm_90
  bool is_ptx = false;
};

struct SoftwareFacts {
  Value<Fields> environment;  // of the job, or ours
  Value<Fields> nccl_config;  // /etc/nccl.conf
  Value<Fields> settings;     // of the engine: its config file, then its command line, names in one spelling
  Value<std::string> cuda_version;  // of the toolkit
  Value<std::string> nccl_version;
  Value<std::vector<DeviceCode>> device_code;

  // A variable of the environment or of nccl.conf.
  Value<std::string> variable(const std::string& name) const;
  Value<std::string> setting(const std::string& name) const;
};

SoftwareFacts collect_software(
    const Source& source, const std::string& pid, const std::string& binary, const std::string& config);

// The targets in a program's fat binaries; empty when it holds none.
std::vector<DeviceCode> find_device_code(std::string_view bytes);
// "--max-num-seqs" and "maxNumSeqs" are one setting: "max_num_seqs".
std::string setting_name(std::string_view name);

}  // namespace cheetah::doctor
