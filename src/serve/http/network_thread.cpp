#include "serve/http/network_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

namespace cheetah {

namespace asio = boost::asio;

struct NetworkThread::State {
  asio::io_context context{1};
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
  if (!woken_.exchange(true)) asio::post(state_->context, [this] { deliver(); });
}

void NetworkThread::deliver() {
  woken_ = false;  // before the box is emptied: what arrives later wakes again
  inbox_.take_all(batch_);
  for (const auto& target : batch_) target->on_notified();
  batch_.clear();
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
