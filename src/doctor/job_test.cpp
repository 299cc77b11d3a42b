// SPDX-License-Identifier: MIT
// A job of several ranks: which GPUs are its own, which processes belong to it, which group it runs in.
#include <gtest/gtest.h>

#include "doctor/fixture.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

std::string stat_line(int pid, const std::string& name, int parent, int ticks = 900000) {
  return format(
      "{} ({}) R {} {} {} 0 -1 0 0 0 0 0 {} 90 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0\n",
      pid, name, parent, pid, pid, ticks);
}

// torchrun (4200) started by sshd's shell with eight ranks, 4242 to 4249, one for each GPU.
Machine eight_ranks() {
  Machine machine = Machine::healthy();
  MemorySource& source = *machine.source;
  source.set("proc/900/stat", stat_line(900, "sshd", 1, 50));
  source.set("proc/4100/stat", stat_line(4100, "bash", 900, 50));
  source.set("proc/4200/stat", stat_line(4200, "torchrun", 4100, 50));
  std::string nvml = source.read("cheetah/nvml", kMaxFileBytes).text;
  nvml = replace_all(nvml, "gpu.0.processes=4242:100000000000\n", "");
  for (int rank = 0; rank < 8; ++rank) {
    source.set(format("proc/{}/stat", 4242 + rank), stat_line(4242 + rank, "pt_main_thread", 4200));
    source.set_link(format("proc/4242/fd/{}", 10 + rank), format("/dev/nvidia{}", rank));
    nvml = format("gpu.{}.processes={}:100000000000\n", rank, 4242 + rank) + nvml;
  }
  source.set("cheetah/nvml", nvml);
  return machine;
}

TEST(Job, ItsGpusAreThoseTheDriverListsItFor) {
  const Facts facts = eight_ranks().facts();
  EXPECT_EQ(*facts.job->gpus, std::vector<int>{0});
  Machine hidden = eight_ranks();
  const std::string nvml = hidden.source->read("cheetah/nvml", kMaxFileBytes).text;
  hidden.source->set("cheetah/nvml", replace_all(nvml, "=4242:", "=99:"));
  EXPECT_FALSE(hidden.facts().job->gpus.known());
}

TEST(Job, ItsRanksAreNoStrangers) {
  const Facts facts = eight_ranks().facts();
  EXPECT_TRUE(facts.job->is_relative(4249));
  EXPECT_TRUE(facts.job->is_relative(4200));
  EXPECT_FALSE(facts.job->is_relative(900));
  EXPECT_FALSE(facts.job->is_relative(1));
  for (const char* id : {"GPU-18", "HST-23"})
    EXPECT_NE(examine_one(*find_check(id), facts).outcome.verdict, Verdict::kBad)
        << examine_one(*find_check(id), facts).outcome.found;
  Machine stranger = eight_ranks();
  const std::string nvml = stranger.source->read("cheetah/nvml", kMaxFileBytes).text;
  stranger.source->set("cheetah/nvml", replace_all(nvml, "gpu.0.processes=4242:100000000000",
                                           "gpu.0.processes=4242:100000000000,777:5000000000"));
  EXPECT_EQ(examine_one(*find_check("GPU-18"), stranger.facts()).outcome.verdict, Verdict::kBad);
}

TEST(Job, ItsControlGroupIsItsOwn) {
  Machine machine = Machine::healthy();
  machine.source->set("proc/4242/cgroup", "0::/kubepods.slice/pod7\n");
  machine.source->set("sys/fs/cgroup/kubepods.slice/pod7/memory.current", "1000\n");
  machine.source->set("sys/fs/cgroup/kubepods.slice/pod7/cpu.max", "200000 100000\n");
  const Facts facts = machine.facts();
  EXPECT_EQ(*facts.container.runtime, "kubernetes");
  EXPECT_FALSE(facts.container.around_us.known());
  EXPECT_EQ(facts.container.cpu_max.value_or(""), "200000 100000");
}

}  // namespace
}  // namespace cheetah::doctor
