// SPDX-License-Identifier: MIT
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cluster/net/link.h"

namespace cheetah::cluster {

// A link that is wanted: to a peer, or to the process at an address.
struct Wish {
  explicit Wish(boost::asio::io_context& context) : timer(context), resolver(context), socket(context) {}
  std::optional<WorkerId> peer;  // at an address: who was last met there
  bool by_address = false;
  std::string host;
  uint16_t port = 0;
  std::chrono::milliseconds retry{0};
  boost::asio::steady_timer timer;  // when to try next, or to give up on connecting
  boost::asio::ip::tcp::resolver resolver;
  boost::asio::ip::tcp::socket socket;  // while it connects
  std::shared_ptr<Link> link;           // while it proves itself
};

}  // namespace cheetah::cluster
