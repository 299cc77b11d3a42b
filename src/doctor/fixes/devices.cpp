// SPDX-License-Identifier: MIT
// Fixes of adapters, disks and mounts.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "doctor/fixes/fix.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kJumbo = 9000, kGoogleJumbo = 8896;

std::string rule(
    std::string_view subsystem, const std::string& name, std::string_view attribute, std::string_view value) {
  return format("ACTION==\"add|change\", SUBSYSTEM==\"{}\", KERNEL==\"{}\", ATTR{{{}}}=\"{}\"", subsystem,
      printable(name), attribute, value);
}

// Only an Ethernet adapter of its own takes jumbo frames; IPoIB and clouds have other limits.
void enlarge_frames(FixBuilder& fix) {
  const bool google = contains(fix.facts.host.vendor.value_or(""), "Google");
  const int64_t size = google ? kGoogleJumbo : kJumbo;
  std::string rules;
  for (const Subject& subject : fix.outcome.subjects) {
    const std::string folder = "sys/class/net/" + subject.name;
    const std::string type = setting_in(fix.text_of(folder + "/type"));
    if (!type.empty() && type != "1") {
      fix.note(format("{} is not Ethernet (IPoIB carries 4092 bytes in datagram mode): it is left alone",
          printable(subject.name)));
      continue;
    }
    fix.write(folder + "/mtu", format("{}", size));
    rules += (rules.empty() ? "" : "\n") + rule("net", subject.name, "mtu", format("{}", size));
  }
  if (rules.empty()) return fix.refuse("none of these adapters takes jumbo frames");
  fix.create("etc/udev/rules.d/90-cheetah-NET-05.rules", rules);
  fix.note(
      "set the switch ports and every other host first: a path with smaller frames drops the large ones; where "
      "netplan or NetworkManager sets the MTU, change it there");
}

void enlarge_windows(FixBuilder& fix) {
  std::string lines;
  for (const Subject& subject : fix.outcome.subjects) {
    const bool receive = contains(subject.name, "rmem");
    const std::string value = receive ? "4096 131072 134217728" : "4096 65536 134217728";
    const std::string name = receive ? "net.ipv4.tcp_rmem" : "net.ipv4.tcp_wmem";
    fix.write(receive ? "proc/sys/net/ipv4/tcp_rmem" : "proc/sys/net/ipv4/tcp_wmem", value);
    lines += format("{}{} = {}", lines.empty() ? "" : "\n", name, value);
  }
  fix.create("etc/sysctl.d/90-cheetah-NET-06.conf", lines);
}

void explain_drops(FixBuilder& fix) {
  fix.refuse(rendered(
      "which counter grows decides: 'ethtool -S {it}'. CRC and symbol errors are a cable or an optic: "
      "clean or replace it; missed and fifo errors are a ring too short ('ethtool -g' shows the "
      "largest, 'ethtool -G' sets it) or a CPU too slow to empty it",
      fix.outcome));
}

void unset_scheduler(FixBuilder& fix) {
  std::string rules;
  for (const Subject& subject : fix.outcome.subjects) {
    const std::string path = "sys/block/" + subject.name + "/queue/scheduler";
    if (const std::string offered = fix.text_of(path); !offered.empty() && !contains(offered, "none")) {
      fix.note(format("{} does not offer 'none'", printable(subject.name)));
      continue;
    }
    fix.write(path, "none");
    rules += (rules.empty() ? "" : "\n") + rule("block", subject.name, "queue/scheduler", "none");
  }
  if (!rules.empty()) fix.create("etc/udev/rules.d/90-cheetah-STO-01.rules", rules);
}

void read_ahead(FixBuilder& fix) {
  std::string rules;
  for (const Subject& subject : fix.outcome.subjects) {
    fix.write("sys/block/" + subject.name + "/queue/read_ahead_kb", "4096");
    rules += (rules.empty() ? "" : "\n") + rule("block", subject.name, "queue/read_ahead_kb", "4096");
  }
  if (!rules.empty()) fix.create("etc/udev/rules.d/90-cheetah-STO-02.rules", rules);
}

// What the mount has now, of the three ways to note accesses.
std::string access_option(const Mount& mount) {
  for (const char* option : {"relatime", "strictatime", "lazytime"})
    if (mount.has_option(option)) return option;
  return "strictatime";
}

void stop_noting_accesses(FixBuilder& fix) {
  for (const Subject& subject : fix.outcome.subjects)
    for (const Mount& mount : fix.facts.storage.mounts.value_or({}))
      if (mount.point == subject.name) {
        fix.run(When::kNow, {"mount", "-o", "remount,noatime", mount.point},
            {"mount", "-o", "remount," + access_option(mount), mount.point});
        fix.note(format("for good: add noatime to the line of {} in /etc/fstab or its .mount unit",
            printable(mount.point, 120)));
        return;
      }
}

void explain_nfs(FixBuilder& fix) {
  const auto& mount = fix.facts.storage.data.mount;
  const std::string point = mount ? printable(mount->point, 120) : "the mount";
  fix.refuse(format(
      "rsize, wsize and nconnect are fixed when {} is mounted and a remount changes none of them: stop "
      "what uses it, then umount {} and mount it with rsize=1048576,wsize=1048576,nconnect=8 in "
      "/etc/fstab",
      point, point));
}

void load_gds(FixBuilder& fix) { fix.load_module("nvidia-fs"); }

constexpr PlannerOf kPlanners[] = {{"NET-05", enlarge_frames}, {"NET-06", enlarge_windows},
    {"NET-14", explain_drops}, {"STO-01", unset_scheduler}, {"STO-02", read_ahead},
    {"STO-03", stop_noting_accesses}, {"STO-12", explain_nfs}, {"STO-14", load_gds}};

}  // namespace

std::span<const PlannerOf> device_fixes() { return kPlanners; }

}  // namespace cheetah::doctor
