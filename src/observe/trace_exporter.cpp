// SPDX-License-Identifier: MIT
#include "observe/trace_exporter.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/mailbox.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxWaiting = 4096;
constexpr auto kGather = std::chrono::milliseconds(500);  // spans of this long travel together
constexpr auto kSendLimit = std::chrono::seconds(5);
constexpr auto kLastLimit = std::chrono::seconds(2);
constexpr auto kComplainEvery = std::chrono::minutes(1);

}  // namespace

struct TraceExporter::State {
  State(std::string to, TraceSender how, const TraceResource& about, LogSink& lines)
      : collector(std::move(to)), deliver(std::move(how)), resource(about), log(lines), thread([this] {
          loop();
        }) {}
  ~State() {
    box.close();
    stopping.close();
    thread.join();
  }

  void loop() {
    std::vector<TraceItem> batch;
    for (bool open = true; open;) {
      box.wait();
      stopping.wait_until(SteadyClock::now() + kGather);  // cut short by the end
      open = !box.closed();
      box.take_all(batch);
      if (!batch.empty()) send(batch, open ? kSendLimit : kLastLimit);
    }
  }

  void send(const std::vector<TraceItem>& batch, SteadyClock::duration limit) {
    const auto count = std::ssize(batch);
    waiting -= count;
    const std::string problem = deliver(otlp_body(batch, resource), limit);
    (problem.empty() ? sent : lost) += count;
    if (problem.empty() || SteadyClock::now() < next_complaint) return;
    next_complaint = SteadyClock::now() + kComplainEvery;
    log.write(LogLevel::kWarning, "traces_not_sent",
        {{"collector", collector}, {"why", problem}, {"spans", count}});
  }

  std::string collector;
  TraceSender deliver;
  TraceResource resource;
  LogSink& log;
  Mailbox<TraceItem> box;
  Mailbox<int> stopping;  // never holds anything; closed at the end
  std::atomic<int64_t> waiting = 0, sent = 0, lost = 0;
  SteadyTime next_complaint{};
  std::thread thread;  // last: everything above is ready when it starts
};

TraceExporter::TraceExporter(
    std::string collector, TraceSender send, const TraceResource& resource, LogSink& log)
    : state_(std::make_unique<State>(std::move(collector), std::move(send), resource, log)) {}
TraceExporter::~TraceExporter() = default;

void TraceExporter::add(TraceItem item) {
  if (++state_->waiting > kMaxWaiting) {
    --state_->waiting;
    ++state_->lost;
    return;
  }
  state_->box.post(std::move(item));
}

int64_t TraceExporter::num_sent() const { return state_->sent; }
int64_t TraceExporter::num_lost() const { return state_->lost; }

}  // namespace cheetah
