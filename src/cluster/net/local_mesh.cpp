// SPDX-License-Identifier: MIT
#include "cluster/net/local_mesh.h"

#include <functional>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/mailbox.h"

namespace cheetah::cluster {
namespace {

using Pair = std::pair<WorkerId, WorkerId>;
Pair pair_of(WorkerId a, WorkerId b) { return a < b ? Pair(a, b) : Pair(b, a); }

}  // namespace

// All state belongs to the thread; everyone else posts work to it.
class LocalNetwork::Delivery {
 public:
  Delivery() : thread_([this] { run(); }) {}
  ~Delivery() {
    inbox_.close();
    thread_.join();
  }

  void post(std::function<void()> work) { inbox_.post(std::move(work)); }
  void post_and_wait(const std::function<void()>& work) {
    std::promise<void> done;
    const bool taken = inbox_.post([&] {
      work();
      done.set_value();
    });
    if (taken) done.get_future().wait();
  }

  // The rest on the thread.
  void join(WorkerId self, MeshEvents events) {
    members_[self] = std::move(events);
    for (const Pair& pair : wishes_) try_link(pair.first, pair.second);
  }
  void leave(WorkerId self) {
    std::erase_if(wishes_, [&](const Pair& wish) { return wish.first == self; });
    const auto links = links_;
    for (const Pair& link : links)
      if (link.first == self || link.second == self)
        unlink(link.first, link.second, "the peer closed the link");
    members_.erase(self);
  }
  void want(WorkerId self, WorkerId peer) {
    wishes_.insert({self, peer});
    try_link(self, peer);
  }
  void unwant(WorkerId self, WorkerId peer) {
    wishes_.erase({self, peer});
    unlink(self, peer, "no longer wanted");
    try_link(peer, self);  // it may want one still
  }
  void send(WorkerId self, WorkerId peer, std::string&& message) {
    if (!links_.contains(pair_of(self, peer))) return;
    const auto& handler = members_.at(peer).on_message;
    if (handler) handler(self, std::move(message));
  }
  void cut(WorkerId a, WorkerId b) {
    cuts_.insert(pair_of(a, b));
    unlink(a, b, "the link was cut");
  }
  void heal(WorkerId a, WorkerId b) {
    cuts_.erase(pair_of(a, b));
    try_link(a, b);
    try_link(b, a);
  }

 private:
  void run() {
    std::vector<std::function<void()>> work;
    while (inbox_.wait()) {
      inbox_.take_all(work);
      for (auto& each : work) each();
    }
  }

  void try_link(WorkerId a, WorkerId b) {
    const bool wanted = wishes_.contains({a, b});
    if (!wanted || a == b || cuts_.contains(pair_of(a, b))) return;
    if (!members_.contains(a) || !members_.contains(b) || !links_.insert(pair_of(a, b)).second) return;
    if (members_[a].on_up) members_[a].on_up(b);
    if (members_[b].on_up) members_[b].on_up(a);
  }
  void unlink(WorkerId a, WorkerId b, const std::string& why) {
    if (links_.erase(pair_of(a, b)) == 0) return;
    if (members_[a].on_down) members_[a].on_down(b, why);
    if (members_[b].on_down) members_[b].on_down(a, why);
  }

  std::map<WorkerId, MeshEvents> members_;
  std::set<Pair> wishes_;  // who wants whom
  std::set<Pair> links_, cuts_;
  Mailbox<std::function<void()>> inbox_;
  std::thread thread_;  // last: starts when the rest stands
};

class LocalMesh final : public Mesh {
 public:
  LocalMesh(std::shared_ptr<LocalNetwork::Delivery> delivery, WorkerId self)
      : delivery_(std::move(delivery)), self_(self) {}
  ~LocalMesh() override {
    delivery_->post_and_wait([this] { delivery_->leave(self_); });
  }

  void start(MeshEvents events) override {
    delivery_->post(
        [net = delivery_.get(), self = self_, taken = std::move(events)] { net->join(self, taken); });
  }
  void connect(WorkerId peer, const std::string&, uint16_t) override {
    delivery_->post([net = delivery_.get(), self = self_, peer] { net->want(self, peer); });
  }
  void connect_to(const std::string& host, uint16_t) override {
    throw Error(format("{}: a network inside one process has no addresses", printable(host)));
  }
  void disconnect_from(const std::string&, uint16_t) override {}
  void disconnect(WorkerId peer) override {
    delivery_->post([net = delivery_.get(), self = self_, peer] { net->unwant(self, peer); });
  }
  void send(WorkerId peer, std::string message) override {
    if (message.size() > kMaxMessageBytes)
      throw Error(format("a message of {} bytes: a peer takes {} at most", message.size(), kMaxMessageBytes));
    delivery_->post([net = delivery_.get(), self = self_, peer, bytes = std::move(message)]() mutable {
      net->send(self, peer, std::move(bytes));
    });
  }
  // One process trusts itself.
  std::string seal(std::string_view text) const override { return std::string(text); }
  std::optional<std::string> open(std::string_view sealed) const override { return std::string(sealed); }
  std::string host() const override { return "in-process"; }
  uint16_t port() const override { return 0; }

 private:
  std::shared_ptr<LocalNetwork::Delivery> delivery_;  // shared with the network and the other meshes
  WorkerId self_;
};

LocalNetwork::LocalNetwork() : delivery_(std::make_shared<Delivery>()) {}
LocalNetwork::~LocalNetwork() = default;

std::unique_ptr<Mesh> LocalNetwork::join(WorkerId self) {
  return std::make_unique<LocalMesh>(delivery_, self);
}

void LocalNetwork::cut(WorkerId a, WorkerId b) {
  delivery_->post_and_wait([&] { delivery_->cut(a, b); });
}

void LocalNetwork::heal(WorkerId a, WorkerId b) {
  delivery_->post_and_wait([&] { delivery_->heal(a, b); });
}

}  // namespace cheetah::cluster
