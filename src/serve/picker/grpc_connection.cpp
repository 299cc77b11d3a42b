// SPDX-License-Identifier: MIT
#include "serve/picker/grpc_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr std::chrono::seconds kFirstCallTime{10};  // a stranger that asks nothing goes
constexpr std::chrono::seconds kWriteStall{30};
constexpr size_t kReadBytes = size_t{64} << 10, kWriteBytes = size_t{256} << 10;
constexpr uint32_t kCallsAtOnce = 1000, kCallWindow = 1 << 20;
constexpr int32_t kConnectionWindow = 8 << 20;
constexpr size_t kFrameStart = 5;  // of a message: whether it is compressed, and its length
constexpr size_t kMostPath = 256, kMostWhy = 200;

nghttp2_nv header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

class Reply final : public GrpcReply {
 public:
  Reply(std::weak_ptr<GrpcConnection> connection, int32_t id) : connection_(std::move(connection)), id_(id) {}
  void send(std::string_view message) override {
    if (const auto connection = connection_.lock()) connection->send(id_, message);
  }
  void finish(GrpcStatus status, const std::string& why) override {
    if (const auto connection = connection_.lock()) connection->finish(id_, status, why);
  }

 private:
  std::weak_ptr<GrpcConnection> connection_;
  int32_t id_;
};

}  // namespace

struct GrpcConnection::Callbacks {
  static GrpcConnection& of(void* user) { return *static_cast<GrpcConnection*>(user); }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    GrpcConnection& self = of(user);
    if (self.setting_.totals.calls >= self.setting_.config.calls)
      return nghttp2_submit_rst_stream(
          session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
    ++self.setting_.totals.calls;
    self.calls_.try_emplace(frame->hd.stream_id);
    return 0;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
      const uint8_t* value, size_t value_size, uint8_t, void* user) {
    GrpcConnection& self = of(user);
    const auto found = self.calls_.find(frame->hd.stream_id);
    if (found == self.calls_.end()) return 0;
    const std::string_view key(reinterpret_cast<const char*>(name), name_size),
        text(reinterpret_cast<const char*>(value), value_size);
    if (key == ":path") found->second.path = text.substr(0, kMostPath);
    if (key == ":method") found->second.is_post = text == "POST";
    if (key == "content-type") found->second.is_grpc = text.starts_with("application/grpc");
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    GrpcConnection& self = of(user);
    const auto found = self.calls_.find(frame->hd.stream_id);
    if (found == self.calls_.end()) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
      self.open_call(frame->hd.stream_id, found->second);
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && found->second.handler)
      found->second.handler->on_half_closed();
    return 0;
  }

  static int on_data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
    of(user).take(id, {reinterpret_cast<const char*>(data), size});
    return 0;
  }

  static int on_stream_close(nghttp2_session*, int32_t id, uint32_t, void* user) {
    of(user).end_call(id);
    return 0;
  }

  static ssize_t read_answer(nghttp2_session* session, int32_t id, uint8_t* to, size_t room, uint32_t* flags,
      nghttp2_data_source*, void* user) {
    GrpcConnection& self = of(user);
    bool ended = false;
    const size_t filled = self.fill(id, reinterpret_cast<char*>(to), room, ended);
    if (!ended && filled == 0) return NGHTTP2_ERR_DEFERRED;
    if (!ended) return static_cast<ssize_t>(filled);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const Call& call = self.calls_.at(id);
    const std::string status = std::to_string(static_cast<int>(call.status));
    const std::array trailers = {header("grpc-status", status), header("grpc-message", call.why)};
    nghttp2_submit_trailer(session, id, trailers.data(), call.why.empty() ? 1 : 2);
    return static_cast<ssize_t>(filled);
  }

  static void set(nghttp2_session_callbacks* callbacks) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
  }
};

GrpcConnection::GrpcConnection(std::unique_ptr<ByteStream> stream, Setting setting)
    : stream_(std::move(stream)),
      setting_(std::move(setting)),
      buffer_(kReadBytes, '\0'),
      start_(std::chrono::steady_clock::now()),
      progress_(start_) {
  nghttp2_session_callbacks* callbacks = nullptr;
  bool made = nghttp2_session_callbacks_new(&callbacks) == 0;
  if (made) Callbacks::set(callbacks);
  made = made && nghttp2_session_server_new(&session_, callbacks, this) == 0;
  nghttp2_session_callbacks_del(callbacks);
  if (!made) throw Error("nghttp2: no memory for a connection");
  constexpr std::array<nghttp2_settings_entry, 2> kSettings = {
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kCallsAtOnce},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kCallWindow}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, kSettings.data(), kSettings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

GrpcConnection::~GrpcConnection() { nghttp2_session_del(session_); }

void GrpcConnection::start() {
  stream_->handshake([self = shared_from_this()](const ByteStream::ErrorCode& error) {
    if (error || self->closed_) return self->close();
    self->pump();
    self->read();
  });
}

void GrpcConnection::close() {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  stream_->close();
  while (!calls_.empty()) end_call(calls_.begin()->first);
  setting_.on_closed(*this);
}

void GrpcConnection::on_tick(ServeTime now) {
  const bool idle = !served_ && now - start_ > kFirstCallTime;
  const bool stalled = writing_ && now - progress_ > kWriteStall;
  if (idle || stalled) close();
}

