// SPDX-License-Identifier: MIT
#include "serve/http/network_thread.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <utility>

namespace cheetah {

namespace asio = boost::asio;

namespace {

using std::chrono::microseconds;
// With about 10 us a notification this bounds the thread to two percent of a core, where it can wait.
constexpr microseconds kRestEach{500};
constexpr microseconds kLongestRest{20'000};

}  // namespace

struct NetworkThread::State {
  asio::io_context context{1};
  asio::steady_timer rest{context};
  bool resting = false;
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;
};

NetworkThread::NetworkThread() : state_(std::make_unique<State>()) {}
NetworkThread::~NetworkThread() { stop(); }

void NetworkThread::start() {
  state_->thread = std::thread([this] { state_->context.run(); });
}

void NetworkThread::stop() {
  if (!state_->thread.joinable()) return;
  state_->context.stop();
  state_->thread.join();
}

asio::io_context& NetworkThread::context() { return state_->context; }

void NetworkThread::notify(std::shared_ptr<Notified> target) {
  inbox_.post(std::move(target));
  if (!woken_.exchange(true)) wake();
}

void NetworkThread::urge() {
  if (!urged_.exchange(true)) wake();
}

void NetworkThread::wake() {
  asio::post(state_->context, [this] { deliver(); });
}

void NetworkThread::deliver() {
  urged_ = false;
  if (!state_->resting) woken_ = false;  // before the box is emptied: what arrives later wakes again
  inbox_.take_all(batch_);
  for (const auto& target : batch_) target->on_notified();
  if (!batch_.empty()) rest(batch_.size());
  batch_.clear();
}

void NetworkThread::rest(size_t num_handled) {
  if (std::exchange(state_->resting, true)) return;  // urged meanwhile: the rest goes on
  woken_ = true;
  const auto each = std::min<microseconds>(kLongestRest, kRestEach * static_cast<int64_t>(num_handled));
  state_->rest.expires_after(each);
  state_->rest.async_wait([this](const boost::system::error_code& error) {
    state_->resting = false;
    if (!error) deliver();
  });
}

void NetworkThread::run(std::function<void()> work) { asio::post(state_->context, std::move(work)); }

namespace {

struct Ticker : std::enable_shared_from_this<Ticker> {
  Ticker(asio::io_context& context, std::chrono::milliseconds every, std::function<bool(ServeTime)> call)
      : timer(context), interval(every), tick(std::move(call)) {}
  void arm() {
    timer.expires_after(interval);
    timer.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && self->tick(std::chrono::steady_clock::now())) self->arm();
    });
  }
  asio::steady_timer timer;
  std::chrono::milliseconds interval;
  std::function<bool(ServeTime)> tick;
};

}  // namespace

void NetworkThread::tick_every(std::chrono::milliseconds interval, std::function<bool(ServeTime)> tick) {
  std::make_shared<Ticker>(state_->context, interval, std::move(tick))->arm();
}

}  // namespace cheetah
