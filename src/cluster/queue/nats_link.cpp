// SPDX-License-Identifier: MIT
#include "cluster/queue/nats_link.h"

#include <nats/nats.h>

#include <future>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMaintenanceInterval{50};
constexpr milliseconds kReconnectPause{100};
constexpr int64_t kConnectLimitMs = 2000, kPingIntervalMs = 3000, kWriteLimitMs = 2000;
constexpr int kMostPingsOut = 2;

void check(natsStatus status, const std::string& what) {
  if (status != NATS_OK) throw Error(format("NATS: {}: {}", what, natsStatus_GetText(status)));
}

using Options = std::unique_ptr<natsOptions, void (*)(natsOptions*)>;

// Everything about waiting and coming back.
void set_patience(natsOptions* options) {
  check(natsOptions_SetTimeout(options, kConnectLimitMs), "options");
  check(natsOptions_SetMaxReconnect(options, -1), "options");
  check(natsOptions_SetReconnectWait(options, kReconnectPause.count()), "options");
  check(natsOptions_SetReconnectJitter(options, kReconnectPause.count(), kReconnectPause.count()), "options");
  check(natsOptions_SetPingInterval(options, kPingIntervalMs), "options");
  check(natsOptions_SetMaxPingsOut(options, kMostPingsOut), "options");
  check(natsOptions_SetFailRequestsOnDisconnect(options, true), "options");
  // A server that takes nothing would hold the connection's lock, and with it all callers, without end.
  check(natsOptions_SetWriteDeadline(options, kWriteLimitMs), "options");
  check(natsOptions_SetSendAsap(options, true), "options");
}

void set_login(natsOptions* options, const ServiceLogin& login) {
  if (!login.credentials_file.empty())
    check(natsOptions_SetUserCredentialsFromFiles(options, login.credentials_file.c_str(), nullptr),
        login.credentials_file);
  if (!login.user.empty())
    check(natsOptions_SetUserInfo(options, login.user.c_str(), password_in(login.password_file).c_str()),
        login.password_file);
  if (!login.tls) return;
  check(natsOptions_SetSecure(options, true), "TLS");
  if (!login.ca_file.empty())
    check(natsOptions_LoadCATrustedCertificates(options, login.ca_file.c_str()), login.ca_file);
  if (!login.certificate_file.empty())
    check(natsOptions_LoadCertificatesChain(options, login.certificate_file.c_str(), login.key_file.c_str()),
        login.certificate_file);
}

std::vector<std::string> urls_of(const std::vector<ServiceHost>& hosts) {
  std::vector<std::string> urls;
  for (const ServiceHost& host : hosts) {
    const bool is_six = contains(host.host, ":");
    urls.push_back(format("nats://{}{}{}:{}", is_six ? "[" : "", host.host, is_six ? "]" : "", host.port));
  }
  return urls;
}

}  // namespace

struct NatsLink::Told {
  struct Values {
    ServiceState state{false, Clock::now(), {}};
    int64_t generation = 0;
    bool closed = false;  // for good: only a new connection helps
  };
  mutable Published<Values> values;

  void up() {
    values.with([](Values& told) {
      told.state = {true, Clock::now(), {}};
      ++told.generation;
    });
  }
  void down(const std::string& why, bool closed) {
    values.with([&](Values& told) {
      if (told.state.up) told.state = {false, Clock::now(), why};
      told.closed = told.closed || closed;
    });
  }
};

// Each connection has one, until the library has said its last word about it.
struct NatsLink::Closure {
  std::shared_ptr<Told> told;  // with the link

  static void on_up(natsConnection*, void* closure) { static_cast<Closure*>(closure)->told->up(); }
  static void on_down(natsConnection* connection, void* closure) {
    const char* why = nullptr;
    natsConnection_GetLastError(connection, &why);
    static_cast<Closure*>(closure)->told->down(
        format("the connection to NATS is lost{}{}", why != nullptr && *why != 0 ? ": " : "", why ? why : ""),
        false);
  }
  static void on_closed(natsConnection*, void* closure) {
    const std::unique_ptr<Closure> last(static_cast<Closure*>(closure));
    last->told->down("NATS has closed the connection", true);
  }
};