void GrpcConnection::read() {
  stream_->read_some(buffer_.data(), buffer_.size(),
      [self = shared_from_this()](const ByteStream::ErrorCode& error, size_t got) {
        if (self->closed_) return;
        if (error) return self->close();
        self->in_session_ = true;
        const ssize_t taken = nghttp2_session_mem_recv(
            self->session_, reinterpret_cast<const uint8_t*>(self->buffer_.data()), got);
        self->in_session_ = false;
        if (taken < 0) return self->close();
        self->pump();
        if (!self->closed_) self->read();
      });
}

void GrpcConnection::pump() {
  if (in_session_ || writing_ || closed_) return;
  in_session_ = true;
  ssize_t made = 1;
  while (made > 0 && out_.size() < kWriteBytes) {
    const uint8_t* data = nullptr;
    made = nghttp2_session_mem_send(session_, &data);
    if (made > 0) out_.append(reinterpret_cast<const char*>(data), static_cast<size_t>(made));
  }
  in_session_ = false;
  const bool over = nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  if (made < 0 || (out_.empty() && over)) return close();
  if (!out_.empty()) write();
}

void GrpcConnection::write() {
  writing_ = true;
  progress_ = std::chrono::steady_clock::now();
  stream_->write_some(out_.data() + written_, out_.size() - written_,
      [self = shared_from_this()](const ByteStream::ErrorCode& error, size_t sent) {
        if (self->closed_) return;
        if (error) return self->close();
        self->written_ += sent;
        if (self->written_ < self->out_.size()) return self->write();
        self->out_.clear();
        self->written_ = 0;
        self->writing_ = false;
        self->pump();
      });
}

void GrpcConnection::open_call(int32_t id, Call& call) {
  served_ = true;
  if (!call.is_post || !call.is_grpc) {
    const nghttp2_nv status = header(":status", call.is_post ? "415" : "405");
    nghttp2_submit_response(session_, id, &status, 1, nullptr);
    return;
  }
  call.handler = setting_.open(call.path, std::make_shared<Reply>(weak_from_this(), id));
  if (!call.handler) finish(id, GrpcStatus::kUnimplemented, "no such method");
}

void GrpcConnection::hold(std::string& text, std::string_view more) {
  text += more;
  setting_.totals.held_bytes += static_cast<int64_t>(more.size());
}

void GrpcConnection::let_go(std::string& text, size_t bytes) {
  text.erase(0, bytes);
  setting_.totals.held_bytes -= static_cast<int64_t>(bytes);
}

void GrpcConnection::take(int32_t id, std::string_view bytes) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || !found->second.handler || found->second.finished) return;
  Call& call = found->second;
  hold(call.arriving, bytes);
  while (!call.finished && call.arriving.size() >= kFrameStart) {
    uint32_t size = 0;
    for (size_t i = 1; i < kFrameStart; ++i) size = size << 8 | static_cast<uint8_t>(call.arriving[i]);
    if (call.arriving[0] != 0)
      return finish(id, GrpcStatus::kUnimplemented, "compressed messages are not read");
    if (size > setting_.config.message_bytes)
      return finish(id, GrpcStatus::kResourceExhausted,
          format("a message of {} bytes: expected at most {}", size, setting_.config.message_bytes));
    if (call.arriving.size() < kFrameStart + size) break;
    std::string message = call.arriving.substr(kFrameStart, size);
    let_go(call.arriving, kFrameStart + size);
    call.handler->on_message(std::move(message));
  }
  if (setting_.totals.held_bytes > setting_.config.held_bytes)
    finish(id, GrpcStatus::kResourceExhausted, "too much is asked at once");
}

void GrpcConnection::answer(int32_t id, Call& call) {
  if (!std::exchange(call.answered, true)) {
    const std::array head = {header(":status", "200"), header("content-type", "application/grpc")};
    nghttp2_data_provider provider = {};
    provider.read_callback = Callbacks::read_answer;
    nghttp2_submit_response(session_, id, head.data(), head.size(), &provider);
  } else {
    nghttp2_session_resume_data(session_, id);
  }
  pump();
}

void GrpcConnection::send(int32_t id, std::string_view message) {
  const auto found = calls_.find(id);
  if (closed_ || found == calls_.end() || found->second.finished) return;
  std::string start(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) start.push_back(static_cast<char>(message.size() >> shift));
  hold(found->second.unsent, start);
  hold(found->second.unsent, message);
  answer(id, found->second);
}

void GrpcConnection::finish(int32_t id, GrpcStatus status, const std::string& why) {
  const auto found = calls_.find(id);
  if (closed_ || found == calls_.end() || std::exchange(found->second.finished, true)) return;
  Call& call = found->second;
  call.status = status;
  for (const char letter : why.substr(0, kMostWhy))
    call.why.push_back(letter >= ' ' && letter < 0x7f && letter != '%' ? letter : '?');
  let_go(call.arriving, call.arriving.size());
  answer(id, call);
}

size_t GrpcConnection::fill(int32_t id, char* to, size_t room, bool& ended) {
  Call& call = calls_.at(id);
  const size_t some = std::min(room, call.unsent.size() - call.sent);
  std::copy_n(call.unsent.data() + call.sent, some, to);
  call.sent += some;
  if (2 * call.sent >= call.unsent.size()) let_go(call.unsent, std::exchange(call.sent, 0));
  ended = call.finished && call.unsent.empty();
  return some;
}

void GrpcConnection::end_call(int32_t id) {
  auto node = calls_.extract(id);
  if (node.empty()) return;
  Call& call = node.mapped();
  let_go(call.arriving, call.arriving.size());
  let_go(call.unsent, call.unsent.size());
  --setting_.totals.calls;
}

}  // namespace cheetah
