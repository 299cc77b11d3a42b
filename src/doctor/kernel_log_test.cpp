// SPDX-License-Identifier: MIT
#include "doctor/log/kernel_log.h"

#include <gtest/gtest.h>

#include "doctor/fixture.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

LogEvent only(const std::string& log) {
  const auto events = log_events(log);
  EXPECT_EQ(events.size(), 1u) << log;
  return events.empty() ? LogEvent{} : events[0];
}

TEST(KernelLog, ALineIsReadInEveryFormLogsHave) {
  for (const char* line :
      {"<3>[  123.500000] NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.",
          "[  123.500000] NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.",
          "3,881,123500000,-;NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.",
          "Nov 19 12:00:01 node7 kernel: [  123.500000] NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus."}) {
    const LogEvent event = only(line);
    EXPECT_EQ(event.what, "Xid 79: the GPU fell off the bus") << line;
    EXPECT_EQ(event.culprit, "0000:13:00.0");
    EXPECT_EQ(event.last_s, 123.5) << line;
    EXPECT_EQ(event.gravity, Gravity::kLasting);
  }
}

TEST(KernelLog, RoutineMessagesMeanNothing) {
  for (const char* line :
      {"nvme nvme0: Shutdown timeout set to 10 seconds", "pcieport 0000:00:1b.0: AER: enabled with IRQ 122",
          "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0",
          "RAS: Correctable Errors "
          "collector initialized.",
          "mlx5_core 0000:19:00.0: Port module event: module 0, Cable plugged",
          "mlx5_core 0000:19:00.1: Port module event: module 1, Cable unplugged",
          "mce: CPU0: Thermal monitoring enabled",
          "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)",
          "CPU4: Core temperature/speed normal", "nvidia: module license 'NVIDIA' taints kernel.",
          "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54",
          "systemd[1]: Reached target Timeout failed Fatal", "python3[77]: segfault at 0 ip 0 error 4",
          "nvidia-nvlink: Nvlink Core is being initialized, major device number 510"})
    EXPECT_TRUE(log_events(line).empty()) << line;
}

TEST(KernelLog, BothSpellingsOfPcieErrorsAreKnown) {
  for (const char* line :
      {"pcieport 0000:10:00.0: AER: Uncorrected (Fatal) error received: 0000:13:00.0",
          "pcieport 0000:10:00.0: AER: Uncorrectable (Fatal) error message received from 0000:13:00.0",
          "nvidia 0000:13:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)"}) {
    const LogEvent event = only(line);
    EXPECT_EQ(event.what, "a fatal PCIe error") << line;
    EXPECT_EQ(event.culprit, "0000:13:00.0") << line;
  }
  const LogEvent corrected =
      only("pcieport 0000:10:00.0: AER: Multiple Correctable error message received from 0000:13:00.0");
  EXPECT_EQ(corrected.gravity, Gravity::kCorrected);
}

TEST(KernelLog, EachFamilyNamesItsCulprit) {
  const std::pair<const char*, const char*> kLines[] = {
      {"nvme nvme3: I/O tag 448 (11c0) opcode 0x2 (I/O Cmd) QID 15 timeout, aborting req_op:READ(0) size:4096",
          "nvme3"},
      {"nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "nvme3"},
      {"critical medium error, dev nvme3n1, sector 1234 op 0x0:(READ) flags 0x0", "nvme3n1"},
      {"EXT4-fs error (device nvme3n1p1): ext4_find_entry:1682: inode #2: comm python: reading directory",
          "nvme3n1p1"},
      {"XFS (dm-0): Corruption detected. Unmount and run xfs_repair", "dm-0"},
      {"mlx5_core 0000:19:00.0: poll_health:873:(pid 0): device's health compromised - reached miss count",
          "0000:19:00.0"},
      {"NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out", "eth2"},
      {"EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0", "MC1"},
      {"watchdog: BUG: soft lockup - CPU#37 stuck for 26s! [python3:4242]", "CPU#37"},
      {"INFO: task dataloader:4711 blocked for more than 120 seconds.", "dataloader"},
      {"nfs: server storage1 not responding, still trying", "storage1"},
      {"Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB", "4242"},
      {"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 46 LTSSM Fault Up", "0000:c1:00.0"}};
  for (const auto& [line, culprit] : kLines) EXPECT_EQ(only(line).culprit, culprit) << line;
}

TEST(KernelLog, EveryCodeOfTheCataloguesHasOneMeaning) {
  for (int code = 1; code <= 172; ++code) EXPECT_TRUE(xid_meaning(code).has_value()) << code;
  EXPECT_FALSE(xid_meaning(0).has_value());
  EXPECT_FALSE(xid_meaning(999).has_value());
  for (const int code :
      {10001, 11004, 12028, 19084, 20001, 20034, 22013, 23001, 24007, 25010, 26008, 28003, 30006})
    EXPECT_TRUE(sxid_meaning(code).has_value()) << code;
}

TEST(KernelLog, AnEarlierBootAndARepairedStateAreHistory) {
  EXPECT_TRUE(
      log_events("[ 9.0] NVRM: Xid (PCI:0000:13:00): 79, pid=1\n[ 0.0] Linux version 6.8.0\n[ 1.0] usb")
          .empty());
  EXPECT_TRUE(log_events("nfs: server a not responding, still trying\nnfs: server a OK").empty());
  EXPECT_EQ(log_events("nfs: server a not responding, still trying\nnfs: server b OK").size(), 1u);
}

Outcome examine_log(const std::string& id, const std::string& log, const std::string& uptime) {
  Machine machine = Machine::healthy();
  machine.source->set("cheetah/dmesg", log);
  machine.source->set("proc/uptime", uptime + " 1.0\n");
  return examine_one(*find_check(id), machine.facts()).outcome;
}

TEST(KernelLog, AgeAndNumberDecideWhatOnlyPassed) {
  const std::string timeout = "[ 1000.0] nvme nvme3: I/O 5 QID 3 timeout, aborting";
  EXPECT_EQ(examine_log("LOG-02", timeout, "2000").verdict, Verdict::kBad);
  EXPECT_EQ(
      examine_log("LOG-02", timeout + "\n[ 200000.0] usb 1-1: new device", "900000").verdict, Verdict::kNote);
  std::string storm;
  for (int i = 0; i < 40; ++i)
    storm += format("[ {}.0] pcieport 0000:10:00.0: AER: Corrected error received: 0000:13:00.0\n", 1000 + i);
  EXPECT_EQ(examine_log("LOG-01", storm, "2000").verdict, Verdict::kBad);
  EXPECT_EQ(examine_log("LOG-01", storm.substr(0, 80), "2000").verdict, Verdict::kNote);
  EXPECT_EQ(examine_log("HST-25", "[ 9.0] NVRM: Xid (PCI:0000:13:00): 31, pid=7, name=python", "20").verdict,
      Verdict::kNote);
}

TEST(KernelLog, TheOffendingLineIsTheEvidenceWithoutControlCharacters) {
  const std::string line = "[ 9.0] NVRM: Xid (PCI:0000:13:00): 79, pid=1, \x1b]0;owned\x07 fallen";
  const Outcome outcome = examine_log("HST-25", "[ 1.0] first line\n" + line, "20");
  ASSERT_FALSE(outcome.evidence.empty());
  EXPECT_TRUE(contains(outcome.evidence[0].value, "Xid (PCI:0000:13:00): 79")) << outcome.evidence[0].value;
  EXPECT_FALSE(contains(outcome.evidence[0].value, "\x1b"));
}

}  // namespace
}  // namespace cheetah::doctor
