// SPDX-License-Identifier: MIT
// parse_cluster_url() and its way back.
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cluster/services/services.h"

namespace cheetah::cluster {
namespace {

constexpr uint16_t kEtcdPort = 2379, kNatsPort = 4222;
constexpr size_t kMostHosts = 32;
constexpr std::string_view kForms =
    "expected inproc:, peers:FILE or etcd://HOST:2379,HOST2:2379,nats://HOST:4222?cluster=NAME";

[[noreturn]] void refuse(const std::string& what) {
  throw UsageError(format("--cluster: {}: {}", what, kForms));
}

struct Scheme {
  std::string_view text;
  bool is_nats;
  bool tls;
};
constexpr Scheme kSchemes[] = {{"etcd://", false, false}, {"etcd+tls://", false, true},
    {"nats://", true, false}, {"nats+tls://", true, true}};

const Scheme* scheme_of(std::string_view part) {
  for (const Scheme& scheme : kSchemes)
    if (starts_with(part, scheme.text)) return &scheme;
  return nullptr;
}

bool is_host_name(std::string_view host) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; };
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, fits);
}

bool is_address6(std::string_view host) {
  const auto fits = [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; };
  return !host.empty() && host.size() <= 45 && std::ranges::all_of(host, fits);
}

ServiceHost host_of(std::string_view text, uint16_t default_port) {
  ServiceHost host{.host = {}, .port = default_port};
  std::string_view rest;
  if (starts_with(text, "[")) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || !is_address6(text.substr(1, end - 1)))
      refuse(format("\"{}\" is not a host", printable(text)));
    host.host = std::string(text.substr(1, end - 1));
    rest = text.substr(end + 1);
  } else {
    const size_t end = std::min(text.find(':'), text.size());
    if (!is_host_name(text.substr(0, end))) refuse(format("\"{}\" is not a host", printable(text)));
    host.host = std::string(text.substr(0, end));
    rest = text.substr(end);
  }
  if (rest.empty()) return host;
  const auto port = starts_with(rest, ":") ? to_integer(rest.substr(1)) : std::nullopt;
  if (!port || *port < 1 || *port > 65535)
    refuse(format("\"{}\" has no port after its host", printable(text)));
  host.port = static_cast<uint16_t>(*port);
  return host;
}

// "user@" before a host. A password does not belong on a command line, where everybody can read it.
std::string_view without_user(std::string_view part, const Scheme& scheme, ClusterUrl& url) {
  const size_t at = part.find('@');
  if (at == std::string_view::npos) return part;
  const std::string_view user = part.substr(0, at);
  if (contains(user, ":"))
    refuse(
        "a password in the URL is seen by every user of the machine: use password_file= (etcd) or "
        "nats_password_file=");
  if (!is_host_name(user)) refuse(format("\"{}\" is not a user", printable(user)));
  (scheme.is_nats ? url.nats_login : url.etcd_login).user = std::string(user);
  return part.substr(at + 1);
}

void read_services(std::string_view text, ClusterUrl& url) {
  const Scheme* scheme = nullptr;
  for (std::string_view part : split(text, ',')) {
    if (const Scheme* named = scheme_of(part)) {
      scheme = named;
      part = without_user(part.substr(named->text.size()), *named, url);
      (named->is_nats ? url.nats_login : url.etcd_login).tls = named->tls;
    }
    if (scheme == nullptr) refuse(format("\"{}\" names no service", printable(part)));
    if (part.empty()) refuse("a host is empty");
    auto& hosts = scheme->is_nats ? url.nats : url.etcd;
    hosts.push_back(host_of(part, scheme->is_nats ? kNatsPort : kEtcdPort));
    if (hosts.size() > kMostHosts) refuse(format("more than {} hosts", kMostHosts));
  }
}

int64_t seconds_of(std::string_view name, std::string_view value) {
  const auto seconds = to_integer(value);
  if (!seconds || *seconds < 1 || *seconds > 3600)
    refuse(format("{}={}: expected 1 to 3600 seconds", name, printable(value)));
  return *seconds;
}

int64_t replicas_of(std::string_view value) {
  const auto replicas = to_integer(value);
  if (!replicas || (*replicas != 1 && *replicas != 3 && *replicas != 5))
    refuse(format("queue_replicas={}: expected 1, 3 or 5", printable(value)));
  return *replicas;
}

std::string cluster_name_of(std::string_view value) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (value.empty() || value.size() > 64 || !std::ranges::all_of(value, fits))
    refuse(format("cluster={}: expected letters, digits, '-' and '_'", printable(value)));
  return std::string(value);
}

