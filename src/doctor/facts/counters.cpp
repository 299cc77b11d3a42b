// SPDX-License-Identifier: MIT
#include "doctor/facts/counters.h"

#include "base/format.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

void add_number(CounterReadings& readings, const std::string& name, const Value<double>& value) {
  if (value) readings[name] = {*value, value.source()};
}

void add_fields(CounterReadings& readings, const std::string& prefix, const Value<Fields>& fields,
    std::initializer_list<const char*> names) {
  if (!fields) return;
  for (const char* name : names)
    if (const auto number = number_in(*fields, name)) readings[prefix + name] = {*number, fields.source()};
}

// Two lines a protocol: "Tcp: RtoAlgorithm …" and "Tcp: 1 …".
void add_paired_lines(CounterReadings& readings, const Source& source, const std::string& path,
    std::initializer_list<const char*> wanted) {
  const Text text = source.read(path);
  if (!text.ok()) return;
  const auto lines = lines_of(text.text);
  for (size_t i = 0; i + 1 < lines.size(); i += 2) {
    const auto names = words_of(lines[i]);
    const auto values = words_of(lines[i + 1]);
    if (names.empty() || values.size() != names.size() || names[0] != values[0]) continue;
    for (size_t j = 1; j < names.size(); ++j)
      for (const char* name : wanted)
        if (names[j] == name)
          if (const auto number = to_number(values[j]))
            readings[format("{}{}", names[0], names[j])] = {*number, path};
  }
}

void add_networks(CounterReadings& readings, const Source& source) {
  for (const std::string& nic : source.list("sys/class/net"))
    for (const char* name : {"rx_bytes", "tx_bytes", "rx_packets", "rx_errors", "tx_errors", "rx_dropped",
             "tx_dropped", "rx_missed_errors", "rx_fifo_errors"})
      add_number(readings, "net." + nic + "." + name,
          read_number(source, "sys/class/net/" + nic + "/statistics/" + name));
  for (const std::string& nic : source.list("sys/class/net"))
    add_number(readings, "net." + nic + ".carrier_down_count",
        read_number(source, "sys/class/net/" + nic + "/carrier_down_count"));
  for (const std::string& nic : source.list("sys/class/net")) {
    if (source.link("sys/class/net/" + nic + "/device").empty()) continue;
    const auto own = read_fields(source, "cheetah/ethtool/" + nic, ' ');
    if (!own) continue;
    for (const auto& [name, text] : *own)
      if (const auto number = to_number(text))
        readings["ethtool." + nic + "." + name] = {*number, own.source()};
  }
  for (const std::string& device : source.list("sys/class/infiniband"))
    for (const std::string& port : source.list("sys/class/infiniband/" + device + "/ports")) {
      const std::string folder = "sys/class/infiniband/" + device + "/ports/" + port;
      for (const char* name : {"link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors",
               "port_xmit_discards", "port_xmit_wait", "port_rcv_data", "port_xmit_data"})
        add_number(
            readings, "rdma." + device + "." + name, read_number(source, folder + "/counters/" + name));
      for (const char* name :
          {"out_of_sequence", "local_ack_timeout_err", "rnr_nak_retry_err", "packet_seq_err",
              "roce_adp_retrans", "np_cnp_sent", "rp_cnp_handled", "rx_prio3_pause", "roce_slow_restart"})
        add_number(
            readings, "rdma." + device + "." + name, read_number(source, folder + "/hw_counters/" + name));
    }
}

// reads, sectors read, ms reading, …, ms doing I/O: the fields of Documentation/admin-guide/iostats.rst.
void add_disks(CounterReadings& readings, const Source& source) {
  const Text text = source.read("proc/diskstats");
  if (!text.ok()) return;
  for (const std::string_view line : lines_of(text.text)) {
    const auto words = words_of(line);
    if (words.size() < 13) continue;
    const std::string name = "disk." + std::string(words[2]);
    const std::pair<size_t, const char*> columns[] = {
        {3, ".reads"}, {5, ".read_sectors"}, {7, ".writes"}, {9, ".write_sectors"}, {12, ".busy_ms"}};
    for (const auto& [column, suffix] : columns)
      if (const auto number = to_number(words[column])) readings[name + suffix] = {*number, text.path};
  }
}

void add_throttling(CounterReadings& readings, const Source& source) {
  double throttled = 0;
  bool any = false;
  for (const std::string& cpu : source.list("sys/devices/system/cpu")) {
    const auto count =
        read_number(source, "sys/devices/system/cpu/" + cpu + "/thermal_throttle/package_throttle_count");
    if (!count) continue;
    any = true;
    throttled += *count;
  }
  if (any)
    readings["cpu.throttled"] = {
        throttled, "sys/devices/system/cpu/*/thermal_throttle/package_throttle_count"};
}

}  // namespace

Value<double> CounterFacts::total(const std::string& name) const {
  const auto found = after.find(name);
  if (found == after.end()) return Value<double>::absent(name, "the kernel keeps no such counter");
  return {found->second.value, found->second.source};
}

Value<double> CounterFacts::delta(const std::string& name) const {
  auto now = total(name);
  const auto then = before.find(name);
  if (!now) return now;
  if (then == before.end() || interval_s <= 0)
    return Value<double>::absent(now.source(), "one reading only: a rate needs two");
  if (now.value_or(0) < then->second.value)
    return Value<double>::unreadable(now.source(), "the counter went backwards: it was reset");
  return {*now - then->second.value, now.source()};
}

Value<double> CounterFacts::per_second(const std::string& name) const {
  const auto change = delta(name);
  return change ? Value<double>(*change / interval_s, change.source()) : change;
}

CounterReadings read_counters(const Source& source) {
  CounterReadings readings;
  add_fields(readings, "vmstat.", read_fields(source, "proc/vmstat", ' '),
      {"pswpin", "pswpout", "pgmajfault", "compact_stall", "thp_fault_alloc", "thp_fault_fallback",
          "thp_split_page", "oom_kill", "workingset_refault_file", "allocstall_normal"});
  add_paired_lines(readings, source, "proc/net/snmp", {"OutSegs", "RetransSegs"});
  add_paired_lines(readings, source, "proc/net/netstat", {"TCPTimeouts", "ListenOverflows"});
  add_networks(readings, source);
  add_disks(readings, source);
  add_throttling(readings, source);
  return readings;
}

double read_uptime(const Source& source) {
  const Text text = source.read("proc/uptime");
  const auto words = words_of(text.text);
  return words.empty() ? 0 : to_number(words[0]).value_or(0);
}

}  // namespace cheetah::doctor
