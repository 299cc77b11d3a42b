// SPDX-License-Identifier: MIT
#pragma once
// The TLS settings of every HTTP client and server here: version 1.2 or later, certificates as PEM files.
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace cheetah {

struct ClientTls {
  std::string ca_file{};                       // "": the system's
  std::string certificate_file{}, key_file{};  // "": the client shows none
  bool accept_any_certificate = false;
};

// Throw Error naming the file that cannot be used. Shared by the connections made from it.
std::shared_ptr<boost::asio::ssl::context> client_tls_context(const ClientTls& files);
std::shared_ptr<boost::asio::ssl::context> server_tls_context(
    const std::string& certificate_file, const std::string& key_file);

}  // namespace cheetah