void read_setting(std::string_view name, std::string_view value, ClusterUrl& url) {
  if (value.empty()) refuse(format("{}= is empty", printable(name)));
  if (name == "cluster") {
    url.cluster = cluster_name_of(value);
  } else if (name == "lease_s") {
    url.lease_s = seconds_of(name, value);
  } else if (name == "visibility_s") {
    url.visibility_s = seconds_of(name, value);
  } else if (name == "queue_replicas") {
    url.queue_replicas = replicas_of(value);
  } else if (name == "ca") {
    url.etcd_login.ca_file = url.nats_login.ca_file = std::string(value);
  } else if (name == "cert") {
    url.etcd_login.certificate_file = url.nats_login.certificate_file = std::string(value);
  } else if (name == "key") {
    url.etcd_login.key_file = url.nats_login.key_file = std::string(value);
  } else if (name == "password_file") {
    url.etcd_login.password_file = std::string(value);
  } else if (name == "nats_creds") {
    url.nats_login.credentials_file = std::string(value);
  } else if (name == "nats_password_file") {
    url.nats_login.password_file = std::string(value);
  } else {
    refuse(
        format("\"{}\" is not a setting (cluster, lease_s, visibility_s, queue_replicas, ca, cert, key, "
               "password_file, nats_password_file, nats_creds)",
            printable(name)));
  }
}

void read_settings(std::string_view text, ClusterUrl& url) {
  for (const std::string_view setting : split(text, '&')) {
    const size_t equals = setting.find('=');
    if (equals == std::string_view::npos) refuse(format("\"{}\" sets nothing", printable(setting)));
    read_setting(setting.substr(0, equals), setting.substr(equals + 1), url);
  }
}

void check_whole(const ClusterUrl& url) {
  if (url.kind == ClusterUrl::Kind::kEtcd && url.etcd.empty())
    refuse("there is a queue and no registry: name etcd:// or peers: too");
  if (url.kind == ClusterUrl::Kind::kPeers && !url.etcd.empty())
    refuse("peers: and etcd:// are both registries: name one");
  if (url.etcd_login.user.empty() != url.etcd_login.password_file.empty())
    refuse("a user of etcd before '@' and password_file= go together");
  if (url.nats_login.user.empty() != url.nats_login.password_file.empty())
    refuse("a user of NATS before '@' and nats_password_file= go together");
  if (!url.nats_login.user.empty() && !url.nats_login.credentials_file.empty())
    refuse("nats_password_file= and nats_creds= both say who comes: name one");
  if (url.etcd_login.certificate_file.empty() != url.etcd_login.key_file.empty())
    refuse("cert= and key= go together");
  if (!(url.etcd_login.tls || url.nats_login.tls) &&
      !(url.etcd_login.ca_file.empty() && url.etcd_login.key_file.empty()))
    refuse("ca=, cert= and key= are for etcd+tls:// and nats+tls://");
}

std::string hosts_text(
    std::string_view scheme, const std::string& user, const std::vector<ServiceHost>& hosts) {
  std::string text(scheme);
  if (!user.empty()) text.append(user).append(1, '@');
  for (size_t i = 0; i < hosts.size(); ++i) {
    const bool is_six = contains(hosts[i].host, ":");
    text += format(
        "{}{}{}{}:{}", i > 0 ? "," : "", is_six ? "[" : "", hosts[i].host, is_six ? "]" : "", hosts[i].port);
  }
  return text;
}

}  // namespace

ClusterUrl parse_cluster_url(std::string_view text) {
  ClusterUrl url;
  const size_t question = std::min(text.find('?'), text.size());
  std::string_view services = text.substr(0, question);
  if (services.empty()) refuse("the URL is empty");
  if (starts_with(services, "inproc:")) {
    if (services != "inproc:") refuse(format("\"{}\" stands after inproc:", printable(services.substr(7))));
  } else if (starts_with(services, "peers:")) {
    url.kind = ClusterUrl::Kind::kPeers;
    const size_t comma = std::min(services.find(",nats"), services.size());
    url.peers_file = std::string(services.substr(6, comma - 6));
    if (url.peers_file.empty()) refuse("peers: names no file");
    if (comma < services.size()) read_services(services.substr(comma + 1), url);
  } else {
    url.kind = ClusterUrl::Kind::kEtcd;
    read_services(services, url);
  }
  if (question < text.size()) read_settings(text.substr(question + 1), url);
  check_whole(url);
  return url;
}

std::string to_string(const ClusterUrl& url) {
  std::string text = "inproc:";
  if (url.kind == ClusterUrl::Kind::kPeers) text = format("peers:{}", url.peers_file);
  if (url.kind == ClusterUrl::Kind::kEtcd)
    text = hosts_text(url.etcd_login.tls ? "etcd+tls://" : "etcd://", url.etcd_login.user, url.etcd);
  if (!url.nats.empty())
    text.append(1, ',').append(
        hosts_text(url.nats_login.tls ? "nats+tls://" : "nats://", url.nats_login.user, url.nats));
  text.append("?cluster=").append(url.cluster);
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += format("&{}={}", name, value);
  };
  const ServiceLogin& login = url.etcd_login;
  add("ca", login.ca_file), add("cert", login.certificate_file), add("key", login.key_file);
  add("password_file", login.password_file), add("nats_password_file", url.nats_login.password_file);
  add("nats_creds", url.nats_login.credentials_file);
  return text + format("&lease_s={}&visibility_s={}&queue_replicas={}", url.lease_s, url.visibility_s,
                    url.queue_replicas);
}

}  // namespace cheetah::cluster
