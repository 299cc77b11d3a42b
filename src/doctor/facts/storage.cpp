// SPDX-License-Identifier: MIT
#include "doctor/facts/storage.h"

#include <algorithm>

#include "base/error.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_real_disk(std::string_view name) {
  for (const char* prefix : {"loop", "ram", "zram", "sr", "fd"})
    if (starts_with(name, prefix)) return false;
  // nvme0c1n1 is one path of nvme0n1, not a disk.
  return !(starts_with(name, "nvme") && name.find('c', 4) != std::string_view::npos);
}

// The address of the controller in the device's path: …/0000:41:00.0/nvme/nvme0/nvme0n1.
std::string pci_in(const std::string& link) {
  std::string address;
  for (const std::string_view part : split(link, '/'))
    if (part.size() >= 12 && part[4] == ':' && part[7] == ':') address = std::string(part);
  return address;
}

// Behind native multipath a namespace hangs below its subsystem: the first controller's address is its own.
std::string pci_of_subsystem(const Source& source, const std::string& link) {
  for (const std::string_view part : split(link, '/')) {
    if (!starts_with(part, "nvme-subsys")) continue;
    for (const std::string& name : source.list("sys/class/nvme-subsystem/" + std::string(part))) {
      if (!starts_with(name, "nvme") || name.find('n', 4) != std::string::npos) continue;
      const std::string controller = "sys/class/nvme/" + name;
      for (const std::string& place : {read_line(source, controller + "/address").value_or(""),
               source.link(controller), source.link(controller + "/device")})
        if (std::string address = pci_in(place); !address.empty()) return address;
    }
  }
  return "";
}

std::vector<std::string> read_numbers(const Source& source, const std::string& name) {
  const std::string folder = "sys/block/" + name;
  std::vector<std::string> numbers{read_line(source, folder + "/dev").value_or("")};
  for (const std::string& part : source.list(folder))
    if (starts_with(part, name))
      numbers.push_back(read_line(source, folder + "/" + part + "/dev").value_or(""));
  std::erase(numbers, "");
  return numbers;
}

BlockDevice read_device(const Source& source, const std::string& name) {
  const std::string folder = "sys/block/" + name;
  BlockDevice device;
  device.name = name;
  device.scheduler = read_chosen(source, folder + "/queue/scheduler");
  device.read_ahead_kb = read_integer(source, folder + "/queue/read_ahead_kb");
  device.rotational = read_integer(source, folder + "/queue/rotational");
  device.requests = read_integer(source, folder + "/queue/nr_requests");
  device.sectors = read_integer(source, folder + "/size");
  device.model = read_line(source, folder + "/device/model");
  const std::string link = source.link(folder);
  device.pci = pci_in(link);
  if (device.pci.empty() && device.is_nvme()) device.pci = pci_of_subsystem(source, link);
  device.numbers = read_numbers(source, name);
  const auto queues = source.list(folder + "/mq");
  if (!queues.empty()) device.queues = {static_cast<int64_t>(queues.size()), folder + "/mq"};
  return device;
}

// \040 is how mountinfo writes a blank.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      int code = 0;
      for (size_t j = 1; j <= 3; ++j) code = code * 8 + (text[i + j] - '0');
      if (code > 0 && code < 256) {
        result += static_cast<char>(code);
        i += 3;
        continue;
      }
    }
    result += text[i];
  }
  return result;
}

Value<Space> read_space(const Source& source, const std::string& path) {
  const Text text = source.read("cheetah/space" + path, 4096);
  if (!text.ok()) return Value<Space>::absent(text);
  const auto words = words_of(text.text);
  if (words.size() < 4) return Value<Space>::unreadable(text.path, "expected four numbers");
  return {Space{to_number(words[0]).value_or(0), to_number(words[1]).value_or(0),
              to_number(words[2]).value_or(0), to_number(words[3]).value_or(0)},
      text.path};
}

Value<std::vector<FileSample>> read_files(const Source& source, const std::string& path) {
  using Files = Value<std::vector<FileSample>>;
  const Text text = source.read("cheetah/files" + path, int64_t{8} << 20);
  if (!text.ok()) return Files::absent(text);
  std::vector<FileSample> files;
  for (const std::string_view line : lines_of(text.text)) {
    const size_t blank = line.find(' ');
    const auto bytes = to_number(line.substr(0, blank));
    if (blank == std::string_view::npos || !bytes) continue;
    files.push_back({printable(line.substr(blank + 1), 512), *bytes});
  }
  if (files.empty()) return Files::absent(text.path, "it holds no files");
  return {std::move(files), text.path};
}

