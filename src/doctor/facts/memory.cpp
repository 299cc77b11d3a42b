// SPDX-License-Identifier: MIT
#include "doctor/facts/memory.h"

#include "base/error.h"

namespace cheetah::doctor {
namespace {

Value<std::vector<SwapArea>> read_swaps(const Source& source) {
  const Text text = source.read("proc/swaps");
  if (!text.ok()) return Value<std::vector<SwapArea>>::absent(text);
  std::vector<SwapArea> areas;
  const auto lines = lines_of(text.text);
  if (lines.empty() || !starts_with(lines[0], "Filename"))
    return Value<std::vector<SwapArea>>::unreadable(
        text.path, "expected a table that begins with 'Filename'");
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto words = words_of(lines[i]);
    if (words.size() < 5) continue;
    areas.push_back({printable(words[0]), to_integer(words[2]).value_or(0) * 1024,
        to_integer(words[3]).value_or(0) * 1024});
  }
  return {std::move(areas), text.path};
}

}  // namespace

Value<double> MemoryFacts::bytes(const std::string& name) const {
  if (!meminfo)
    return meminfo.is_unreadable() ? Value<double>::unreadable(meminfo.source(), meminfo.reason())
                                   : Value<double>::absent(meminfo.source(), meminfo.reason());
  const auto kib = number_in(*meminfo, name);
  if (!kib) return Value<double>::unreadable(meminfo.source(), "it has no line " + name);
  return {*kib * 1024, meminfo.source()};
}

MemoryFacts collect_memory(const Source& source) {
  MemoryFacts facts;
  facts.meminfo = read_fields(source, "proc/meminfo", ':');
  facts.swaps = read_swaps(source);
  const std::string vm = "proc/sys/vm/";
  facts.swappiness = read_integer(source, vm + "swappiness");
  facts.zone_reclaim = read_integer(source, vm + "zone_reclaim_mode");
  facts.overcommit = read_integer(source, vm + "overcommit_memory");
  facts.max_map_count = read_integer(source, vm + "max_map_count");
  facts.dirty_ratio = read_integer(source, vm + "dirty_ratio");
  facts.dirty_background_ratio = read_integer(source, vm + "dirty_background_ratio");
  facts.dirty_bytes = read_integer(source, vm + "dirty_bytes");
  facts.dirty_background_bytes = read_integer(source, vm + "dirty_background_bytes");
  facts.numa_balancing = read_integer(source, "proc/sys/kernel/numa_balancing");
  const std::string huge = "sys/kernel/mm/transparent_hugepage/";
  facts.thp_enabled = read_chosen(source, huge + "enabled");
  facts.thp_defrag = read_chosen(source, huge + "defrag");
  facts.huge_page_bytes = read_integer(source, huge + "hpage_pmd_size");
  facts.ksm = read_integer(source, "sys/kernel/mm/ksm/run");
  const std::string edac = "sys/devices/system/edac/mc";
  for (const std::string& name : source.list(edac))
    if (starts_with(name, "mc") && name.size() > 2)
      facts.controllers.push_back({name, read_integer(source, edac + "/" + name + "/ue_count"),
          read_integer(source, edac + "/" + name + "/ce_count"),
          read_integer(source, edac + "/" + name + "/size_mb")});
  return facts;
}

}  // namespace cheetah::doctor
