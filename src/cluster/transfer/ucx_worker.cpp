#include "cluster/transfer/ucx_worker.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

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

}  // namespace

void check_ucx(const char* call, ucs_status_t status) {
  if (status != UCS_OK) throw Error(format("transfer: {}: {}", call, ucs_status_string(status)));
}

UcxContext make_ucx_context(const std::string& transports) {
  ucp_config_t* raw_config = nullptr;
  check_ucx("ucp_config_read", ucp_config_read(nullptr, nullptr, &raw_config));
  const std::unique_ptr<ucp_config_t, UcxDestroy<ucp_config_release>> config(raw_config);
  if (!transports.empty()) set(raw_config, "TLS", transports.c_str());
  // Peers of one machine read each other's memory only where UCX may refuse it to one that is given up.
  set(raw_config, "MEMORY_INVALIDATE", "y");
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

SocketAddress::SocketAddress(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    throw Error(format("transfer: {} is not an IP address", printable(host)));
  std::memcpy(&storage_, found->ai_addr, found->ai_addrlen);
  size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
}

SocketAddress SocketAddress::parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  if (colon == std::string::npos || std::from_chars(text.data() + colon + 1, end, port).ptr != end ||
      port == 0)
    throw Error(format("transfer address {}: expected IP:PORT", printable(text)));
  return SocketAddress(text.substr(0, colon), port);
}

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace cheetah::cluster::transfer