// Which block device serves a mount: by its number, else by name below /dev, a partition cut off.
Value<std::string> device_of(const Mount& mount, const std::vector<BlockDevice>& devices) {
  for (const BlockDevice& device : devices)
    if (std::find(device.numbers.begin(), device.numbers.end(), mount.block) != device.numbers.end())
      return {device.name, "proc/self/mountinfo"};
  const std::string name = base_name(mount.device);
  const BlockDevice* best = nullptr;
  for (const BlockDevice& device : devices)
    if (starts_with(name, device.name) && (best == nullptr || device.name.size() > best->name.size()))
      best = &device;
  if (best == nullptr || !starts_with(mount.device, "/dev/"))
    return Value<std::string>::absent("proc/self/mountinfo", "no local block device lies below it");
  return {best->name, "proc/self/mountinfo"};
}

WatchedPath watch(const Source& source, const StorageFacts& facts, const std::string& path) {
  WatchedPath watched;
  watched.path = path;
  if (path.empty()) {
    watched.mount = Value<Mount>::absent("", "no such path was named");
    watched.space = Value<Space>::absent("", "no such path was named");
    watched.files = Value<std::vector<FileSample>>::absent("", "no such path was named");
    watched.device = Value<std::string>::absent("", "no such path was named");
    return watched;
  }
  const Mount* mount = facts.mounts ? mount_of(*facts.mounts, path) : nullptr;
  if (mount != nullptr) {
    watched.mount = {*mount, "proc/self/mountinfo"};
    // An overlay's files lie where its upper folder lies.
    const std::string upper = mount->type == "overlay" ? mount->option("upperdir") : "";
    const Mount* below = upper.empty() ? mount : mount_of(*facts.mounts, upper);
    if (facts.devices && below != nullptr) watched.device = device_of(*below, *facts.devices);
  }
  watched.space = read_space(source, path);
  watched.files = read_files(source, path);
  return watched;
}

Value<std::string> read_whole(const Source& source, const std::string& path) {
  Text text = source.read(path);
  if (!text.ok()) return Value<std::string>::absent(text);
  return {std::move(text.text), path};
}

}  // namespace

bool Mount::has_option(std::string_view name) const {
  for (const std::string* list : {&options, &super_options})
    for (const std::string_view part : split(*list, ','))
      if (part.substr(0, part.find('=')) == name) return true;
  return false;
}

std::string Mount::option(std::string_view name) const {
  for (const std::string* list : {&options, &super_options})
    for (const std::string_view part : split(*list, ',')) {
      const size_t equals = part.find('=');
      if (equals != std::string_view::npos && part.substr(0, equals) == name)
        return std::string(part.substr(equals + 1));
    }
  return "";
}

const BlockDevice* StorageFacts::find(std::string_view name) const {
  if (devices)
    for (const BlockDevice& device : *devices)
      if (device.name == name) return &device;
  return nullptr;
}

// 36 35 98:0 /root /point options… - type device super-options
std::vector<Mount> parse_mounts(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string_view line : lines_of(mountinfo)) {
    const auto words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 7 || words.end() - dash < 4) continue;
    mounts.push_back({unescaped(words[4]), std::string(dash[1]), unescaped(dash[2]), std::string(words[5]),
        std::string(dash[3]), std::string(words[2])});
    if (mounts.size() >= 8192) break;
  }
  return mounts;
}

const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    const bool holds = mount.point == "/" || path == mount.point ||
                       (starts_with(path, mount.point) && path[mount.point.size()] == '/');
    if (holds && (best == nullptr || mount.point.size() >= best->point.size())) best = &mount;
  }
  return best;
}

StorageFacts collect_storage(
    const Source& source, const std::string& data_path, const std::string& checkpoint_path) {
  StorageFacts facts;
  std::vector<BlockDevice> devices;
  for (const std::string& name : source.list("sys/block"))
    if (is_real_disk(name) && devices.size() < 512) devices.push_back(read_device(source, name));
  if (devices.empty())
    facts.devices = Value<std::vector<BlockDevice>>::absent("sys/block", "no disk is visible");
  else
    facts.devices = {std::move(devices), "sys/block"};
  const Text mountinfo = source.read("proc/self/mountinfo");
  facts.mounts = mountinfo.ok() ? Value<std::vector<Mount>>(parse_mounts(mountinfo.text), mountinfo.path)
                                : Value<std::vector<Mount>>::absent(mountinfo);
  facts.md_status = read_whole(source, "proc/mdstat");
  facts.gds_stats = read_whole(source, "proc/driver/nvidia-fs/stats");
  facts.cufile_config = read_whole(source, "etc/cufile.json");
  facts.data = watch(source, facts, data_path);
  facts.checkpoints = watch(source, facts, checkpoint_path);
  return facts;
}

}  // namespace cheetah::doctor
