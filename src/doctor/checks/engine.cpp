// SPDX-License-Identifier: MIT
// MET: a running engine's metrics; the alert and trouble tables of serving.
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/log/kernel_log.h"

namespace cheetah::doctor {
namespace {

constexpr double kFullCache = 0.90;
constexpr double kMostPreempted = 0.01, kMostFailed = 0.01, kMostAborted = 0.05;
constexpr double kLeastHits = 0.20;
constexpr double kMostTail = 3, kMostFirstTail = 8;
constexpr double kLeastSmActive = 0.50;
constexpr double kMostImbalance = 1.15;

// Calls the body with the engine's facts; not applicable when no engine was read.
template <class Body>
Outcome with_engine(const Facts& facts, Body body) {
  return facts.engine ? body(*facts.engine)
                      : not_applicable("no engine was named (cheetah doctor engine URL)");
}

Outcome first_token_in_time(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    if (engine.slo_ttft_s <= 0) return not_applicable("no objective was given (--slo-ttft)");
    return when_known(
        [&](double p95) {
          return judge(
              p95 <= engine.slo_ttft_s, format("p95 of the first token is {:.0f} ms, the objective {:.0f} ms",
                                            1000 * p95, 1000 * engine.slo_ttft_s));
        },
        engine.quantile("ttft", 0.95));
  });
}

Outcome tokens_in_time(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    if (engine.slo_itl_s <= 0) return not_applicable("no objective was given (--slo-itl)");
    return when_known(
        [&](double p99) {
          return judge(
              p99 <= engine.slo_itl_s, format("p99 between tokens is {:.1f} ms, the objective {:.1f} ms",
                                           1000 * p99, 1000 * engine.slo_itl_s));
        },
        engine.quantile("itl", 0.99));
  });
}

Outcome nobody_waits(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double waiting, double running) {
          return judge(waiting <= std::max(1.0, 0.1 * running),
              format("{:.0f} requests wait, {:.0f} run", waiting, running));
        },
        engine.gauge("waiting"), engine.gauge("running"));
  });
}

Outcome engine_is_alive(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double waiting, double running) {
          return judge(waiting == 0 || running > 0,
              waiting > 0 && running == 0 ? format("{:.0f} requests wait and none runs", waiting)
                                          : "requests that wait do get to run");
        },
        engine.gauge("waiting"), engine.gauge("running"));
  });
}

// Engines write a share as 0.61 or as 61.
double share_of(double usage) { return usage > 1.5 ? usage / 100 : usage; }

Outcome cache_is_not_full(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    if (engine.each("kv_usage").empty()) return without(engine.most("kv_usage"));
    std::vector<Subject> full;
    for (const auto& [name, usage] : engine.each_named("kv_usage"))
      if (share_of(usage) >= kFullCache)
        full.push_back({name, format("{:.0f} % full", 100 * share_of(usage))});
    return bad_if_any(std::move(full), "the KV cache is nearly full",
        format("the fullest KV cache is {:.0f} % full", 100 * share_of(*engine.most("kv_usage"))));
  });
}

Outcome cache_is_used(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double usage, double waiting) {
          return judge(waiting < 1 || share_of(usage) >= 0.5,
              format("{:.0f} requests wait with the KV cache {:.0f} % full", waiting, 100 * share_of(usage)));
        },
        engine.most("kv_usage"), engine.gauge("waiting"));
  });
}

Outcome nothing_is_preempted(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double preempted, double requests) {
          return judge(preempted <= kMostPreempted * std::max(requests, 1.0),
              format("{:.0f} preemptions for {:.0f} requests", preempted, requests));
        },
        engine.counter("preemptions"), engine.counter("requests"));
  });
}

Outcome prefixes_hit(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double hits, double queries) {
          if (queries < 10000) return not_applicable("too few tokens were looked up");
          return judge(hits / queries >= kLeastHits,
              format("{:.0f} % of the prompt tokens come from the prefix cache", 100 * hits / queries));
        },
        engine.counter("prefix_hits"), engine.counter("prefix_queries"));
  });
}

Outcome requests_succeed(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    const auto by_reason = engine.share("requests", "finished_reason", {"error", "abort"});
    const auto by_status =
        engine.share("http", engine.now.find("http_requests_total") != nullptr ? "status" : "code", {"5"});
    return when_known(
        [](double share) {
          return judge(share < kMostFailed, format("{:.2f} % of the requests end in an error", 100 * share));
        },
        by_status ? by_status : by_reason);
  });
}

