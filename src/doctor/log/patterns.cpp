// SPDX-License-Identifier: MIT
// Which messages mean trouble: by the driver that writes them and the words it uses, never by a word alone.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "doctor/log/kernel_log.h"

namespace cheetah::doctor {
namespace {

constexpr Gravity kNote = Gravity::kNote, kPassing = Gravity::kPassing, kLasting = Gravity::kLasting,
                  kCorrected = Gravity::kCorrected;
constexpr int kAnyLevel = 7;

// All parts must stand in the line, in this order.
struct Pattern {
  std::array<const char*, 3> parts;
  int most_level;  // a line that tells a less urgent level does not count
  Subsystem subsystem;
  Gravity gravity;
  const char* what;
  const char* action;
};

constexpr const char* kDisk = "back up the disk's data, look at its SMART log (nvme smart-log), replace it";
constexpr const char* kAdapter =
    "look at the adapter's firmware log (mstdump, mlxfwmanager), update or replace it";
constexpr const char* kCheck = "look at the lines around it";
constexpr const char* kModule = "find the DIMM (ras-mc-ctl --errors, the BMC's log) and replace it";

constexpr Subsystem kGpu = Subsystem::kGpu, kPcie = Subsystem::kPcie, kStorage = Subsystem::kStorage,
                    kNetwork = Subsystem::kNetwork, kMemory = Subsystem::kMemory,
                    kKernel = Subsystem::kKernel, kOutOfMemory = Subsystem::kOutOfMemory;

constexpr Pattern kPatterns[] = {
    {{"NVRM: ", "fallen off the bus"}, kAnyLevel, kGpu, kLasting, "the GPU fell off the bus",
        "check power, riser and seat of the GPU, power-cycle the node"},
    {{"NVRM: ", "RmInitAdapter failed"}, kAnyLevel, kGpu, kLasting, "the driver could not start the GPU",
        "reboot; if it returns, reseat or replace the GPU"},
    {{"NVRM: ", "rm_init_adapter failed"}, kAnyLevel, kGpu, kLasting, "the driver could not start the GPU",
        "reboot; if it returns, reseat or replace the GPU"},
    {{"NVRM: API mismatch"}, kAnyLevel, kGpu, kPassing,
        "driver library and kernel module are of different versions",
        "reload the driver or reboot after its update"},
    {{"NVRM: ", "not supported by", "driver release"}, kAnyLevel, kGpu, kLasting,
        "the driver does not support this GPU", "install a driver that does"},
    {{"NVRM: ", "installed in this system requires use of the NVIDIA open kernel modules"}, kAnyLevel, kGpu,
        kLasting, "the GPU needs the open kernel modules", "install the open kernel modules"},
    {{"DPC: containment event"}, kAnyLevel, kPcie, kLasting,
        "a PCIe port cut its link off after a fatal error",
        "reseat the device below the port; look for AER lines before it"},
    {{"pcieport ", "pciehp: Slot", "Link Down"}, kAnyLevel, kPcie, kLasting,
        "the PCIe link of a slot went down", "reseat the device; check its power"},
    {{"nvme ", "controller is down; will reset"}, kAnyLevel, kStorage, kLasting,
        "an NVMe controller went down", kDisk},
    {{"nvme ", "Device not ready; aborting"}, 4, kStorage, kLasting,
        "an NVMe controller does not become ready", kDisk},
    {{"nvme ", "Disabling device after reset failure"}, kAnyLevel, kStorage, kLasting,
        "an NVMe disk was given up after a failed reset", kDisk},
    {{"nvme ", "emoving after probe failure"}, kAnyLevel, kStorage, kLasting,
        "an NVMe disk could not be started", kDisk},
    {{"nvme ", " QID ", "timeout"}, kAnyLevel, kStorage, kPassing, "an NVMe command was not answered in time",
        kDisk},
    {{"nvme ", "I/O ", "timeout, "}, kAnyLevel, kStorage, kPassing,
        "an NVMe command was not answered in time", kDisk},
    {{"nvme", "Unrecovered Read Error"}, kAnyLevel, kStorage, kLasting, "a disk cannot read a block", kDisk},
    {{"critical medium error, dev "}, kAnyLevel, kStorage, kLasting, "a disk cannot read a block", kDisk},
    {{"critical target error, dev "}, kAnyLevel, kStorage, kPassing, "a disk refused a command", kDisk},
    {{"I/O error, dev "}, 3, kStorage, kPassing, "a disk failed a request", kDisk},
    {{"Buffer I/O error on dev"}, kAnyLevel, kStorage, kPassing, "a disk failed a request", kDisk},
    {{"md/raid", "Disk failure on"}, kAnyLevel, kStorage, kLasting, "a disk of an array failed", kDisk},
    {{"EXT4-fs error (device "}, kAnyLevel, kStorage, kLasting, "a file system is damaged",
        "unmount and fsck it"},
    {{"EXT4-fs ", "Remounting filesystem read-only"}, kAnyLevel, kStorage, kLasting,
        "a file system became read-only", "unmount and fsck it"},
    {{"XFS (", "Corruption"}, kAnyLevel, kStorage, kLasting, "a file system is damaged",
        "unmount it and run xfs_repair"},
    {{"XFS (", "metadata I/O error"}, kAnyLevel, kStorage, kLasting, "a file system's disk failed", kDisk},
    {{"XFS (", "hutting down filesystem"}, kAnyLevel, kStorage, kLasting, "a file system shut itself down",
        "unmount it and run xfs_repair"},
    {{"BTRFS ", "error (device "}, kAnyLevel, kStorage, kPassing, "a file system reports errors",
        "run btrfs scrub"},
    {{"BTRFS ", "critical (device "}, kAnyLevel, kStorage, kLasting, "a file system is damaged",
        "run btrfs check"},
    {{"LustreError:", "evicted"}, kAnyLevel, kStorage, kPassing, "the Lustre server evicted this client",
        "look at the server's log and the network"},
    {{"mlx5_core ", "health compromised"}, kAnyLevel, kNetwork, kLasting, "an adapter's firmware stopped",
        kAdapter},
    {{"mlx5_core ", "synd 0x", "error"}, 4, kNetwork, kLasting, "an adapter's firmware asserts", kAdapter},
    {{"mlx5_core ", "Fatal error"}, kAnyLevel, kNetwork, kLasting, "an adapter failed", kAdapter},
    {{"mlx5_core ", "cmd_exec", "timeout"}, 4, kNetwork, kLasting, "an adapter does not answer commands",
        kAdapter},
    {{"mlx5_core ", "wait_func", "timeout"}, 4, kNetwork, kLasting, "an adapter does not answer commands",
        kAdapter},
    {{"mlx5_core ", "Port module event[error]"}, kAnyLevel, kNetwork, kLasting,
        "an adapter's cable or optic is bad", "clean or replace the cable"},
    {{"mlx5_core ", "insufficient power on the PCIe slot"}, kAnyLevel, kNetwork, kNote,
        "the slot gives the adapter too little power", "move the adapter to a slot with more power"},
    {{"mlx5_core ", "igh temperature"}, kAnyLevel, kNetwork, kPassing, "an adapter is hot",
        "check its air flow"},
    {{"NETDEV WATCHDOG: ", "transmit queue"}, kAnyLevel, kNetwork, kPassing, "an adapter stopped sending",
        kAdapter},
    {{"ena ", "eep alive watchdog timeout"}, kAnyLevel, kNetwork, kPassing,
        "a cloud adapter stopped answering", kAdapter},
    {{"bnxt_en ", "TX timeout"}, kAnyLevel, kNetwork, kPassing, "an adapter stopped sending", kAdapter},
    {{"bnxt_en ", "irmware fatal"}, kAnyLevel, kNetwork, kLasting, "an adapter's firmware stopped", kAdapter},
    {{"EDAC ", " UE "}, kAnyLevel, kMemory, kLasting, "memory returned bits that could not be corrected",
        kModule},
    {{"EDAC ", " CE "}, kAnyLevel, kMemory, kCorrected, "memory errors were corrected", kModule},
    {{"[Hardware Error]:", "event severity: fatal"}, kAnyLevel, kMemory, kLasting,
        "the platform reports a fatal error", kModule},
    {{"[Hardware Error]:", "event severity: recoverable"}, kAnyLevel, kMemory, kPassing,
        "the platform reports an uncorrected error", kModule},
    {{"[Hardware Error]:", "event severity: corrected"}, kAnyLevel, kMemory, kCorrected,
        "the platform corrected errors", kModule},
    {{"mce: [Hardware Error]: ", "Uncorrected"}, kAnyLevel, kMemory, kLasting,
        "the processor reports an uncorrected error", kModule},
    {{"mce: [Hardware Error]: ", "Machine check events logged"}, kAnyLevel, kMemory, kCorrected,
        "the processor logged corrected errors", kModule},
    {{"Memory failure: 0x", "ecovery action", "Failed"}, kAnyLevel, kMemory, kLasting,
        "a bad page of memory could not be set aside", kModule},
    {{"Memory failure: 0x"}, kAnyLevel, kMemory, kPassing, "a bad page of memory was set aside", kModule},
    {{"soft lockup - CPU#"}, kAnyLevel, kKernel, kPassing, "a CPU was stuck in the kernel", kCheck},
    {{"hard LOCKUP"}, kAnyLevel, kKernel, kPassing, "a CPU was stuck with interrupts off", kCheck},
    {{"self-detected stall"}, kAnyLevel, kKernel, kPassing, "a CPU was stuck in the kernel", kCheck},
    {{"detected stalls on CPUs"}, kAnyLevel, kKernel, kPassing, "a CPU was stuck in the kernel", kCheck},
    {{"INFO: task ", " blocked for more than "}, kAnyLevel, kKernel, kPassing,
        "a process waited minutes for the kernel", "look at the disk or network file system it waits for"},
    {{"Kernel panic - not syncing"}, kAnyLevel, kKernel, kLasting, "the kernel panicked", kCheck},
    {{"BUG: unable to handle"}, kAnyLevel, kKernel, kLasting, "the kernel made an illegal access", kCheck},
    {{"Internal error: Oops"}, kAnyLevel, kKernel, kLasting, "the kernel made an illegal access", kCheck},
    {{"nfs: server ", " not responding"}, kAnyLevel, kStorage, kPassing, "an NFS server does not answer",
        "look at the server and the way to it"},
    {{"Out of memory: Killed process"}, kAnyLevel, kOutOfMemory, kPassing,
        "the kernel killed a process for memory", "give the job less memory to use, or the machine more"},
    {{"Memory cgroup out of memory: Killed process"}, kAnyLevel, kOutOfMemory, kPassing,
        "a control group killed its process for memory", "raise the group's memory limit, or use less"},
    {{"emperature above threshold"}, kAnyLevel, kKernel, kPassing, "a processor is too hot and slows down",
        "check fans, air flow and heat sinks"},
};

bool holds(std::string_view text, const Pattern& pattern) {
  size_t at = 0;
  for (const char* part : pattern.parts) {
    if (part == nullptr) break;
    at = text.find(part, at);
    if (at == std::string_view::npos) return false;
    at += std::char_traits<char>::length(part);
  }
  return true;
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// The PCI address that begins at or after `from`: "0000:13:00.0", or "0000:13:00" as Xid lines have it.
std::string address_in(std::string_view text, size_t from = 0) {
  for (size_t i = from; i + 10 <= text.size(); ++i) {
    if (text[i + 4] != ':' || text[i + 7] != ':') continue;
    bool good = true;
    for (const size_t at : {0, 1, 2, 3, 5, 6, 8, 9}) good = good && is_hex(text[i + at]);
    if (!good) continue;
    const bool whole =
        i + 12 <= text.size() && text[i + 10] == '.' && text[i + 11] >= '0' && text[i + 11] <= '7';
    return std::string(text.substr(i, 10)) + (whole ? std::string(text.substr(i + 10, 2)) : ".0");
  }
  return "";
}

std::string word_after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + mark.size());
  return printable(rest.substr(0, rest.find_first_of(" ,:;)(")), 40);
}

// The device that a line of a driver is about.
std::string culprit_of(std::string_view text, Subsystem subsystem) {
  for (const char* mark : {"dev ", "device ", "XFS (", "EXT4-fs (", "nfs: server ", "Disk failure on ",
           "EDAC ", "NETDEV WATCHDOG: ", "Killed process ", "INFO: task "})
    if (std::string word = word_after(text, mark);
        !word.empty() && subsystem != kNetwork && subsystem != kPcie)
      return word;
  if (starts_with(text, "nvme ")) return word_after(text, "nvme ");
  if (std::string address = address_in(text); !address.empty()) return address;
  if (const size_t cpu = text.find("CPU"); cpu != std::string_view::npos && subsystem == kKernel)
    return printable(text.substr(cpu, text.substr(cpu).find_first_of(" :,]")), 20);
  return starts_with(text, "nvme") ? word_after(text, "") : word_after(text, "NETDEV WATCHDOG: ");
}

std::optional<int> number_after(std::string_view text, size_t at) {
  while (at < text.size() && text[at] == ' ') ++at;
  size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const auto number = to_integer(text.substr(at, end - at));
  return number && *number < 100000 ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

// "NVRM: Xid (PCI:0000:13:00): 79, pid=…" and "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 3 …".
std::optional<LogEvent> driver_error(std::string_view text) {
  const size_t sxid = text.find("SXid (PCI:");
  const size_t xid = sxid == std::string_view::npos ? text.find("Xid (PCI:") : sxid;
  if (xid == std::string_view::npos || (sxid == std::string_view::npos && !contains(text, "NVRM:")))
    return std::nullopt;
  const size_t end = text.find("): ", xid);
  const auto code = end == std::string_view::npos ? std::nullopt : number_after(text, end + 3);
  if (!code) return std::nullopt;
  const bool is_switch = sxid != std::string_view::npos;
  const auto row = is_switch ? sxid_meaning(*code) : xid_meaning(*code);
  LogEvent event;
  event.subsystem = is_switch ? Subsystem::kSwitch : kGpu;
  event.gravity = row ? row->gravity : kPassing;
  event.culprit = address_in(text, xid);
  event.what = format(
      "{} {}: {}", is_switch ? "SXid" : "Xid", *code, row ? row->meaning : "unknown to this catalogue");
  event.action = row ? row->action : "look it up in NVIDIA's catalogue";
  if (is_switch && contains(text, ", Fatal,")) event.gravity = kLasting;
  if (is_switch && contains(text, ", Non-fatal,") && event.gravity == kLasting) event.gravity = kPassing;
  return event;
}

// Both spellings: "Uncorrected (Fatal) error received: ADDRESS" and, since 6.x, "Uncorrectable (Fatal) error message
// received from ADDRESS"; and the line of the device, "PCIe Bus Error: severity=…".
std::optional<LogEvent> bus_error(std::string_view text) {
  const bool report = contains(text, "AER: "), device = contains(text, "PCIe Bus Error: severity=");
  if (!report && !device) return std::nullopt;
  LogEvent event;
  event.subsystem = kPcie;
  const bool uncorrected = contains(text, "Uncorrect");
  const bool received = device || contains(text, "error received") ||
                        contains(text, "error message received") || contains(text, "errors received");
  if (!received) return std::nullopt;
  if (uncorrected && contains(text, "(Fatal)")) {
    event.gravity = kLasting;
    event.what = "a fatal PCIe error";
    event.action = "drain the node, reseat the device or its riser, replace it if it returns";
  } else if (uncorrected) {
    event.gravity = kPassing;
    event.what = "an uncorrected PCIe error";
    event.action = "reseat the device or its riser, replace it if it returns";
  } else if (contains(text, "Correct")) {
    event.gravity = kCorrected;
    event.what = "PCIe errors were corrected";
    event.action = "reseat the device or its riser: the link repeats transfers";
  } else {
    return std::nullopt;
  }
  size_t from = 0;
  for (const char* mark : {"received: ", "received from "})
    if (const size_t at = text.find(mark); at != std::string_view::npos) from = at;
  event.culprit = address_in(text, from);
  return event;
}

}  // namespace

std::optional<LogEvent> event_of(const LogLine& line) {
  if (auto event = driver_error(line.text)) return event;
  if (auto event = bus_error(line.text)) return event;
  for (const Pattern& pattern : kPatterns) {
    if (line.level > pattern.most_level || !holds(line.text, pattern)) continue;
    LogEvent event;
    event.subsystem = pattern.subsystem;
    event.gravity = pattern.gravity;
    event.what = pattern.what;
    event.action = pattern.action;
    event.culprit = culprit_of(line.text, pattern.subsystem);
    // Drives of removable media that virtual machines carry empty.
    if (starts_with(event.culprit, "fd") || starts_with(event.culprit, "sr")) return std::nullopt;
    return event;
  }
  return std::nullopt;
}

}  // namespace cheetah::doctor
