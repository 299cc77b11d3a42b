#include "cluster/net/tunnel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/session.h"

namespace cheetah::cluster {
namespace {

constexpr const char* kLabel = "EXPORTER-cheetah-mesh";
constexpr int kAlertBase = 1000;  // OpenSSL's reasons from here on are alerts of the peer

// What a peer's alert means for whoever reads the log here.
std::string text_of_alert(int alert) {
  switch (alert) {
    case SSL_AD_UNKNOWN_CA:
      return "it does not accept the authority of this worker's certificate";
    case SSL_AD_CERTIFICATE_EXPIRED:
      return "this worker's certificate has expired";
    case SSL_AD_CERTIFICATE_REQUIRED:
      return "it wants a certificate";
    default:
      return format("TLS alert: {}", SSL_alert_desc_string_long(alert));
  }
}

}  // namespace

bool begins_as_tls(std::string_view bytes) {
  constexpr char kAlert = 0x15, kHandshake = 0x16, kMajorVersion = 3;
  return bytes.size() >= 2 && (bytes[0] == kHandshake || bytes[0] == kAlert) && bytes[1] == kMajorVersion;
}

struct Tunnel::State {
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::shared_ptr<const Identity> identity;  // kept while the link lives
  std::unique_ptr<SSL, Free> ssl;
  BIO *in = nullptr, *out = nullptr;  // owned by ssl
  bool stands = false;
  std::string peer_name;

  void step();
  void read(std::string& plain);
  [[noreturn]] void fail();
};

Tunnel::Tunnel(std::shared_ptr<const Identity> identity, bool dials) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.ssl.reset(SSL_new(identity->tls().get()));
  s.identity = std::move(identity);
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
  if (verified != X509_V_OK)
    throw Error(
        format("the peer's certificate is refused: {}: expected one of the cluster's authority "
               "(--cluster-ca)",
               X509_verify_cert_error_string(verified)));
  if (reason > kAlertBase)
    throw HandshakeEnd(format("refused by the peer: {}", text_of_alert(reason - kAlertBase)),
                       HandshakeEnd::Kind::kRefusedByPeer);
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    throw Error("the peer has no certificate: give all workers one (--cluster-cert), or all the secret");
  throw Error(format("TLS: {}", text != nullptr ? text : "the peer does not keep to the protocol"));
}

void Tunnel::State::step() {
  ERR_clear_error();
  const int status = SSL_do_handshake(ssl.get());
  if (status != 1 && SSL_get_error(ssl.get(), status) == SSL_ERROR_WANT_READ) return;
  if (status != 1) fail();
  const X509* certificate = SSL_get0_peer_certificate(ssl.get());
  if (certificate != nullptr) peer_name = name_in(*certificate);
  if (peer_name.empty()) throw Error("the peer's certificate has no name");
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

std::string Tunnel::binding() const {
  std::string key(32, '\0');
  if (SSL_export_keying_material(state_->ssl.get(), reinterpret_cast<uint8_t*>(key.data()), key.size(),
                                 kLabel, std::char_traits<char>::length(kLabel), nullptr, 0, 0) != 1)
    throw Error("OpenSSL: TLS exports no key");
  return key;
}

}  // namespace cheetah::cluster