NatsLink::NatsLink(const std::vector<ServiceHost>& hosts, ServiceLogin login, std::string name)
    : urls_(urls_of(hosts)),
      login_(std::move(login)),
      name_(std::move(name)),
      told_(std::make_shared<Told>()) {
  natsOptions* options = nullptr;
  check(natsOptions_Create(&options), "options");
  const Options owned(options, natsOptions_Destroy);
  set_login(options, login_);  // says now what is wrong with a file
  told_->values.with(
      [&](Told::Values& told) { told.state.why = format("{}: not connected yet", urls_.front()); });
  thread_ = std::jthread([this] { loop(); });
}

NatsLink::~NatsLink() {
  inbox_.close();
  thread_.join();
}

ServiceState NatsLink::state() const {
  return told_->values.with([](const Told::Values& told) { return told.state; });
}

int64_t NatsLink::generation() const {
  return told_->values.with([](const Told::Values& told) { return told.generation; });
}

NatsLink::MaintenanceId NatsLink::add_maintenance(Maintenance maintenance) {
  const auto id = MaintenanceId(next_maintenance_++);
  inbox_.post([this, id, maintenance = std::move(maintenance)] { maintenance_.emplace(id, maintenance); });
  return id;
}

void NatsLink::remove_maintenance(MaintenanceId id) {
  // Owned by this call and by the message, whichever ends last.
  const auto gone = std::make_shared<std::promise<void>>();
  if (inbox_.post([this, id, gone] {
        maintenance_.erase(id);
        gone->set_value();
      }))
    gone->get_future().wait();
}

void NatsLink::loop() {
  std::vector<std::function<void()>> tasks;
  while (!inbox_.closed()) {
    try {
      const bool closed = told_->values.with([](const Told::Values& told) { return told.closed; });
      if (closed || connection() == nullptr) connect();
    } catch (const Error& error) {
      told_->values.with([&](Told::Values& told) { told.state.why = error.what(); });
    }
    inbox_.wait_until(Clock::now() + kMaintenanceInterval);
    inbox_.take_all(tasks);
    for (const auto& task : tasks) task();
    maintain();
  }
  if (const Connection last = connection()) natsConnection_Close(last.get());
}

void NatsLink::maintain() {
  for (const auto& [id, maintain] : maintenance_) maintain();
}

// The first try waits for its answer here; where it fails, the library goes on trying by itself.
void NatsLink::connect() {
  natsOptions* options = nullptr;
  check(natsOptions_Create(&options), "options");
  const Options owned(options, natsOptions_Destroy);
  std::vector<const char*> urls;
  for (const std::string& url : urls_) urls.push_back(url.c_str());
  check(natsOptions_SetServers(options, urls.data(), static_cast<int>(urls.size())), "options");
  check(natsOptions_SetName(options, name_.c_str()), "options");
  set_patience(options);
  set_login(options, login_);
  auto closure = std::make_unique<Closure>(Closure{told_});
  check(natsOptions_SetRetryOnFailedConnect(options, true, Closure::on_up, closure.get()), "options");
  check(natsOptions_SetReconnectedCB(options, Closure::on_up, closure.get()), "options");
  check(natsOptions_SetDisconnectedCB(options, Closure::on_down, closure.get()), "options");
  check(natsOptions_SetClosedCB(options, Closure::on_closed, closure.get()), "options");
  natsConnection* made = nullptr;
  const natsStatus status = natsConnection_Connect(&made, options);
  if (status != NATS_OK && status != NATS_NOT_YET_CONNECTED) check(status, "connecting");
  closure.release();  // on_closed deletes it
  Connection next(made, [](natsConnection* connection) {
    natsConnection_Close(connection);
    natsConnection_Destroy(connection);
  });
  told_->values.with([](Told::Values& told) { told.closed = false; });
  if (status == NATS_OK) told_->up();
  connection_.swap_in(next);
}

}  // namespace cheetah::cluster
