// SPDX-License-Identifier: MIT
#pragma once
// Everything the checks may look at. Plain values: a check is a pure function of them.
#include <map>
#include <optional>
#include <string>

#include "doctor/expected.h"
#include "doctor/facts/container.h"
#include "doctor/facts/counters.h"
#include "doctor/facts/cpu.h"
#include "doctor/facts/engine.h"
#include "doctor/facts/gpu.h"
#include "doctor/facts/host.h"
#include "doctor/facts/log.h"
#include "doctor/facts/measured.h"
#include "doctor/facts/memory.h"
#include "doctor/facts/network.h"
#include "doctor/facts/pci.h"
#include "doctor/facts/pod.h"
#include "doctor/facts/process.h"
#include "doctor/facts/profile.h"
#include "doctor/facts/settings.h"
#include "doctor/facts/software.h"
#include "doctor/facts/storage.h"
#include "doctor/facts/trend.h"
#include "doctor/machine.h"

namespace cheetah::doctor {

enum class Purpose { kServe, kTrain, kBench };

// What the machine is for: the same reading is right for one purpose and wrong for another.
struct Intent {
  Purpose purpose = Purpose::kServe;
  bool multi_node = false;
  std::string pid;  // a job to examine; "" none
  std::string data_path, checkpoint_path;
  std::string binary;  // a program whose GPU code is looked at
  std::string config;  // an engine's or trainer's settings, a file
};

struct Facts {
  Intent intent;
  HostFacts host;
  LogFacts log;
  CpuFacts cpu;
  MemoryFacts memory;
  PciFacts pci;
  GpuFacts gpu;
  NetworkFacts network;
  StorageFacts storage;
  ContainerFacts container;
  ProcessFacts self;
  std::optional<ProcessFacts> job;
  SoftwareFacts software;
  CounterFacts counters;
  SettingsFacts settings;
  std::optional<PodFacts> pod;          // of a file
  std::optional<EngineFacts> engine;    // of a server
  std::optional<ProfileFacts> profile;  // of a trace
  std::optional<MeasuredFacts> measured;
  std::optional<Expected> expected;               // of the site's profile
  std::vector<Trend> trends;                      // of the history
  std::map<std::string, double> measured_before;  // the usual results, by name
  MachineModel machine;                           // worked out from all of the above
  std::vector<std::string> problems;              // collectors that ran out of time or failed

  const ProcessFacts& process() const { return job ? *job : self; }
  bool has_gpu() const { return gpu.count() > 0 || !pci.gpus().empty(); }
  bool serves() const { return intent.purpose == Purpose::kServe; }
  bool trains() const { return intent.purpose == Purpose::kTrain; }
};

}  // namespace cheetah::doctor
