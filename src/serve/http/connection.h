// SPDX-License-Identifier: MIT
#pragma once
// One client: reads requests one after another, has each answered, writes what is said. Lives on one network
// thread. While a request runs the socket is read on, so that a client's leaving is noticed at once.
#include <array>
#include <functional>
#include <memory>
#include <string>

#include "base/open_count.h"
#include "serve/http/byte_stream.h"
#include "serve/http/exchange.h"
#include "serve/http/request_parser.h"

namespace cheetah {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Setting {
    NetworkThread& thread;
    HttpHandler& handler;
    const HttpLimits& limits;
    std::string address;                         // of the peer
    std::function<void(Connection&)> on_closed;  // the last thing it does
    OpenCount& answers;                          // on their way, of all connections
  };
  Connection(std::unique_ptr<ByteStream> stream, Setting setting);

  void start();
  void on_tick(ServeTime now);
  // Finishes what runs and takes no further request.
  void wind_down();
  void close();

 private:
  friend class Exchange;
  enum class Phase { kHandshake, kIdle, kHead, kBody, kRunning, kLingering, kClosed };

  void read();
  void on_read(const ByteStream::ErrorCode& error, size_t count);
  void on_read_end(bool orderly);
  void answer_half_closed();
  void process();
  bool parse();
  bool on_head();
  void dispatch();
  void answer_at_once(HttpResponse response, bool keep_alive);
  void refuse(const HttpError& error);
  void open_exchange(const HttpRequest& request, bool keep_alive);
  void name_request(HttpRequest& request);
  void check_progress(ServeTime now);

  void send(std::string_view bytes);
  void flush();
  void on_written(const ByteStream::ErrorCode& error, size_t count);
  void watch_backlog();
  void end_exchange();
  void linger();
  void record(bool cut_off);
  HttpError too_slow(const char* what) const;

  std::unique_ptr<ByteStream> stream_;
  Setting setting_;
  RequestParser parser_;
  Phase phase_ = Phase::kHandshake;
  ServeTime phase_start_;  // of kIdle, kHead and kBody, kLingering
  std::array<char, 8192> read_buffer_;
  std::string input_;  // read, not yet parsed
  bool reading_ = false;
  bool read_ended_ = false;
  bool winding_down_ = false;

  std::shared_ptr<Exchange> exchange_;  // shared with the code that answers
  ExchangeRecord record_;
  ServeTime request_start_;
  bool close_after_ = false;

  std::string out_;      // to be written next
  std::string writing_;  // being written
  size_t written_ = 0;
  bool write_pending_ = false;
  bool backlogged_ = false;  // the listener was told
  ServeTime last_progress_;
};

}  // namespace cheetah
