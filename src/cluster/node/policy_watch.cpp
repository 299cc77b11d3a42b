// SPDX-License-Identifier: MIT
#include "cluster/node/policy_watch.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace cheetah::cluster {

PolicyWatch::PolicyWatch(std::string file, PolicyConfig first, std::function<void(const PolicyConfig&)> use)
    : file_(std::move(file)), first_(std::move(first)), use_(std::move(use)), stamp_(stamp()) {}

int64_t PolicyWatch::stamp() const {
  struct stat info = {};
  if (file_.empty() || stat(file_.c_str(), &info) != 0) return 0;
  return (info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec) ^ static_cast<int64_t>(info.st_ino);
}

std::optional<PolicyWatch::Outcome> PolicyWatch::look(Time now) {
  if (file_.empty() || has_document_ || now < next_) return std::nullopt;
  next_ = now + std::chrono::seconds(1);
  const int64_t seen = stamp();
  if (seen == 0 || seen == std::exchange(stamp_, seen)) return std::nullopt;
  return take(text_of_file(), file_);
}

std::string PolicyWatch::text_of_file() const {
  std::ifstream file(file_, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

PolicyWatch::Outcome PolicyWatch::take_document(const std::string& text, const std::string& source) {
  Outcome outcome = take(text, source);
  has_document_ = has_document_ || outcome.why_not.empty();
  return outcome;
}

PolicyWatch::Outcome PolicyWatch::document_gone() {
  has_document_ = false;
  stamp_ = stamp();
  if (stamp_ != 0) return take(text_of_file(), file_);
  use_(first_);
  return {"the start", ""};
}

PolicyWatch::Outcome PolicyWatch::take(const std::string& text, const std::string& source) {
  const Reload reload = reload_policy_config(text, source);
  if (!reload.config) return {source, reload.why_not};
  try {
    use_(*reload.config);
  } catch (const Error& error) {
    return {source, error.what()};
  }
  return {source, ""};
}

}  // namespace cheetah::cluster
