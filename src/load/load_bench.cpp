// SPDX-License-Identifier: MIT
#include "load/load_bench.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int64_t kDefaultRequests = 100;
constexpr double kDefaultSweepSeconds = 30;  // long enough for a queue to build up
constexpr int64_t kNoLimit = int64_t{1} << 40;
// Numbers of requests: each step has its own, so that no prompt is sent twice and found in a prefix cache.
constexpr int64_t kStepStride = int64_t{1} << 32, kWarmupIndex = int64_t{1} << 50;

std::string path_of(const BodyOptions& body) { return body.chat ? "/chat/completions" : "/completions"; }

std::string first_model(LoadClient& client) {
  const Json models = client.get_json("/models");
  const auto data = models.is_object() ? models.find("data") : models.end();
  if (data == models.end() || !data->is_array() || data->empty() || !data->front().is_object() ||
      !data->front().contains("id") || !data->front()["id"].is_string())
    throw Error("the server lists no model: name one with --model");
  return data->front()["id"].get<std::string>();
}

class Bench {
 public:
  Bench(const LoadBenchOptions& options, const BenchObserver& observe)
      : options_(options),
        observe_(observe),
        workload_(options.workload),
        client_(options.server),
        body_(options.body) {
    if (body_.model.empty()) body_.model = first_model(client_);
  }

  LoadReport run() {
    if (workload_.is_made_up() && !body_.sends_ids()) learn_scale();
    warm_up();
    LoadReport report{.provenance = {},
        .setup = setup(),
        .slo = options_.slo,
        .steps = {},
        .is_sweep = options_.sweep.has_value()};
    const std::vector<std::optional<double>> rates = step_rates();
    for (size_t i = 0; i < rates.size() && !stopped_; ++i) {
      progress_ = {.step = i, .num_steps = rates.size(), .rate = rates[i]};
      report.steps.push_back(step(i, rates[i]));
    }
    return report;
  }

 private:
  std::vector<std::optional<double>> step_rates() const {
    if (!options_.sweep) return {options_.rate};
    const auto rates = sweep_rates(*options_.sweep);
    return {rates.begin(), rates.end()};
  }

  PreparedRequest prepare(int64_t index) const {
    const RequestShape shape = workload_.shape(index);
    return {request_body(shape, options_.workload.seed, scale_, body_), shape.output_tokens};
  }

  // The answer to the first words of the vocabulary our prompts are made of.
  RequestRecord ask_words(int64_t words) {
    RequestShape shape;
    shape.prompt = first_words(words);
    shape.output_tokens = 1;
    return client_.probe(path_of(body_), {request_body(shape, 0, {}, body_), 1});
  }

  // Two prompts show what a word and what the template cost. A short context may not hold the longer one.
  void learn_scale() {
    constexpr int64_t kFew = 16;
    const RequestRecord low = ask_words(kFew);
    if (!low.ok() && low.failure != RequestFailure::kEmptyAnswer) refuse("the first request failed", low);
    for (const int64_t many : {kNumWords, 3 * kFew}) {
      const RequestRecord high = ask_words(many);
      if (!low.prompt_tokens || !high.prompt_tokens || *high.prompt_tokens <= *low.prompt_tokens) continue;
      const auto few_tokens = static_cast<double>(*low.prompt_tokens);
      scale_.tokens_per_word =
          (static_cast<double>(*high.prompt_tokens) - few_tokens) / static_cast<double>(many - kFew);
      scale_.overhead_tokens = std::max(0.0, few_tokens - scale_.tokens_per_word * static_cast<double>(kFew));
      return;
    }
  }

  [[noreturn]] void refuse(const char* when, const RequestRecord& record) const {
    throw Error(format("{}: {}: {}{}: {}", options_.server.url.text(), when, name_of(record.failure),
        record.failure == RequestFailure::kStatus ? format(" {}", record.http_status) : "", record.detail));
  }

  void warm_up() {
    if (options_.warmup == 0) return;
    const LoadPlan plan{.path = path_of(body_),
        .request = [&](int64_t index) { return prepare(kWarmupIndex + index); },
        .empty_events_count = body_.sends_ids(),
        .num_requests = options_.warmup,
        .concurrency = 1};
    const LoadResult result = client_.run(plan, [&](const LoadProgress& load) { return observe(load); });
    for (const RequestRecord& record : result.records)
      if (!record.ok() && record.failure != RequestFailure::kInterrupted)
        refuse("the warm-up failed", record);
  }

  bool observe(const LoadProgress& load) {
    progress_.load = load;
    stopped_ = stopped_ || !observe_(progress_);
    return !stopped_;
  }

  int64_t requests_wanted() const {
    if (options_.num_requests > 0) return options_.num_requests;
    if (std::isfinite(options_.duration_s)) return kNoLimit;
    if (workload_.size() > 0) return workload_.size();
    return options_.sweep ? kNoLimit : kDefaultRequests;
  }

  double duration() const {
    const bool endless = std::isinf(options_.duration_s) && options_.num_requests == 0;
    return options_.sweep && endless ? kDefaultSweepSeconds : options_.duration_s;
  }

