// SPDX-License-Identifier: MIT
#pragma once
// Where a mesh listens, once it may.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/tcp_mesh.h"

namespace cheetah::cluster {

// Throws Error: no address of this machine, or one beyond it without credentials.
inline boost::asio::ip::tcp::endpoint endpoint_to_listen_on(
    boost::asio::io_context& context, const TcpMeshConfig& config) {
  using boost::asio::ip::tcp;
  boost::system::error_code error;
  const auto found =
      tcp::resolver(context).resolve(config.host, std::to_string(config.port), tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error(
        format("{}: is not an address of this machine ({})", printable(config.host), error.message()));
  tcp::endpoint endpoint = found.begin()->endpoint();
  if (!endpoint.address().is_loopback() && !config.credentials.any())
    throw Error(
        format("refusing to take peers at {} without a shared secret or certificates: give every worker the "
               "same --secret-file, or --cluster-cert, --cluster-key and --cluster-ca",
            printable(config.host)));
  return endpoint;
}

}  // namespace cheetah::cluster
