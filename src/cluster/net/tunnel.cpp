// SPDX-License-Identifier: MIT
#include "cluster/net/tunnel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>

#include "base/format.h"

namespace cheetah::cluster {
namespace {

constexpr int kAlertBase = 1000;  // OpenSSL's reasons from here on are alerts of the peer
constexpr const char* kOneOfTwo =
    "give all nodes the same --secret-file, or all a certificate (--cluster-cert)";

// What a peer's alert means, for the log here.
std::string text_of_alert(int alert, bool has_certificate) {
  switch (alert) {
    case SSL_AD_UNKNOWN_CA:
      return has_certificate
                 ? "it does not accept the authority of this worker's certificate"
                 : format("it does not know the cluster's secret, or has a certificate: {}", kOneOfTwo);
    case SSL_AD_HANDSHAKE_FAILURE:
      return format(
          "it knows another secret, or expects a certificate where this node has none (or the "
          "reverse): {}",
          kOneOfTwo);
    case SSL_AD_CERTIFICATE_EXPIRED:
      return "this worker's certificate has expired";
    case SSL_AD_CERTIFICATE_REQUIRED:
      return "it wants a certificate";
    default:
      return format("TLS alert: {}", SSL_alert_desc_string_long(alert));
  }
}

}  // namespace

struct Tunnel::State {
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::shared_ptr<ssl_ctx_st> context;  // shared with other links; keeps the keys
  bool has_certificate = false;
  std::unique_ptr<SSL, Free> ssl;
  BIO *in = nullptr, *out = nullptr;  // owned by ssl
  bool stands = false;
  std::string peer_name;

  void step();
  void read(std::string& plain);
  [[noreturn]] void fail();
};

Tunnel::Tunnel(const Credentials& credentials, bool dials) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.context = credentials.tls();
  s.has_certificate = credentials.identity != nullptr;
  s.ssl.reset(SSL_new(s.context.get()));
  s.in = BIO_new(BIO_s_mem());
  s.out = BIO_new(BIO_s_mem());
  if (!s.ssl || s.in == nullptr || s.out == nullptr) {
    BIO_free(s.in);
    BIO_free(s.out);
    throw Error("OpenSSL: no memory for a link");
  }
  SSL_set_bio(s.ssl.get(), s.in, s.out);
  dials ? SSL_set_connect_state(s.ssl.get()) : SSL_set_accept_state(s.ssl.get());
  if (dials) s.step();
}

Tunnel::~Tunnel() = default;
Tunnel::Tunnel(Tunnel&&) noexcept = default;
Tunnel& Tunnel::operator=(Tunnel&&) noexcept = default;

bool Tunnel::stands() const { return state_->stands; }
const std::string& Tunnel::peer_name() const { return state_->peer_name; }

void Tunnel::State::fail() {
  const long verified = SSL_get_verify_result(ssl.get());
  const unsigned long code = ERR_get_error();
  const int reason = ERR_GET_REASON(code);
  const char* text = ERR_reason_error_string(code);
  ERR_clear_error();
  if (verified != X509_V_OK && !has_certificate)
    throw Error(format("the peer comes with a certificate, this node has none: {}", kOneOfTwo));
  if (verified != X509_V_OK)
    throw Error(
        format("the peer's certificate is refused: {}: expected one of the cluster's authority "
               "(--cluster-ca)",
            X509_verify_cert_error_string(verified)));
  if (reason > kAlertBase)
    throw HandshakeEnd(format("refused by the peer: {}", text_of_alert(reason - kAlertBase, has_certificate)),
        HandshakeEnd::Kind::kRefusedByPeer);
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    throw Error(format("the peer has no certificate: {}", kOneOfTwo));
  if (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER)
    throw Error(
        format("the peer does not know the cluster's secret, or comes with a certificate: {}", kOneOfTwo));
  throw Error(format("TLS: {}", text != nullptr ? text : "the peer does not keep to the protocol"));
}

void Tunnel::State::step() {
  ERR_clear_error();
  const int status = SSL_do_handshake(ssl.get());
  if (status != 1 && SSL_get_error(ssl.get(), status) == SSL_ERROR_WANT_READ) return;
  if (status != 1) fail();
  const X509* certificate = SSL_get0_peer_certificate(ssl.get());
  if (certificate != nullptr) peer_name = name_in(*certificate);
  if (has_certificate && peer_name.empty()) throw Error("the peer's certificate has no name");
  if (!has_certificate && SSL_session_reused(ssl.get()) != 1)  // cannot be: there is nothing else to show
    throw Error("the peer has proved nothing");
  stands = true;
}

void Tunnel::State::read(std::string& plain) {
  std::array<char, 16384> buffer;  // the largest record
  for (;;) {
    size_t size = 0;
    ERR_clear_error();
    if (SSL_read_ex(ssl.get(), buffer.data(), buffer.size(), &size) == 1) {
      plain.append(buffer.data(), size);
      continue;
    }
    const int why = SSL_get_error(ssl.get(), 0);
    if (why == SSL_ERROR_WANT_READ) return;
    if (why == SSL_ERROR_ZERO_RETURN) throw Error("the peer closed the link");
    fail();
  }
}

void Tunnel::open(std::string_view bytes, std::string& plain) {
  const int size = static_cast<int>(bytes.size());
  if (size > 0 && BIO_write(state_->in, bytes.data(), size) != size)
    throw Error("OpenSSL: no memory for a link");
  if (!state_->stands) state_->step();
  if (state_->stands) state_->read(plain);
}

void Tunnel::seal(std::string_view plain) {
  ERR_clear_error();
  size_t written = 0;  // all of it, always: the other side of the tunnel is memory
  if (SSL_write_ex(state_->ssl.get(), plain.data(), plain.size(), &written) != 1) state_->fail();
}

std::string Tunnel::take_output() {
  char* data = nullptr;
  const long size = BIO_get_mem_data(state_->out, &data);
  std::string output(data, static_cast<size_t>(std::max(size, 0L)));
  static_cast<void>(BIO_reset(state_->out));
  return output;
}

Digest Tunnel::derive_key(std::string_view label) const {
  Digest key = {};
  if (SSL_export_keying_material(
          state_->ssl.get(), key.data(), key.size(), label.data(), label.size(), nullptr, 0, 0) != 1)
    throw Error("OpenSSL: TLS exports no key");
  return key;
}

}  // namespace cheetah::cluster
