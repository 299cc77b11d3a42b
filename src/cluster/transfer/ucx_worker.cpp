// SPDX-License-Identifier: MIT
#include "cluster/transfer/ucx_worker.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/stream_socket.h"

namespace cheetah::cluster::transfer {
namespace {

// UCX takes over the signals of crashes when its library is loaded, before main. They are not its business:
// we have handlers of our own.
const bool signals_returned = [] {
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  return true;
}();

// UCX writes to stdout, which belongs to the program's results.
ucs_log_func_rc_t log_to_stderr(const char*, unsigned, const char*, ucs_log_level_t level,
    const ucs_log_component_config_t*, const char* message, va_list arguments) {
  if (level > UCS_LOG_LEVEL_ERROR) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text;
  std::vsnprintf(text.data(), text.size(), message, arguments);
  std::fprintf(stderr, "ucx: %s\n", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}
const bool log_redirected = [] {
  ucs_log_push_handler(log_to_stderr);
  return true;
}();

void set(ucp_config_t* config, const char* name, const char* value) {
  check_ucx(name, ucp_config_modify(config, name, value));
}

// RDMA cards, as UCX names their ports.
std::string rdma_devices() {
  std::string devices;
  std::error_code none;
  for (const auto& card : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    for (const auto& port : std::filesystem::directory_iterator(card.path() / "ports", none))
      devices += format("{}:{},", card.path().filename().string(), port.path().filename().string());
  return devices;
}

// For NET_DEVICES. "": all.
std::string devices_at(const std::string& host) {
  ifaddrs* first = nullptr;
  if (host == "0.0.0.0" || host == "::" || ::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, UcxDestroy<::freeifaddrs>> all(first);
  const SocketAddress wanted(host, 1);
  const auto same = [&](const sockaddr* address) {
    if (address == nullptr || address->sa_family != wanted.raw()->sa_family) return false;
    std::array<char, NI_MAXHOST> a, b;
    return ::getnameinfo(address, wanted.size(), a.data(), a.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
           ::getnameinfo(wanted.raw(), wanted.size(), b.data(), b.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
           std::strcmp(a.data(), b.data()) == 0;
  };
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next)
    if (same(at->ifa_addr)) return rdma_devices() + at->ifa_name;
  throw Error(format("transfer: {} is not an address of this machine", printable(host)));
}

}  // namespace

void check_ucx(const char* call, ucs_status_t status) {
  if (status != UCS_OK) throw Error(format("transfer: {}: {}", call, ucs_status_string(status)));
}

UcxContext make_ucx_context(const std::string& transports, const std::string& host) {
  ucp_config_t* raw_config = nullptr;
  check_ucx("ucp_config_read", ucp_config_read(nullptr, nullptr, &raw_config));
  const std::unique_ptr<ucp_config_t, UcxDestroy<ucp_config_release>> config(raw_config);
  if (!transports.empty()) set(raw_config, "TLS", transports.c_str());
  if (const std::string devices = devices_at(host); !devices.empty())
    set(raw_config, "NET_DEVICES", devices.c_str());
  // Peers of one machine read each other's memory only where UCX may refuse it to one that is given up.
  set(raw_config, "MEMORY_INVALIDATE", "y");
  // UCX 1.13 aborts the process if a peer's listener goes between a blocking connect and the first message.
  set(raw_config, "TCP_CONN_NB", "y");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  check_ucx("ucp_init", ucp_init(&params, raw_config, &context));
  return UcxContext(context);
}

UcxWorker make_ucx_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made on one thread, used on another
  ucp_worker_h worker = nullptr;
  check_ucx("ucp_worker_create", ucp_worker_create(context, &params, &worker));
  return UcxWorker(worker);
}

std::string address_of(ucp_worker_h worker) {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  check_ucx("ucp_worker_get_address", ucp_worker_get_address(worker, &address, &bytes));
  std::string text(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker, address);
  return text;
}

}  // namespace cheetah::cluster::transfer