Outcome clients_stay(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double left, double requests) {
          return judge(left < kMostAborted * std::max(requests, 20.0),
              format("{:.0f} of {:.0f} clients left before the end", left, requests));
        },
        engine.counter("aborted"), engine.counter("requests"));
  });
}

Outcome nobody_is_refused(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double refused, double requests) {
          return judge(refused <= 0.01 * std::max(requests, 1.0),
              format("{:.0f} requests were refused, {:.0f} served", refused, requests));
        },
        engine.counter("rejected"), engine.counter("requests"));
  });
}

Outcome drafts_are_accepted(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    const auto rate = engine.gauge("acceptance");
    if (rate) return judge(*rate >= 0.4, format("{:.0f} % of the drafted tokens are accepted", 100 * *rate));
    return when_known(
        [](double drafted, double accepted) {
          return judge(accepted >= 0.4 * std::max(drafted, 1.0),
              format("{:.0f} % of the drafted tokens are accepted", 100 * accepted / std::max(drafted, 1.0)));
        },
        engine.counter("drafted"), engine.counter("accepted"));
  });
}

Outcome tail(const EngineFacts& engine, const char* what, const char* name, double most, double objective_s) {
  return when_known(
      [&](double p99, double p50) {
        return judge(p99 <= most * std::max(p50, 1e-6) || (objective_s > 0 && p99 <= objective_s),
            format("{}: p99 {:.1f} ms, p50 {:.1f} ms", name, 1000 * p99, 1000 * p50));
      },
      engine.quantile(what, 0.99), engine.quantile(what, 0.5));
}
Outcome token_tail_is_short(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return tail(engine, "itl", "between tokens", kMostTail, engine.slo_itl_s);
  });
}
Outcome first_token_tail_is_short(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return tail(engine, "ttft", "first token", kMostFirstTail, engine.slo_ttft_s);
  });
}

Outcome queue_is_short(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double queue, double first) {
          return judge(
              queue <= 0.5 * first, format("of {:.0f} ms to the first token {:.0f} ms are waiting in line",
                                        1000 * first, 1000 * queue));
        },
        engine.mean("queue_time"), engine.mean("ttft"));
  });
}

Outcome gpu_works(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    const auto active = engine.each("sm_active"), busy = engine.each("gpu_util");
    if (active.empty()) return not_applicable("no SM activity is exported (DCGM_FI_PROF_SM_ACTIVE)");
    const double mean =
        std::accumulate(active.begin(), active.end(), 0.0) / static_cast<double>(active.size());
    const double util =
        busy.empty() ? 100
                     : std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size());
    if (util < 50) return not_applicable("the GPUs are idle");
    return judge(mean >= kLeastSmActive,
        format("SMs are active {:.0f} % of the time ('utilization' says {:.0f} %)", 100 * mean, util));
  });
}

Outcome gpu_is_not_idle(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    const auto busy = engine.each("gpu_util");
    if (busy.size() < 2) return not_applicable("no two GPUs are exported");
    const double most = *std::max_element(busy.begin(), busy.end()),
                 least = *std::min_element(busy.begin(), busy.end());
    return judge(most < 50 || least >= 10, format("GPUs are {:.0f} to {:.0f} % busy", least, most));
  });
}

Outcome gpu_memory_has_room(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    const auto used = engine.each("gpu_used"), left = engine.each("gpu_free");
    if (used.empty() || used.size() != left.size())
      return not_applicable("no GPU memory is exported (DCGM_FI_DEV_FB_USED)");
    double most = 0;
    for (size_t i = 0; i < used.size(); ++i)
      most = std::max(most, used[i] / std::max(1.0, used[i] + left[i]));
    return judge(most <= 0.97, format("the fullest GPU has {:.0f} % of its memory in use", 100 * most));
  });
}

Outcome gpu_is_cool(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    const auto degrees = engine.each("gpu_temperature");
    if (degrees.empty()) return not_applicable("no temperature is exported");
    const double most = *std::max_element(degrees.begin(), degrees.end());
    return judge(most <= 85, format("the hottest GPU is at {:.0f} C", most));
  });
}

