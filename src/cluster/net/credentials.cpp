// SPDX-License-Identifier: MIT
#include "cluster/net/credentials.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/crypto.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kLeastBytes = 16, kMostSecrets = 2;

bool every_user_reads(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0;
}

struct PreSharedKey {
  std::string name;  // tells which secret is meant, and nothing about it
  Digest key;

  explicit PreSharedKey(std::string_view secret) : key(hkdf_sha256(secret, "cheetah link key")) {
    const Digest named = hkdf_sha256(secret, "cheetah link name");
    for (size_t i = 0; i < 16; ++i) name += format("{:02x}", named[i]);
  }
};

// Who dials and who listens need the same cipher for a key, so there is one.
constexpr const char* kCipher = "TLS_AES_256_GCM_SHA384";
constexpr std::array<uint8_t, 2> kCipherId = {0x13, 0x02};

// OpenSSL wants both ends' sessions to be of one context.
constexpr std::array<uint8_t, 7> kContext = {'c', 'h', 'e', 'e', 't', 'a', 'h'};

SSL_SESSION* session_of(SSL* ssl, const PreSharedKey& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherId.data());
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, key.key.data(), key.key.size()) == 1 &&
      SSL_SESSION_set1_id_context(session, kContext.data(), kContext.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

const std::vector<PreSharedKey>& keys_of(SSL* ssl) {
  return *static_cast<const std::vector<PreSharedKey>*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

// Callbacks of OpenSSL: 1 goes on, without a session as if no key had been named.
int find_key(SSL* ssl, const uint8_t* name, size_t size, SSL_SESSION** session) {
  const std::string_view named(reinterpret_cast<const char*>(name), size);
  const auto& keys = keys_of(ssl);
  const auto found = std::ranges::find(keys, named, &PreSharedKey::name);
  *session = found == keys.end() ? nullptr : session_of(ssl, *found);
  return 1;
}

int use_key(SSL* ssl, const EVP_MD*, const uint8_t** name, size_t* size, SSL_SESSION** session) {
  const PreSharedKey& key = keys_of(ssl).front();
  *name = reinterpret_cast<const uint8_t*>(key.name.data());
  *size = key.name.size();
  *session = session_of(ssl, key);
  return *session != nullptr ? 1 : 0;
}

std::string changes_of(const std::string& path) {
  struct stat info = {};
  if (path.empty() || stat(path.c_str(), &info) != 0) return {};
  return format("{}:{}.{}", info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

}  // namespace

struct Secrets::State {
  explicit State(const std::vector<std::string>& secrets) : keys(secrets.begin(), secrets.end()) {
    if (!tls || SSL_CTX_set_ciphersuites(tls.get(), kCipher) != 1 ||
        SSL_CTX_set_session_id_context(tls.get(), kContext.data(), kContext.size()) != 1)
      throw Error("OpenSSL: no memory for TLS");
    set_up_links(*tls);
    SSL_CTX_set_app_data(tls.get(), &keys);
    SSL_CTX_set_psk_find_session_callback(tls.get(), find_key);
    SSL_CTX_set_psk_use_session_callback(tls.get(), use_key);
  }
  std::vector<PreSharedKey> keys;
  std::unique_ptr<SSL_CTX, decltype([](SSL_CTX* context) { SSL_CTX_free(context); })> tls{
      SSL_CTX_new(TLS_method())};
};

Secrets::Secrets(const std::vector<std::string>& secrets) : state_(std::make_shared<const State>(secrets)) {}
Secrets::Secrets(const std::string& path)
    : path_(path), state_(std::make_shared<const State>(read_secret_file(path))), seen_(changes_of(path)) {}
Secrets::~Secrets() = default;

void Secrets::renew() const {
  std::string now = changes_of(path_);
  const bool changed = seen_.with([&](std::string& seen) { return std::exchange(seen, now) != now; });
  if (!changed) return;
  auto next = std::make_shared<const State>(read_secret_file(path_));
  state_.swap_in(next);
}

std::shared_ptr<ssl_ctx_st> Secrets::tls() const {
  const auto state = state_.copy();
  return {state, state->tls.get()};  // the keys stay with the tunnels that use them
}

std::shared_ptr<ssl_ctx_st> Credentials::tls() const {
  static const Secrets kOpen(std::vector<std::string>{""});
  return identity ? identity->tls() : secrets ? secrets->tls() : kOpen.tls();
}

void Credentials::renew() const {
  if (identity) identity->renew();
  if (secrets) secrets->renew();
}

Credentials shared_secret(const std::string& secret) {
  return {.secrets = std::make_shared<Secrets>(std::vector{secret})};
}

std::vector<std::string> read_secret_file(const std::string& path) {
  struct stat info = {};
  std::ifstream file(path, std::ios::binary);
  if (!file || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    throw Error(format("{}: cannot be read as a file with a secret", printable(path, 256)));
  if (every_user_reads(path))
    throw Error(
        format("{}: every user of this machine can read the secret: chmod 600 it", printable(path, 256)));
  std::vector<std::string> secrets;
  for (std::string line; std::getline(file, line);) {
    std::string_view secret = line;
    if (secret.ends_with('\r')) secret.remove_suffix(1);
    if (secret.empty() && !secrets.empty()) continue;
    if (secret.size() < kLeastBytes)
      throw Error(format("{}: a secret of {} bytes: expected at least {}, e.g. from openssl rand -hex 32",
          printable(path, 256), secret.size(), kLeastBytes));
    secrets.emplace_back(secret);
  }
  if (secrets.empty() || secrets.size() > kMostSecrets)
    throw Error(format("{}: {} secrets: expected one, or two while one replaces the other",
        printable(path, 256), secrets.size()));
  return secrets;
}

Credentials read_credentials(const CredentialFiles& files) {
  const bool all = !files.certificate.empty() && !files.key.empty() && !files.authorities.empty();
  const bool any = !files.certificate.empty() || !files.key.empty() || !files.authorities.empty();
  if (any && !all)
    throw UsageError("--cluster-cert, --cluster-key and --cluster-ca: expected all three, or none");
  if (any && !files.secret.empty())
    throw UsageError("--secret-file and --cluster-cert: a cluster knows its nodes by one of them, not both");
  Credentials credentials;
  if (!files.secret.empty()) credentials.secrets = std::make_shared<Secrets>(files.secret);
  if (!any) return credentials;
  if (every_user_reads(files.key))
    throw Error(
        format("{}: every user of this machine can read the key: chmod 600 it", printable(files.key, 256)));
  credentials.identity = std::make_shared<Identity>(
      IdentityFiles{.certificate = files.certificate, .key = files.key, .authorities = files.authorities});
  return credentials;
}

}  // namespace cheetah::cluster
