// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "doctor/value.h"

namespace cheetah::doctor {

struct BlockDevice {
  std::string name;
  Value<std::string> scheduler, model;
  Value<int64_t> read_ahead_kb, rotational, requests, sectors;
  Value<int64_t> queues;
  std::string pci;
  std::vector<std::string> numbers;  // major:minor of the disk and its partitions
  bool is_nvme() const { return name.compare(0, 4, "nvme") == 0; }
};

struct Mount {
  std::string point, type, device, options, super_options, block;  // block: major:minor
  std::string option(std::string_view name) const;                 // its value; "" when not given
  bool has_option(std::string_view name) const;
};

struct Space {
  double bytes = 0, free = 0, inodes = 0, inodes_free = 0;
};

struct FileSample {
  std::string name;
  double bytes = 0;
};

// A folder the person named: of the data set, or of the checkpoints.
struct WatchedPath {
  std::string path;
  Value<Mount> mount;
  Value<Space> space;
  Value<std::vector<FileSample>> files;
  Value<std::string> device;  // the block device below, e.g. nvme0n1
};

struct StorageFacts {
  Value<std::vector<BlockDevice>> devices;
  Value<std::vector<Mount>> mounts;
  Value<std::string> md_status;
  Value<std::string> gds_stats, cufile_config;
  WatchedPath data, checkpoints;

  const BlockDevice* find(std::string_view name) const;
};

StorageFacts collect_storage(
    const Source& source, const std::string& data_path, const std::string& checkpoint_path);

std::vector<Mount> parse_mounts(std::string_view mountinfo);
// The mount that holds a path: the longest mount point that is a prefix of it.
const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path);

}  // namespace cheetah::doctor
