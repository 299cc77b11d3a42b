// SPDX-License-Identifier: MIT
#include "cluster/registry/etcd_users.h"

#include <thread>

#include "base/base64.h"
#include "base/text.h"
#include "cluster/registry/etcd_client.h"
#include "cluster/registry/etcd_messages.h"

namespace cheetah::cluster {
namespace {

constexpr Duration kCallLimit = std::chrono::seconds(5), kPause = std::chrono::milliseconds(200);
constexpr int kUnavailable = 14;  // of gRPC

ServiceLogin login_of_root(const EtcdUsers& users) {
  ServiceLogin login = users.login;
  login.user = "root";
  login.password_file = users.root_password_file;
  return login;
}

ServiceLogin login_of_nobody(const EtcdUsers& users) {
  ServiceLogin login = users.login;
  login.user.clear();
  return login;
}

class Setup {
 public:
  Setup(const EtcdUsers& users, Duration patience)
      : users_(users),
        give_up_at_(std::chrono::steady_clock::now() + patience),
        root_(users.hosts, login_of_root(users)),
        nobody_(users.hosts, login_of_nobody(users)) {}

  void run() {
    const std::string &name = users_.login.user, root = etcd::root_of(users_.cluster);
    is_closed_ = patiently([this] { return asks_for_passwords(); });
    if (!is_closed_) {
      call("/v3/auth/role/add", {{"name", "root"}});
      call("/v3/auth/user/add", {{"name", "root"}, {"password", password_in(users_.root_password_file)}});
      call("/v3/auth/user/grant", {{"user", "root"}, {"role", "root"}});
    }
    call("/v3/auth/role/add", {{"name", name}});
    call("/v3/auth/role/grant",
        {{"name", name}, {"perm", {{"permType", "READWRITE"}, {"key", base64_of(root)},
                                      {"range_end", base64_of(etcd::end_of_prefix(root))}}}});
    const Json user = {{"name", name}, {"password", password_in(users_.login.password_file)}};
    if (!call("/v3/auth/user/add", user)) call("/v3/auth/user/changepw", user);
    call("/v3/auth/user/grant", {{"user", name}, {"role", name}});
    if (!is_closed_) call("/v3/auth/enable", Json::object());
  }

 private:
  // An etcd that starts, or has no leader yet, is asked again.
  template <class Ask>
  bool patiently(const Ask& ask) {
    for (;;) {
      try {
        return ask();
      } catch (const EtcdRefusal& refusal) {
        if (refusal.code() != kUnavailable || std::chrono::steady_clock::now() > give_up_at_) throw;
      } catch (const Error&) {
        if (std::chrono::steady_clock::now() > give_up_at_) throw;
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  bool asks_for_passwords() {
    try {
      root_.call("/v3/auth/role/list", Json::object(), kCallLimit);
      return true;
    } catch (const EtcdRefusal& refusal) {
      if (contains(refusal.what(), "authentication is not enabled")) return false;
      throw;
    }
  }

  // False: it is there already.
  bool call(std::string_view path, const Json& request) {
    return patiently([&] {
      try {
        (is_closed_ ? root_ : nobody_).call(path, request, kCallLimit);
        return true;
      } catch (const EtcdRefusal& refusal) {
        if (contains(refusal.what(), "already exists")) return false;
        throw;
      }
    });
  }

  const EtcdUsers& users_;
  const Time give_up_at_;
  EtcdClient root_, nobody_;
  bool is_closed_ = false;
};

}  // namespace

void set_up_etcd_users(const EtcdUsers& users, Duration patience) { Setup(users, patience).run(); }

}  // namespace cheetah::cluster
