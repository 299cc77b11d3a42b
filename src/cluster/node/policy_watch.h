#pragma once
// Policies that change while serving: the file is read again when it changes, a document in the registry
// takes its place. What cannot be used is reported and changes nothing. Belongs to the node's thread.
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
  PolicyWatch(std::string file, std::function<void(const PolicyConfig&)> use);

  // Looks at the file now and then; nullopt: nothing new.
  std::optional<Outcome> look(Time now);
  Outcome take(const std::string& text, const std::string& source);

 private:
  int64_t stamp() const;  // changes with the file

  std::string file_;
  std::function<void(const PolicyConfig&)> use_;
  int64_t stamp_ = 0;
  Time next_{};
};

}  // namespace cheetah::cluster
