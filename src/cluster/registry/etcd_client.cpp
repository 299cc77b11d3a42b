// SPDX-License-Identifier: MIT
#include "cluster/registry/etcd_client.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"

namespace cheetah::cluster {
namespace {

constexpr JsonLimits kLimits{.max_bytes = int64_t{64} << 20, .max_depth = 16};
constexpr int kUnavailable = 14, kUnauthenticated = 16;  // of gRPC

// A proxy or another server may answer with anything.
[[noreturn]] void refuse(const std::string& host, const HttpChannel::Answer& answer) {
  std::string message = printable(trimmed(answer.body), 200);
  int code = kUnavailable;
  try {
    const Json json = parse_json(answer.body, "the answer of etcd", kLimits);
    const JsonFields fields(json, "the answer of etcd");
    message = printable(fields.string("message"), 200);
    code = static_cast<int>(fields.integer("code", 0, 1000));
  } catch (const Error&) {
    // Not etcd's form: its text is all there is to show.
  }
  throw EtcdRefusal(code, format("{}: HTTP {}: {}", host, answer.status, message));
}

HttpPeer peer_of(const ServiceHost& host, const ServiceLogin& login) {
  return {.url = {.tls = login.tls, .host = host.host, .port = std::to_string(host.port), .path = ""},
      .tls = {
          .ca_file = login.ca_file, .certificate_file = login.certificate_file, .key_file = login.key_file}};
}

ClientRequest post(std::string_view path, std::string body, const std::string& token) {
  ClientRequest request{.method = "POST",
      .path = std::string(path),
      .body = std::move(body),
      .headers = {{"Content-Type", "application/json"},
          {"Grpc-Metadata-hasleader", "true"}}};  // a member that has lost its cluster says so
  if (!token.empty()) request.headers.push_back({"Authorization", token});
  return request;
}

}  // namespace

EtcdClient::EtcdClient(std::vector<ServiceHost> hosts, ServiceLogin login)
    : hosts_(std::move(hosts)), login_(std::move(login)) {
  for (const ServiceHost& host : hosts_)
    channels_.push_back(std::make_unique<HttpChannel>(peer_of(host, login_)));
}

Json EtcdClient::call(std::string_view path, const Json& request, Duration limit) {
  if (token_.empty() && !login_.user.empty() && path != "/v3/auth/authenticate") authenticate(limit);
  HttpChannel::Answer answer;
  try {
    answer = channel().send(post(path, dump_json(request), token_), limit);
    if (answer.status == 200) return parse_json(answer.body, "the answer of etcd", kLimits);
  } catch (const Error&) {
    next_host();
    throw;
  }
  try {
    refuse(hosts_[current_].host, answer);
  } catch (const EtcdRefusal& refusal) {
    if (refusal.code() == kUnauthenticated) token_.clear();  // it has run out: the next call gets another
    if (refusal.code() == kUnavailable) next_host();
    throw;
  }
}

void EtcdClient::open_stream(std::string_view path, const Json& request, Duration limit) {
  if (token_.empty() && !login_.user.empty()) authenticate(limit);
  try {
    const int status = channel().open_stream(post(path, dump_json(request), token_), limit);
    if (status == 200) return;
    token_.clear();
    throw Error(format("{}: HTTP {} for a stream", hosts_[current_].host, status));
  } catch (const Error&) {
    next_host();
    throw;
  }
}

std::optional<Json> EtcdClient::read_line(Duration limit) {
  try {
    const auto line = channel().read_line(limit);
    if (!line) {
      next_host();
      return std::nullopt;
    }
    return parse_json(*line, "the answer of etcd", kLimits);
  } catch (const Error&) {
    next_host();
    throw;
  }
}

void EtcdClient::authenticate(Duration limit) {
  const Json answer = call("/v3/auth/authenticate",
      {{"name", login_.user}, {"password", password_in(login_.password_file)}}, limit);
  const std::string token = JsonFields(answer, "the answer of etcd").string("token");
  const auto is_plain = [](unsigned char c) { return c > ' ' && c < 0x7f; };
  if (token.empty() || !std::ranges::all_of(token, is_plain))
    throw Error("the answer of etcd: token: expected visible ASCII");
  token_ = token;
}

void EtcdClient::next_host() {
  channel().close();
  current_ = (current_ + 1) % hosts_.size();
}

void EtcdClient::interrupt() {
  for (const auto& channel : channels_) channel->interrupt();
}

}  // namespace cheetah::cluster
