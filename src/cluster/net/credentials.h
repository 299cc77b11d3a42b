// SPDX-License-Identifier: MIT
#pragma once
// How a node proves that it belongs to the cluster: by a secret that all nodes share, or by a certificate.
// Either way a link is TLS 1.3 with fresh keys (ECDHE): a secret is used as an external pre-shared key.
#include <memory>
#include <string>
#include <vector>

#include "base/published.h"
#include "cluster/net/identity.h"

namespace cheetah::cluster {

// The secrets a cluster accepts: a node dials with the first and takes peers with any of them. So a secret is
// replaced without a stop: first every file gets the new one as its second line, then as its first, and at
// last the old one goes. Any thread may use it.
class Secrets {
 public:
  explicit Secrets(const std::vector<std::string>& secrets);
  // Read again where the file has changed.
  explicit Secrets(const std::string& path);
  ~Secrets();
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;

  // Takes up a file that has changed, for links to come. Where it cannot be used the old secrets stay and the Error
  // says why, once per change.
  void renew() const;
  std::shared_ptr<ssl_ctx_st> tls() const;

 private:
  struct State;
  const std::string path_;                                 // "": they do not change
  mutable Published<std::shared_ptr<const State>> state_;  // shared with tunnels
  mutable Published<std::string> seen_;                    // when the file last changed
};

// One of the two, or neither: then every process of this machine may join. Shared by links and transfers.
struct Credentials {
  std::shared_ptr<const Secrets> secrets = nullptr;
  std::shared_ptr<const Identity> identity = nullptr;

  bool any() const { return secrets || identity; }
  std::shared_ptr<ssl_ctx_st> tls() const;  // for the next link
  void renew() const;                       // as in Secrets and Identity
};
Credentials shared_secret(const std::string& secret);

struct CredentialFiles {
  std::string secret, certificate, key, authorities;
};
// Throws UsageError where the names contradict each other and Error where a file is not what it should be.
Credentials read_credentials(const CredentialFiles& files);

// The secrets in a file: one or two lines of at least 16 bytes. Throws Error, also when others can read it.
std::vector<std::string> read_secret_file(const std::string& path);

}  // namespace cheetah::cluster
