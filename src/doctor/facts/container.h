// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "doctor/document.h"
#include "doctor/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct ContainerFacts {
  Value<std::string> runtime;     // of the job: docker, podman, kubernetes, lxc…; absent on a host
  Value<std::string> around_us;   // of the doctor itself
  Value<int64_t> cgroup_version;  // 1, 2
  bool is_the_jobs = false;       // the group below is the job's, not ours
  std::string cgroup;             // of the job, or of this process: a path below the root
  Value<std::string> cpu_max;     // "max 100000" or "200000 100000"
  Value<Fields> cpu_stat, memory_events;
  Value<double> memory_high, pids_max, pids_current;
  Value<double> memory_max, memory_peak, memory_current, swap_max, swap_current;  // infinity: no limit
  Value<std::vector<int>> cpus, nodes;
  Value<std::string> io_max;
  Value<double> shm_bytes;
  Value<std::string> capabilities;  // effective, hexadecimal
  Value<Document> inspect;          // docker inspect
  Value<Document> kubelet;
  Value<Fields> slurm;
  Value<std::string> gres;
};

// `process`: "self" or the number of the job.
ContainerFacts collect_container(const Source& source, const std::string& process);

}  // namespace cheetah::doctor
