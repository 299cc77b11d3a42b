// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah::hub {

// The name of a file's content on the hub: SHA-256 of large files, the SHA-1 of a git blob of others.
class Digest {
 public:
  // `etag`: 64 or 40 hexadecimal digits; `bytes`: of the whole file.
  Digest(const std::string& etag, int64_t bytes);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void restart();
  void add(std::string_view bytes);
  std::string finish();  // lower-case hexadecimal

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_etag(std::string_view text);

}  // namespace cheetah::hub
