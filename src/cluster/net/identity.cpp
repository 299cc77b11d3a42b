// SPDX-License-Identifier: MIT
#include "cluster/net/identity.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/crypto.h"

namespace cheetah::cluster {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using NameList = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;

constexpr int kNameBits = 24;

uint64_t name_bits(std::string_view name) {
  const Digest digest = hmac_sha256("cheetah worker", name);
  return uint64_t{digest[0]} << 16 | uint64_t{digest[1]} << 8 | digest[2];
}

// The first thing OpenSSL complained about; the others follow from it.
std::string complaint() {
  const unsigned long code = ERR_get_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return reason != nullptr ? reason : "not what was expected";
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
      static_cast<size_t>(ASN1_STRING_length(text))};
}

// "": of the authorities, valid today and for both ends of a link; else what is wrong.
std::string objection_to(X509* certificate, STACK_OF(X509) * chain, X509_STORE* authorities) {
  const Verification verification(X509_STORE_CTX_new());
  if (!verification || X509_STORE_CTX_init(verification.get(), authorities, certificate, chain) != 1)
    throw Error("OpenSSL: no memory to check a certificate");
  if (X509_verify_cert(verification.get()) != 1)
    return X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get()));
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER})
    if (X509_check_purpose(certificate, purpose, 0) != 1)
      return "it is not for both clients and servers (extended key usage)";
  return {};
}

// Changes whenever one of the files does.
std::string changes_of(const IdentityFiles& files) {
  std::string text;
  for (const std::string& path : {files.certificate, files.key, files.authorities}) {
    struct stat info = {};
    if (stat(path.c_str(), &info) == 0)
      text += format("{}:{}.{} ", info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return text;
}

}  // namespace

void set_up_links(ssl_ctx_st& context) {
  SSL_CTX_set_min_proto_version(&context, TLS1_3_VERSION);
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(&context, 0);
  SSL_CTX_set_max_cert_list(&context, 16 << 10);
  SSL_CTX_set_mode(&context, SSL_MODE_RELEASE_BUFFERS);
}

bool id_fits_name(WorkerId id, std::string_view name) {
  return !name.empty() && static_cast<uint64_t>(id) >> (64 - kNameBits) == name_bits(name);
}

std::string name_in(const X509& certificate) {
  const NameList names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int kind = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind);
    if (kind == GEN_DNS || kind == GEN_URI) return text_of(static_cast<const ASN1_STRING*>(value));
  }
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? "" : text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

struct Identity::State {
  explicit State(const IdentityFiles& files);
  std::shared_ptr<SSL_CTX> tls{SSL_CTX_new(TLS_method()), SSL_CTX_free};  // shared with tunnels being made
  std::string name;

  X509* own() const { return SSL_CTX_get0_certificate(tls.get()); }

  void load(const IdentityFiles& files);
  void check_own(const IdentityFiles& files);
};

void Identity::State::load(const IdentityFiles& files) {
  const auto shown = [](const std::string& path) { return printable(path, 256); };
  ERR_clear_error();
  // Nobody is asked for a pass phrase: a server has no terminal.
  SSL_CTX_set_default_passwd_cb(tls.get(), [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_load_verify_file(tls.get(), files.authorities.c_str()) != 1)
    throw Error(
        format("{}: {}: expected the cluster's authority as PEM", shown(files.authorities), complaint()));
  if (SSL_CTX_use_certificate_chain_file(tls.get(), files.certificate.c_str()) != 1)
    throw Error(format("{}: {}: expected a certificate as PEM", shown(files.certificate), complaint()));
  if (SSL_CTX_use_PrivateKey_file(tls.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(tls.get()) != 1)
    throw Error(format("{}: {}: expected the key of {} as PEM, without a pass phrase", shown(files.key),
        complaint(), shown(files.certificate)));
}

void Identity::State::check_own(const IdentityFiles& files) {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(tls.get(), &chain);
  const std::string path = printable(files.certificate, 256);
  if (const std::string why = objection_to(own(), chain, SSL_CTX_get_cert_store(tls.get())); !why.empty())
    throw Error(format("{}: no peer would accept this certificate: {}", path, why));
  name = name_in(*own());
  if (name.empty())
    throw Error(
        format("{}: has no name: expected a DNS name or URI (subjectAltName) or a common name", path));
}

Identity::State::State(const IdentityFiles& files) {
  if (!tls) throw Error("OpenSSL: no memory for TLS");
  load(files);
  set_up_links(*tls);
  check_own(files);
}

Identity::Identity(const IdentityFiles& files)
    : files_(files),
      state_(std::make_shared<const State>(files)),
      seen_(changes_of(files)),
      name_(state()->name) {}

Identity::~Identity() = default;

std::shared_ptr<ssl_ctx_st> Identity::tls() const { return state()->tls; }

void Identity::renew() const {
  std::string now = changes_of(files_);
  const bool changed = seen_.with([&](std::string& seen) { return std::exchange(seen, now) != now; });
  if (!changed) return;
  auto next = std::make_shared<const State>(files_);
  if (next->name != name_)
    throw Error(format("{}: is of {} now: expected one of {}, who this worker is until it is started again",
        printable(files_.certificate, 256), printable(next->name), printable(name_)));
  state_.swap_in(next);
}

WorkerId Identity::id_with(uint64_t random) const {
  const int free_bits = 64 - kNameBits;
  const uint64_t low = random & ((uint64_t{1} << free_bits) - 1);
  return WorkerId{name_bits(name_) << free_bits | (low == 0 ? 1 : low)};
}

}  // namespace cheetah::cluster
