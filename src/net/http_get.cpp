// SPDX-License-Identifier: MIT
#include "net/http_get.h"

#include "base/error.h"
#include "base/format.h"
#include "net/http_channel.h"

namespace cheetah {

std::string http_get(
    const Url& url, std::chrono::milliseconds limit, size_t max_bytes, const ClientTls& tls) {
  HttpChannel channel({.url = url, .tls = tls});
  HttpChannel::Answer answer = channel.send({.headers = {{"Connection", "close"}}}, limit, max_bytes);
  if (answer.status != 200) throw Error(format("{}: answered {}", url.text(), answer.status));
  return std::move(answer.body);
}

}  // namespace cheetah
