// SPDX-License-Identifier: MIT
#include "doctor/facts/settings.h"

#include "doctor/text.h"

namespace cheetah::doctor {

SettingsFacts collect_settings(const Source& source) {
  SettingsFacts facts;
  facts.tuned_profile = read_line(source, "etc/tuned/active_profile");
  for (const char* service : {"chronyd", "chrony", "systemd-timesyncd", "ntpd", "nvidia-persistenced",
           "nvidia-fabricmanager", "nvidia-imex", "irqbalance"})
    for (const char* folder : {"etc/systemd/system/", "usr/lib/systemd/system/", "lib/systemd/system/"})
      if (source.read(std::string(folder) + service + ".service").absence != Absence::kMissing) {
        facts.services.emplace_back(service);
        break;
      }
  // A fix is undone from what was read: the places that only fixes write.
  for (const std::string& cpu : source.list("sys/devices/system/cpu"))
    if (starts_with(cpu, "cpu") && to_integer(cpu.substr(3)))
      source.read("sys/devices/system/cpu/" + cpu + "/cpufreq/cpuinfo_max_freq", 4096);
  for (const std::string& nic : source.list("sys/class/net")) {
    source.read("sys/class/net/" + nic + "/type", 4096);
    source.read("sys/class/net/" + nic + "/master/uevent", 4096);
  }
  source.read("sys/devices/system/clocksource/clocksource0/available_clocksource", 4096);
  source.read("sys/devices/system/cpu/cpufreq/boost", 4096);
  return facts;
}

}  // namespace cheetah::doctor
