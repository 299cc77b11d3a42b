// SPDX-License-Identifier: MIT
#include "net/response_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

// A Beast body that hands its bytes on and keeps nothing.
struct SinkBody {
  using value_type = ResponseParser::BodySink;

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(http::header<kIsRequest, Fields>&, value_type& sink) : sink_(sink) {}
    void init(const boost::optional<uint64_t>&, error_code& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& error) {
      error = {};
      size_t total = 0;
      for (const auto buffer : beast::buffers_range_ref(buffers)) {
        sink_({static_cast<const char*>(buffer.data()), buffer.size()});
        total += buffer.size();
      }
      return total;
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& sink_;
  };
};

using Parser = http::response_parser<SinkBody>;
constexpr uint32_t kMostHeaderBytes = 64 * 1024;

}  // namespace

struct ResponseParser::State {
  BodySink sink;
  std::unique_ptr<Parser> parser;
  std::string pending;  // bytes the parser could not use yet

  void restart() {
    parser = std::make_unique<Parser>();
    parser->get().body() = sink;
    parser->eager(true);
    parser->header_limit(kMostHeaderBytes);
    // Not boost::none: Boost 1.74 compares a length with the limit that is not there.
    parser->body_limit(std::numeric_limits<uint64_t>::max());
  }

  // True when some bytes were used and more may be.
  bool step() {
    error_code error;
    const size_t used = parser->put(boost::asio::const_buffer(pending.data(), pending.size()), error);
    pending.erase(0, used);
    if (error && error != http::error::need_more)
      throw Error(format("the answer is not HTTP: {}", error.message()));
    if (parser->is_done() && parser->get().result_int() / 100 == 1) restart();  // 100 Continue and its like
    return used > 0 && !pending.empty() && !parser->is_done();
  }
};

ResponseParser::ResponseParser(BodySink sink) : state_(std::make_unique<State>()) {
  state_->sink = std::move(sink);
  state_->restart();
}

ResponseParser::~ResponseParser() = default;

void ResponseParser::feed(std::string_view bytes) {
  state_->pending.append(bytes);
  if (!state_->parser->is_done())
    while (!state_->pending.empty() && state_->step()) continue;
  if (state_->parser->is_done() && !state_->pending.empty())
    throw Error("the answer is not HTTP: bytes after its end");
}

void ResponseParser::feed_eof() {
  if (state_->parser->is_done()) return;
  error_code error;
  if (state_->parser->is_header_done()) state_->parser->put_eof(error);
  if (error || !state_->parser->is_done())
    throw Error("the connection was closed before the answer was whole");
}

bool ResponseParser::has_head() const { return state_->parser->is_header_done(); }
bool ResponseParser::done() const { return state_->parser->is_done(); }
bool ResponseParser::keep_alive() const { return done() && state_->parser->keep_alive(); }
int ResponseParser::status() const {
  return has_head() ? static_cast<int>(state_->parser->get().result_int()) : 0;
}
std::string ResponseParser::header(std::string_view name) const {
  const auto value = state_->parser->get()[boost::beast::string_view(name.data(), name.size())];
  return std::string(value.data(), value.size());
}

}  // namespace cheetah