Outcome counter_is_still(const Facts& facts, const char* what, const char* name) {
  return with_engine(facts, [&](const EngineFacts& engine) {
    if (!engine.before) return not_applicable("one reading only: two are compared");
    return when_known(
        [&](double added) {
          return judge(added == 0, format("{:.0f} {} between the readings", added, name));
        },
        engine.counter(what));
  });
}
Outcome no_nvlink_errors(const Facts& facts) {
  return counter_is_still(facts, "nvlink_errors", "NVLink errors");
}
Outcome no_pcie_replays(const Facts& facts) {
  return counter_is_still(facts, "pcie_replays", "PCIe replays");
}
Outcome no_ecc_errors(const Facts& facts) {
  return counter_is_still(facts, "ecc", "uncorrected memory errors");
}
Outcome no_throttling(const Facts& facts) {
  return counter_is_still(facts, "thermal_violation", "us of thermal throttling");
}

Outcome no_xid(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    if (engine.each("xid").empty()) return without(engine.gauge("xid"));
    std::vector<Subject> hit;
    std::string programs;
    for (const auto& [name, xid] : engine.each_named("xid")) {
      const auto meaning = xid_meaning(static_cast<int>(std::clamp(xid, 0.0, 1e6)));
      if (xid <= 0) continue;
      const std::string text =
          format("Xid {:.0f}{}", xid, meaning ? std::string(": ") + meaning->meaning : "");
      if (meaning && meaning->gravity == Gravity::kNote)
        programs += format("{}{} {}", programs.empty() ? "" : "; ", name, text);
      else
        hit.push_back({name, text});
    }
    if (hit.empty() && !programs.empty()) return note("faults of programs: " + programs);
    return bad_if_any(std::move(hit), "the driver reported faults", "no Xid");
  });
}

Outcome replicas_are_even(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    std::vector<double> tokens;
    for (const auto& [name, added] : engine.each_added("tokens")) tokens.push_back(added);
    if (tokens.size() < 2) return not_applicable("there is one replica");
    const double mean =
        std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
    if (mean < 1000) return not_applicable("too few tokens to compare");
    const double most = *std::max_element(tokens.begin(), tokens.end());
    return judge(most <= kMostImbalance * mean,
        format("the busiest of {} replicas does {:.2f} times the mean", tokens.size(), most / mean));
  });
}

Outcome experts_are_even(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    std::vector<double> tokens;
    for (const auto& [name, added] : engine.each_added("expert_tokens")) tokens.push_back(added);
    if (tokens.size() < 2) return not_applicable("no tokens an expert are exported");
    const double mean =
        std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
    const double most = *std::max_element(tokens.begin(), tokens.end());
    return judge(
        most <= 2 * std::max(mean, 1.0), format("the busiest of {} experts takes {:.1f} times the mean",
                                             tokens.size(), most / std::max(mean, 1.0)));
  });
}

Outcome host_keeps_up(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double cores) {
          return judge(cores < 0.95 || cores > 1.2, format("the server's process uses {:.2f} cores", cores));
        },
        engine.rate("cpu_seconds"));
  });
}

Outcome memory_is_stable(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    if (!engine.before || engine.interval_s <= 0) return not_applicable("one reading only: two are compared");
    const auto grown = engine.counter("rss");
    const auto now = engine.gauge("rss");
    if (!now) return without(now);
    const double per_minute = grown.value_or(0) / engine.interval_s * 60;
    return judge(per_minute < std::max(0.01 * *now, 50e6),
        format("memory grows by {} per minute", human_bytes(per_minute)));
  });
}

Outcome answers_are_not_cut(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double share) {
          return judge(share < 0.5, format("{:.0f} % of the answers end at the length limit", 100 * share));
        },
        engine.share("requests", "finished_reason", {"length"}));
  });
}

Outcome data_does_not_stall(const Facts& facts) {
  return with_engine(facts, [](const EngineFacts& engine) {
    return when_known(
        [](double wait, double step) {
          return judge(wait <= 0.05 * std::max(step, 1e-9),
              format("{:.0f} % of the step time is waiting for data", 100 * wait / std::max(step, 1e-9)));
        },
        engine.counter("data_wait"), engine.counter("step_time"));
  });
}

