// SPDX-License-Identifier: MIT
#include "cli/node_endpoints.h"

#include "base/format.h"

namespace cheetah {
namespace {

EndpointAnswer answer_of(const cluster::PlaceAnswer& placed) {
  EndpointAnswer answer;
  answer.ticket = static_cast<uint64_t>(placed.uid);
  if (!placed.hosts.empty()) return answer;
  answer.status = placed.no_worker ? 503 : 429;
  answer.code = placed.no_worker ? "no_workers" : "server_busy";
  answer.why =
      placed.no_worker ? placed.why : format("the servers are busy ({}): try again later", placed.refusal);
  if (placed.retry_after.count() > 0)
    answer.retry_after_s = std::chrono::duration<double>(placed.retry_after).count();
  return answer;
}

}  // namespace

std::string NodeEndpoints::endpoint_of(const std::string& host) const {
  const bool is_six = host.find(':') != std::string::npos;
  return format("{}{}{}:{}", is_six ? "[" : "", host, is_six ? "]" : "", port_);
}

std::vector<std::string> NodeEndpoints::hosts_of(const std::vector<std::string>& endpoints) const {
  std::vector<std::string> hosts;
  const std::string end = format(":{}", port_);
  for (std::string_view endpoint : endpoints) {
    if (!endpoint.ends_with(end)) continue;
    endpoint.remove_suffix(end.size());
    if (endpoint.starts_with('[') && endpoint.ends_with(']'))
      endpoint = endpoint.substr(1, endpoint.size() - 2);
    hosts.emplace_back(endpoint);
  }
  return hosts;
}

void NodeEndpoints::choose(EndpointQuestion question, std::function<void(EndpointAnswer)> tell) {
  cluster::PlaceQuestion asked{
      .request = std::move(question.request), .objective = std::move(question.objective), .hosts = {}};
  if (question.subset) asked.hosts = hosts_of(*question.subset);
  node_.place(std::move(asked), [this, tell = std::move(tell)](const cluster::PlaceAnswer& placed) {
    EndpointAnswer answer = answer_of(placed);
    for (const std::string& host : placed.hosts) answer.endpoints.push_back(endpoint_of(host));
    tell(std::move(answer));
  });
}

void NodeEndpoints::used(const EndpointUse& use) {
  node_.placed_ended({.uid = cluster::RequestUid{use.ticket},
      .completed = use.answered,
      .first_token = use.first_byte,
      .total = use.total});
}

}  // namespace cheetah
