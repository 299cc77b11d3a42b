// SPDX-License-Identifier: MIT
#include "serve/http/exchange.h"

#include "base/format.h"
#include "serve/http/connection.h"

namespace cheetah {

void Exchange::respond(HttpResponse response) {
  if (!open() || begun_) return;
  begun_ = finished_ = true;
  status_ = response.status;
  if (response.close) keep_alive_ = false;
  connection_->close_after_ = !keep_alive_;
  std::string bytes = render_head(response, Framing::kLength, keep_alive_);
  if (!head_only_ && response.status != 204) bytes += response.body;
  connection_->send(bytes);
  connection_->flush();
}

void Exchange::begin(const HttpResponse& head) {
  if (!open() || begun_) return;
  begun_ = true;
  status_ = head.status;
  if (!chunks_) keep_alive_ = false;
  connection_->close_after_ = !keep_alive_;
  connection_->send(render_head(head, chunks_ ? Framing::kChunked : Framing::kUntilClose, keep_alive_));
}

void Exchange::write(std::string_view bytes) {
  if (open()) unframed_ += bytes;
}

void Exchange::append_chunk() {
  if (unframed_.empty()) return;
  if (chunks_) {
    connection_->send(format("{:x}\r\n", unframed_.size()));
    unframed_ += "\r\n";
  }
  connection_->send(unframed_);
  unframed_.clear();
}

void Exchange::flush() {
  if (!open() || !begun_) return;
  append_chunk();
  connection_->flush();
}

void Exchange::finish() {
  if (!open() || finished_) return;
  append_chunk();
  finished_ = true;
  if (chunks_) connection_->send("0\r\n\r\n");
  connection_->flush();
}

void Exchange::detach() {
  connection_ = nullptr;
  listener_.reset();
}

}  // namespace cheetah
