// SPDX-License-Identifier: MIT
#pragma once
// An authority for tests: issues certificates into a folder that goes with it.
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/temp_dir.h"
#include "cluster/net/identity.h"

namespace cheetah::cluster {

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "cluster") : key_(new_key()), certificate_(X509_new()) {
    fill(certificate_.get(), name, key_.get(), 3600);
    add(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
    write_certificate(ca());
  }
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  std::string ca() const { return folder_.path("ca.pem"); }

  struct Wish {
    std::string common_name = {}, alternative_names = {}, usage = "serverAuth,clientAuth";
    long valid_s = 3600;  // from a minute ago; negative: over
  };
  IdentityFiles issue(const std::string& dns_name) {
    return issue_as(Wish{.alternative_names = "DNS:" + dns_name});
  }
  IdentityFiles issue_as(const Wish& wish) {
    const Key key = new_key();
    const Certificate certificate(X509_new());
    fill(certificate.get(), wish.common_name, key.get(), wish.valid_s);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
    if (!wish.alternative_names.empty())
      add(certificate.get(), NID_subject_alt_name, wish.alternative_names.c_str());
    if (!wish.usage.empty()) add(certificate.get(), NID_ext_key_usage, wish.usage.c_str());
    X509_sign(certificate.get(), key_.get(), EVP_sha256());
    const std::string stem = folder_.path(std::to_string(++count_));
    write(stem + ".pem", [&](FILE* file) { return PEM_write_X509(file, certificate.get()); });
    write(stem + ".key", [&](FILE* file) {
      return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    return {.certificate = stem + ".pem", .key = stem + ".key", .authorities = ca()};
  }
  std::shared_ptr<const Identity> identity(const std::string& dns_name) {
    return std::make_shared<Identity>(issue(dns_name));
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static Key new_key() { return Key(EVP_EC_gen("P-256")); }
  void fill(X509* certificate, const std::string& name, EVP_PKEY* key, long valid_s) {
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60 + std::min(valid_s, 0L));
    X509_gmtime_adj(X509_getm_notAfter(certificate), valid_s);
    X509_NAME* subject = X509_get_subject_name(certificate);
    if (!name.empty())
      X509_NAME_add_entry_by_txt(
          subject, "CN", MBSTRING_UTF8, reinterpret_cast<const uint8_t*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_set_pubkey(certificate, key);
  }
  static void add(X509* certificate, int kind, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    if (extension == nullptr) throw std::runtime_error(value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  static void write(const std::string& path, auto&& with) {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "w"), fclose);
    if (!file || with(file.get()) != 1) throw std::runtime_error(path);
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  void write_certificate(const std::string& path) {
    write(path, [&](FILE* file) { return PEM_write_X509(file, certificate_.get()); });
  }

  TempDir folder_{"cheetah_authority"};
  Key key_;
  Certificate certificate_;
  int count_ = 0;
  long serial_ = 0;
};

}  // namespace cheetah::cluster