constexpr Check kChecks[] = {
    {"MET-01", Layer::kEngine, Level::kFail, 0.30, "First tokens come in time",
        "A request that misses its objective is no goodput, however fast the rest.",
        "the share of late requests", FixKind::kSetting,
        "admit less, chunk prefill, add replicas or split prefill from decode", "", "P07,P10",
        first_token_in_time},
    {"MET-02", Layer::kEngine, Level::kFail, 0.30, "Tokens come in time",
        "Long prefills between decode steps delay every stream.", "the share of late tokens",
        FixKind::kSetting, "smaller prefill chunks, fewer sequences per step", "", "P07", tokens_in_time},
    {"MET-03", Layer::kEngine, Level::kWarn, 0.25, "Requests do not queue",
        "A standing queue adds its length to every first token.", "TTFT grows with the queue",
        FixKind::kSetting, "add replicas, raise max_num_seqs if the cache allows, or shed load", "", "P03",
        nobody_waits},
    {"MET-27", Layer::kEngine, Level::kFail, 0.90, "The engine makes progress",
        "Requests wait and none runs: it is stuck.", "no service", FixKind::kAdvice,
        "look at its log; restart it", "", "B05", engine_is_alive},
    {"MET-04", Layer::kEngine, Level::kWarn, 0.15, "The KV cache has room",
        "A full cache preempts or refuses; every preemption computes a prompt again.", "recomputed prompts",
        FixKind::kSetting, "8-bit KV cache, higher memory share, offload, shorter contexts, more replicas",
        "", "P05,Q04", cache_is_not_full},
    {"MET-07", Layer::kEngine, Level::kWarn, 0.20, "Batches are filled",
        "Requests wait although the cache has room: the sequence limit is too low.",
        "throughput left on the table", FixKind::kSetting, "raise max_num_seqs or max_num_batched_tokens", "",
        "P03,A09,I10", cache_is_used},
    {"MET-05", Layer::kEngine, Level::kWarn, 0.15, "Nothing is preempted",
        "A preempted request loses its cache and starts again.", "twice the prefill for each",
        FixKind::kSetting, "more cache (memory share, 8-bit), fewer sequences", "", "P05",
        nothing_is_preempted},
    {"MET-06", Layer::kEngine, Level::kInfo, 0.10, "Shared prefixes hit the cache",
        "Prompts that share a beginning can skip it; a low rate under shared prompts means routing or "
        "tokenization differs.",
        "TTFT of shared prompts", FixKind::kSetting,
        "turn prefix caching on, route by prefix, keep templates byte-equal", "", "I08", prefixes_hit},
    {"MET-08", Layer::kEngine, Level::kFail, 0.20, "Requests succeed", "Failed work is wasted work.",
        "the failed share", FixKind::kAdvice, "read the engine's log around the errors", "", "J10",
        requests_succeed},
    {"MET-28", Layer::kEngine, Level::kWarn, 0.05, "Clients stay to the end",
        "People leave when it is slow; their tokens are computed for nobody.", "the abandoned share",
        FixKind::kSetting, "cancel on disconnect; look at TTFT", "", "C01", clients_stay},
    {"MET-29", Layer::kEngine, Level::kWarn, 0.10, "No request is refused", "The server is beyond its limit.",
        "lost requests", FixKind::kSetting, "add replicas, or lower what each may ask", "", "P01",
        nobody_is_refused},
    {"MET-09", Layer::kEngine, Level::kWarn, 0.15, "Drafts are accepted",
        "Rejected drafts cost the draft model and a wider verification.", "speculation slower than none",
        FixKind::kSetting, "a better or smaller draft, fewer draft tokens, or off at high load", "", "P06",
        drafts_are_accepted},
    {"MET-12", Layer::kEngine, Level::kWarn, 0.10, "Tokens come evenly",
        "A long tail between tokens is prefill, preemption or a slow rank.", "jerky streams",
        FixKind::kSetting, "chunked prefill; pin and isolate the engine's threads", "", "P07",
        token_tail_is_short},
    {"MET-30", Layer::kEngine, Level::kWarn, 0.10, "First tokens come evenly",
        "A long tail is head-of-line blocking behind long prompts, or bursts.", "unlucky users",
        FixKind::kSetting, "chunked prefill, length-aware scheduling, smoothing of bursts", "", "P07",
        first_token_tail_is_short},
    {"MET-31", Layer::kEngine, Level::kWarn, 0.15, "First tokens do not wait in line",
        "Most of the time to the first token is queueing, not computing.", "TTFT", FixKind::kSetting,
        "more replicas or higher limits: computing faster will not help", "", "P03", queue_is_short},
    {"MET-13", Layer::kEngine, Level::kWarn, 0.25, "Busy GPUs do work",
        "'Utilization' counts time with any kernel; SM activity counts SMs that work.", "the idle SMs",
        FixKind::kSetting, "larger batches, fused kernels, graphs; then a trace", "", "A08,C07", gpu_works},
    {"MET-32", Layer::kEngine, Level::kFail, 0.20, "No GPU stands aside",
        "One idle GPU among busy ones has dropped out of its group, or gets no requests.",
        "its share of the machine", FixKind::kAdvice, "look for Xid and NCCL errors; restart its worker", "",
        "J07,R06", gpu_is_not_idle},
    {"MET-33", Layer::kEngine, Level::kWarn, 0.05, "GPU memory has room",
        "Near the end allocations fail or fragment.", "out-of-memory errors", FixKind::kSetting,
        "lower the memory share by a few percent", "", "J08", gpu_memory_has_room},
    {"MET-34", Layer::kEngine, Level::kWarn, 0.10, "GPUs are cool under load",
        "Past 85 C most parts are near their limit.", "throttling", FixKind::kFirmware, "check the cooling",
        "", "R02", gpu_is_cool},
    {"MET-35", Layer::kEngine, Level::kFail, 0.20, "NVLink has no new errors",
        "Errors precede a dropped link.", "jitter, then a lost job", FixKind::kAdvice, "drain the node", "",
        "J10,E06", no_nvlink_errors},
    {"MET-36", Layer::kEngine, Level::kFail, 0.10, "PCIe has no new replays",
        "Repeated transfers: a bad contact.", "latency spikes", FixKind::kFirmware, "reseat the card", "",
        "J10", no_pcie_replays},
    {"MET-37", Layer::kEngine, Level::kFail, 0.50, "GPU memory has no new errors",
        "The process that met it is wrong or dead.", "lost work", FixKind::kAdvice, "drain and reset the GPU",
        "", "J10", no_ecc_errors},
    {"MET-38", Layer::kEngine, Level::kFail, 0.30, "GPUs are not throttling now",
        "Time spent below the asked clock for heat.", "the throttled share", FixKind::kFirmware,
        "check the cooling; cap the clock for an even pace", "", "R02,J10", no_throttling},
    {"MET-39", Layer::kEngine, Level::kFail, 0.40, "No Xid was reported",
        "An Xid is the driver's word for a fault.", "a lost worker", FixKind::kAdvice,
        "look the number up; drain for 48, 63, 64, 74, 79, 94, 95", "", "J10", no_xid},
    {"MET-15", Layer::kEngine, Level::kWarn, 0.15, "Replicas share the load",
        "The busiest replica sets the tail while others idle.", "the difference to the mean",
        FixKind::kSetting, "route by load and prefix, not round robin", "", "J07,Q01", replicas_are_even},
    {"MET-40", Layer::kEngine, Level::kWarn, 0.15, "Experts share the load",
        "A hot expert makes its GPU the slowest of the step.", "the excess of the hot expert",
        FixKind::kSetting, "replicate hot experts (EPLB), rebalance", "", "J07", experts_are_even},
    {"MET-41", Layer::kEngine, Level::kWarn, 0.20, "The server's main thread keeps up",
        "One full core: tokenization, detokenization and HTTP share a thread.", "GPUs wait for the host",
        FixKind::kSetting, "more API processes, a faster tokenizer", "", "D04,J02", host_keeps_up},
    {"MET-23", Layer::kEngine, Level::kWarn, 0.10, "Memory does not grow", "A leak ends in the OOM killer.",
        "a restart later", FixKind::kAdvice, "find the leak; restart in turns meanwhile", "", "J08,F03,A12",
        memory_is_stable},
    {"MET-42", Layer::kEngine, Level::kInfo, 0.05, "Answers end by themselves",
        "Many answers at the limit: a limit too low, or a model that does not stop.", "wasted or cut tokens",
        FixKind::kSetting, "check max_tokens and the stop tokens", "", "C01", answers_are_not_cut},
    {"MET-21", Layer::kEngine, Level::kWarn, 0.25, "Training does not wait for data",
        "Time in which a step waits for its batch.", "the waiting share", FixKind::kSetting,
        "more loader workers, prefetch, faster storage", "", "H09,I07,D04,C06", data_does_not_stall},
};

}  // namespace

std::span<const Check> engine_checks() { return kChecks; }

}  // namespace cheetah::doctor