  Arrivals trace_arrivals() const {
    std::vector<double> times;
    const int64_t count = std::min(requests_wanted(), workload_.size());
    for (int64_t i = 0; i < count; ++i) {
      const auto at = workload_.shape(i).arrival_s;
      if (!at)
        throw Error(
            format("{}: --arrival trace needs a \"timestamp\" in every line", options_.workload.file));
      times.push_back(*at);
    }
    if (!std::is_sorted(times.begin(), times.end()))
      throw Error(format("{}: the timestamps do not ascend", options_.workload.file));
    const double first = times.front();
    for (double& time : times) time -= first;
    while (times.back() > duration()) times.pop_back();
    if (times.size() < 2) return {.times = times, .window_s = 0};
    const auto num = static_cast<double>(times.size());
    return {.times = times, .window_s = std::max(1e-9, times.back()) * num / (num - 1)};
  }

  Arrivals arrivals_at(size_t step, double rate) const {
    if (options_.arrival.kind == ArrivalKind::kTrace) return trace_arrivals();
    ArrivalPlan plan = options_.arrival;
    plan.rate = rate;
    plan.seed += step;
    return draw_arrivals(plan, requests_wanted(), duration());
  }

  LoadStep step(size_t index, std::optional<double> rate) {
    LoadPlan plan{
        .path = path_of(body_), .empty_events_count = body_.sends_ids(), .concurrency = options_.concurrency};
    const int64_t first = static_cast<int64_t>(index) * kStepStride;
    plan.request = [this, first](int64_t i) { return prepare(workload_.size() > 0 ? i : first + i); };
    std::optional<double> offered;
    if (rate || options_.arrival.kind == ArrivalKind::kTrace) {
      Arrivals arrivals = arrivals_at(index, rate.value_or(1));
      if (arrivals.window_s > 0) offered = arrivals.rate();
      plan.arrivals = std::move(arrivals.times);
    } else {
      plan.num_requests = requests_wanted();
    }
    plan.duration_s = duration();
    progress_.total = plan.total() == kNoLimit ? 0 : plan.total();
    LoadResult result = client_.run(plan, [&](const LoadProgress& load) { return observe(load); });
    result.client.unique_prompts = options_.workload.kind == DatasetKind::kRandom ||
                                   options_.workload.kind == DatasetKind::kShareGptLike;
    LoadSummary summary = summarize(result.records, options_.slo, offered);
    return {.rate = rate,
        .concurrency = options_.concurrency,
        .summary = std::move(summary),
        .client = result.client,
        .records = std::move(result.records)};
  }

  Json setup() const {
    const WorkloadPlan& w = options_.workload;
    std::string load = format("closed loop, {} at once", options_.concurrency);
    if (options_.sweep)
      load = format("sweep of {} rates from {:g} to {:g}/s, {} arrivals", options_.sweep->steps,
          options_.sweep->low, options_.sweep->high, name_of(options_.arrival.kind));
    else if (options_.arrival.kind == ArrivalKind::kTrace)
      load = "open loop, arrivals of the trace";
    else if (options_.rate)
      load =
          format("open loop, {:g} requests/s, {} arrivals", *options_.rate, name_of(options_.arrival.kind));
    if (options_.concurrency > 0 && (options_.rate || options_.sweep))
      load += format(", at most {} at once", options_.concurrency);
    std::string dataset = w.kind == DatasetKind::kFile ? w.file : name_of(w.kind);
    if (w.kind != DatasetKind::kFile)
      dataset +=
          format(", prompts of {} and answers of {} tokens in the mean", w.prompt_tokens, w.output_tokens);
    if (w.kind == DatasetKind::kPrefixHeavy)
      dataset += format(", after {} prefixes of {} tokens that {:g} % share", w.num_prefixes, w.prefix_tokens,
          100 * w.prefix_share);
    return {{"server", options_.server.url.text() + path_of(body_)}, {"model", body_.model}, {"load", load},
        {"dataset", dataset}, {"seed", w.seed},
        {"tokens per word", body_.sends_ids() ? Json("sent as token ids")
                                              : Json(std::round(1000 * scale_.tokens_per_word) / 1000)}};
  }

  const LoadBenchOptions& options_;
  const BenchObserver& observe_;
  Workload workload_;
  LoadClient client_;
  BodyOptions body_;
  TokenScale scale_;
  BenchProgress progress_;
  bool stopped_ = false;
};

}  // namespace

void check(const LoadBenchOptions& options) {
  const bool trace = options.arrival.kind == ArrivalKind::kTrace;
  if (options.sweep && options.rate) throw UsageError("--sweep chooses the rates itself: leave --rate out");
  if (options.sweep && !options.slo.any())
    throw UsageError(
        "--sweep looks for the highest rate within latency targets: give --slo-ttft or --slo-tpot");
  if (trace && (options.rate || options.sweep))
    throw UsageError("--arrival trace brings its own times: leave --rate and --sweep out");
  if (trace && options.workload.kind != DatasetKind::kFile)
    throw UsageError("--arrival trace needs --dataset FILE.jsonl with timestamps");
  if (options.body.sends_ids() && options.body.chat)
    throw UsageError("--prompt-ids sends token ids, which only --endpoint completions takes");
  if (!trace && !options.rate && !options.sweep && options.concurrency == 0)
    throw UsageError(
        "say how much load: --rate R (requests per second), --concurrency C (at once) or --sweep "
        "LOW:HIGH:STEPS");
}

LoadReport run_load_bench(const LoadBenchOptions& options, const BenchObserver& observe) {
  check(options);
  return Bench(options, observe).run();
}

}  // namespace cheetah
