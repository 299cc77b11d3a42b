#pragma once
#include <chrono>
#include <string>

namespace cheetah::doctor {

// The body of http://HOST[:PORT]/PATH (no path means /metrics), within limits of time and size. Throws Error.
std::string http_get(const std::string& url, std::chrono::milliseconds limit = std::chrono::seconds(5),
                     size_t max_bytes = size_t{32} << 20);

}  // namespace cheetah::doctor
