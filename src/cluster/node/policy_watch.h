// SPDX-License-Identifier: MIT
#pragma once
// Policies that change while serving. A document in the registry wins over the file, which is read again when
// it changes, as long as the document is there; when it is deleted, the file counts again, and without a file
// the policies the node was started with. What cannot be used is reported and changes nothing. Belongs to the
// node's thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cluster/policy/policy_config.h"
#include "cluster/types.h"

namespace cheetah::cluster {

class PolicyWatch {
 public:
  struct Outcome {
    std::string source;
    std::string why_not;  // "": taken
  };
  // `first`: what the node was started with.
  PolicyWatch(std::string file, PolicyConfig first, std::function<void(const PolicyConfig&)> use);

  // Looks at the file now and then; nullopt: nothing new.
  std::optional<Outcome> look(Time now);
  Outcome take_document(const std::string& text, const std::string& source);
  Outcome document_gone();

 private:
  int64_t stamp() const;  // changes with the file
  std::string text_of_file() const;
  Outcome take(const std::string& text, const std::string& source);

  std::string file_;
  PolicyConfig first_;
  std::function<void(const PolicyConfig&)> use_;
  bool has_document_ = false;
  int64_t stamp_ = 0;
  Time next_{};
};

}  // namespace cheetah::cluster
