// SPDX-License-Identifier: MIT
#pragma once
// Who a worker is, where a cluster knows its workers by certificates instead of a secret.
//
// A certificate's name is the first DNS name or URI among its alternative names, or else its common name. The
// upper 24 bits of a worker's id follow from that name and the rest is drawn at random for each life of a
// process, so a peer can check whether the id it claims may be its own.
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

  // Takes up files that were renewed, for links to come. Where they cannot be used or name another worker, the
  // old ones stay and the Error says why, once per change.
  void renew() const;

  const std::string& name() const { return name_; }
  WorkerId id_with(uint64_t random) const;  // ours, with this for the bits that are free
  std::shared_ptr<ssl_ctx_st> tls() const;  // TLS 1.3, a certificate demanded of both ends

 private:
  struct State;
  std::shared_ptr<const State> state() const { return state_.copy(); }

  const IdentityFiles files_;
  mutable Published<std::shared_ptr<const State>> state_;  // shared with its present users
  mutable Published<std::string> seen_;                    // when the files last changed
  std::string name_;
};

// What every link has in common: TLS 1.3, no resumption, a peer that is always checked.
void set_up_links(ssl_ctx_st& context);

}  // namespace cheetah::cluster
