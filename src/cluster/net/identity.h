#pragma once
// Who a worker is, where a cluster knows its workers by certificates instead of a secret.
//
// A certificate's name is the first DNS name or URI among its alternative names, or else its common name. The
// upper 24 bits of a worker's id follow from that name and the rest is drawn at random for each life of a
// process, so whoever meets a worker can tell whether the id it claims may be its own.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/published.h"
#include "cluster/types.h"

struct ssl_ctx_st;
struct x509_st;

namespace cheetah::cluster {

struct IdentityFiles {      // all PEM
  std::string certificate;  // with the intermediate ones, if any, behind it
  std::string key;
  std::string authorities;  // whose certificates are accepted
};

bool id_fits_name(WorkerId id, std::string_view name);
std::string name_in(const x509_st& certificate);  // "": it has none

// Any thread may use it.
class Identity {
 public:
  // Throws Error for what no peer would accept: another authority's certificate, an expired one, one without
  // a name, one that is not for both ends of a link, another key, a key that every user can read.
  explicit Identity(const IdentityFiles& files);
  ~Identity();
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  // Takes up files that were renewed, for links to come; where they are no good or name another worker, the
  // old ones stay and the Error says why, once for each change.
  void renew() const;

  const std::string& name() const { return name_; }
  WorkerId id_with(uint64_t random) const;  // ours, with this for the bits that are free
  std::shared_ptr<ssl_ctx_st> tls() const;  // TLS 1.3, a certificate demanded of both ends

  // Where no tunnel protects a connection: the certificates and a signature over `text`.
  std::string sign(std::string_view text) const;
  // Throws Error unless `proof` is such a signature, of a worker that may have this id.
  void check(std::string_view proof, std::string_view text, WorkerId id) const;

  static constexpr size_t kMaxProofBytes = 6144;

 private:
  struct State;
  std::shared_ptr<const State> state() const { return state_.copy(); }

  const IdentityFiles files_;
  mutable Published<std::shared_ptr<const State>> state_;  // shared with whoever uses it just now
  mutable Published<std::string> seen_;                    // when the files last changed
  std::string name_;
};

// How a worker proves that it belongs to the cluster. Neither: every process of this machine may join.
struct Credentials {
  std::string secret;
  std::shared_ptr<const Identity> identity = nullptr;  // instead of a secret; shared by links and transfers

  bool any() const { return !secret.empty() || identity; }
};

struct CredentialFiles {
  std::string secret, certificate, key, authorities;
};
// Throws UsageError where the names contradict each other and Error where a file is not what it should be.
Credentials read_credentials(const CredentialFiles& files);

// The shared secret in a file: its first line, at least 16 bytes. Throws Error, also when others can read it.
std::string read_secret_file(const std::string& path);

}  // namespace cheetah::cluster
