// SPDX-License-Identifier: MIT
#include "doctor/collect.h"

#include <functional>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::doctor {
namespace {

using Clock = std::chrono::steady_clock;

// The second reading of a captured tree lies below t1/; of a live one it is the same path, later.
class SecondLook : public Source {
 public:
  explicit SecondLook(std::shared_ptr<const Source> below) : below_(std::move(below)) {}
  Text read(const std::string& path, int64_t limit) const override {
    Text text = below_->read("t1/" + path, limit);
    if (text.absence == Absence::kMissing) text = below_->read(path, limit);
    text.path = path;
    Text kept = text;
    kept.path = "t1/" + path;
    seen_.set(kept);
    return text;
  }
  std::vector<std::string> list(const std::string& path) const override { return below_->list(path); }
  std::string link(const std::string& path) const override { return below_->link(path); }
  const MemorySource& seen() const { return seen_; }

 private:
  std::shared_ptr<const Source> below_;
  mutable MemorySource seen_;
};

template <class Part>
struct Layer {
  Part part;
  MemorySource seen;
};

// One layer's collector on a thread of its own. The thread is let go when it is late: it holds shares of all
// it uses, and stuck in the kernel (a dead network mount, a wedged driver) it could not be stopped anyway.
template <class Part>
class Pending {
 public:
  Pending(const char* name, std::shared_ptr<const Source> source, std::function<Part(const Source&)> work)
      : name_(name) {
    std::packaged_task<Layer<Part>()> task([source = std::move(source), work = std::move(work)] {
      const RecordingSource recorder(source);
      Layer<Part> layer{work(recorder), {}};
      recorder.append_to(layer.seen);
      return layer;
    });
    result_ = task.get_future();
    std::thread(std::move(task)).detach();
  }

  void finish(Clock::time_point deadline, Collected& all, Part& into) {
    if (result_.wait_until(deadline) != std::future_status::ready) {
      all.facts.problems.push_back(format("the {} facts took too long and were left out", name_));
      return;
    }
    try {
      Layer<Part> layer = result_.get();
      into = std::move(layer.part);
      for (const auto& [path, text] : layer.seen.texts()) all.snapshot.set(text);
      for (const auto& [path, target] : layer.seen.links()) all.snapshot.set_link(path, target);
      for (const auto& [path, names] : layer.seen.lists()) all.snapshot.set_list(path, names);
    } catch (const std::exception& error) {
      all.facts.problems.push_back(format("the {} facts failed: {}", name_, printable(error.what(), 200)));
    }
  }

 private:
  const char* name_;
  std::future<Layer<Part>> result_;
};

struct FirstReading {
  CounterReadings readings;
  double uptime = 0;
};

FirstReading first_reading(const Source& source) { return {read_counters(source), read_uptime(source)}; }

void read_counters_again(
    const std::shared_ptr<const Source>& source, const FirstReading& first, Collected& all) {
  const SecondLook second(source);
  CounterFacts& counters = all.facts.counters;
  counters.before = first.readings;
  counters.after = read_counters(second);
  counters.interval_s = std::max(0.0, read_uptime(second) - first.uptime);
  for (const auto& [path, text] : second.seen().texts()) all.snapshot.set(text);
}

// Every process that uses CUDA opens the device files of all GPUs; the driver's list says which it works on.
void name_gpus_of_job(Facts& facts) {
  std::vector<int> gpus;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    for (const GpuProcess& process : gpu.processes())
      if (std::to_string(process.pid) == facts.job->id) gpus.push_back(gpu.index);
  if (!gpus.empty()) {
    facts.job->gpus = {std::move(gpus), facts.gpu.gpus.source()};
    return;
  }
  const auto& open = facts.job->gpus;
  if (facts.gpu.count() > 1 && open && static_cast<int>(open->size()) == facts.gpu.count())
    facts.job->gpus = Value<std::vector<int>>::absent(
        facts.gpu.gpus.source(), "the driver lists no GPU for it, and it holds the files of all");
}

}  // namespace

Collected collect(std::shared_ptr<const Source> source, const Intent& intent, const CollectOptions& options) {
  Collected all;
  all.facts.intent = intent;
  const auto begin = Clock::now();
  const auto deadline = begin + options.layer_limit;
  Pending<FirstReading> counters("counter", source, first_reading);
  Pending<HostFacts> host("host", source, collect_host);
  Pending<CpuFacts> cpu("CPU", source, collect_cpu);
  Pending<MemoryFacts> memory("memory", source, collect_memory);
  Pending<PciFacts> pci("PCI", source, collect_pci);
  Pending<GpuFacts> gpu("GPU", source, collect_gpu);
  Pending<NetworkFacts> network("network", source, collect_network);
  Pending<StorageFacts> storage("storage", source, [intent](const Source& from) {
    return collect_storage(from, intent.data_path, intent.checkpoint_path);
  });
  Pending<ContainerFacts> container("container", source, [intent](const Source& from) {
    return collect_container(from, intent.pid.empty() ? "self" : intent.pid);
  });
  Pending<ProcessFacts> self(
      "process", source, [](const Source& from) { return collect_process(from, "self"); });
  Pending<ProcessFacts> job("job", source, [intent](const Source& from) {
    return intent.pid.empty() ? ProcessFacts{} : collect_process(from, intent.pid);
  });
  Pending<SoftwareFacts> software("software", source, [intent](const Source& from) {
    return collect_software(from, intent.pid, intent.binary, intent.config);
  });
  Pending<SettingsFacts> settings("settings", source, collect_settings);
  Pending<LogFacts> log("kernel log", source, collect_log);
  FirstReading first;
  counters.finish(deadline, all, first);
  host.finish(deadline, all, all.facts.host);
  cpu.finish(deadline, all, all.facts.cpu);
  memory.finish(deadline, all, all.facts.memory);
  pci.finish(deadline, all, all.facts.pci);
  gpu.finish(deadline, all, all.facts.gpu);
  network.finish(deadline, all, all.facts.network);
  storage.finish(deadline, all, all.facts.storage);
  container.finish(deadline, all, all.facts.container);
  self.finish(deadline, all, all.facts.self);
  ProcessFacts job_facts;
  job.finish(deadline, all, job_facts);
  if (!intent.pid.empty()) {
    all.facts.job = std::move(job_facts);
    name_gpus_of_job(all.facts);
  }
  software.finish(deadline, all, all.facts.software);
  log.finish(deadline, all, all.facts.log);
  settings.finish(deadline, all, all.facts.settings);
  all.facts.machine = describe_machine(all.facts);
  std::this_thread::sleep_until(begin + options.counter_interval);
  read_counters_again(source, first, all);
  return all;
}

}  // namespace cheetah::doctor
