// SPDX-License-Identifier: MIT
#include "net/tls_context.h"

#include <boost/asio/ssl/context.hpp>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

std::shared_ptr<ssl::context> new_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                       ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  return context;
}

void use_identity(ssl::context& context, const std::string& certificate_file, const std::string& key_file) {
  for (const std::string& file : {certificate_file, key_file})
    if (!std::filesystem::exists(file)) throw Error(format("{}: no such file, expected PEM", file));
  ErrorCode error;
  context.use_certificate_chain_file(certificate_file, error);
  if (error)
    throw Error(format("{}: cannot be used as a TLS certificate ({}): expected a PEM chain", certificate_file,
        error.message()));
  context.use_private_key_file(key_file, ssl::context::pem, error);
  if (error)
    throw Error(format("{}: cannot be used as the private key of {} ({}): expected PEM", key_file,
        certificate_file, error.message()));
}

}  // namespace

std::shared_ptr<ssl::context> client_tls_context(const ClientTls& files) {
  auto context = new_context(ssl::context::tls_client);
  context->set_verify_mode(files.accept_any_certificate ? ssl::verify_none : ssl::verify_peer);
  ErrorCode error;
  if (files.ca_file.empty())
    context->set_default_verify_paths(error);
  else
    context->load_verify_file(files.ca_file, error);
  if (error)
    throw Error(format("{}: {}: expected certificates as PEM",
        files.ca_file.empty() ? "the system's certificates" : files.ca_file, error.message()));
  if (!files.certificate_file.empty()) use_identity(*context, files.certificate_file, files.key_file);
  return context;
}

std::shared_ptr<ssl::context> server_tls_context(
    const std::string& certificate_file, const std::string& key_file) {
  auto context = new_context(ssl::context::tls_server);
  use_identity(*context, certificate_file, key_file);
  return context;
}

}  // namespace cheetah
