// SPDX-License-Identifier: MIT
#include "cli/flag_topics.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/text.h"

namespace cheetah {
namespace {

struct Topic {
  const char* name;
  const char* flags;  // separated by spaces
};

// In the order of the page. Long pages have many topics; a short one is a list of "Flags".
constexpr Topic kTopics[] = {
    {"Model",
        "model models models-dir models-max keep-alive enable-sleep-mode served-model-name also-serve dtype kv-dtype compute device threads chat-template generation-config"},
    {"Prompt", "prompt chat system raw"},
    {"Sampling",
        "max-tokens temperature top-k top-p min-p repetition-penalty presence-penalty frequency-penalty seed stop "
        "ignore-eos typical-p top-n-sigma xtc-probability xtc-threshold dry-multiplier dry-base dry-allowed-length "
        "dry-penalty-last-n dry-sequence-breaker dynatemp-range dynatemp-exponent mirostat mirostat-tau mirostat-eta"},
    {"Memory and batching",
        "ctx-size kv-memory page-tokens max-sequences max-batch-tokens step-target-ms max-queue no-prefix-cache "
        "speculate draft-max preemption policy ageing"},
    {"Server", "url endpoint api-key tls-insecure timeout"},
    {"Load", "rate concurrency sweep requests duration arrival burst-shape warmup"},
    {"Goals", "slo-ttft slo-tpot slo-itl"},
    {"Prompts and answers",
        "dataset prompt-tokens output-tokens spread prefix-tokens prefix-share prefixes prompt-ids extra-body"},
    {"Address and access",
        "host port uds uds-mode api-key-file key-rpm key-concurrency insecure allowed-host cors-origin tls-cert tls-key "
        "strict-fields response-store response-store-size response-store-age"},
    {"Connections and time limits",
        "network-threads parse-threads max-body max-header-bytes max-headers max-connections "
        "max-connections-per-address pause-at max-unsent header-timeout body-timeout idle-timeout write-timeout "
        "request-timeout shutdown-timeout stream-ping engine-stall step-timeout"},
    {"Log, traces and faults",
        "log-level log-format log-file log-max-size log-keep crash-dir otlp-endpoint service-name logs"},
    {"Cluster",
        "role cluster node-name cluster-host cluster-port secret-file cluster-cert cluster-key cluster-ca policy-file "
        "endpoint-picker-port endpoint-picker-target-port transfer transfer-dtype lease-ttl prefill decode also also-workers in-process serve-flags prefill-flags "
        "decode-flags"},
    {"Output", "json html report svg markdown sarif verbose stats save output"},
};

// Commands with fewer flags than these topics would help with.
constexpr std::array kGrouped = {
    "cheetah serve", "cheetah generate", "cheetah chat", "cheetah bench serve", "cheetah cluster up"};

bool has_word(const char* words, const std::string& word) {
  return std::ranges::any_of(words_of(words), [&](std::string_view each) { return each == word; });
}

}  // namespace

std::string topic_of(const std::string& command, const std::string& flag) {
  if (std::ranges::find(kGrouped, command) == kGrouped.end()) return "Flags";
  for (const Topic& topic : kTopics)
    if (has_word(topic.flags, flag)) return topic.name;
  return "Other";
}

int topic_order(const std::string& topic) {
  const auto* found =
      std::ranges::find(kTopics, topic, [](const Topic& each) { return std::string(each.name); });
  return found == std::end(kTopics) ? static_cast<int>(std::size(kTopics))
                                    : static_cast<int>(found - kTopics);
}

}  // namespace cheetah
