// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <string>

#include "net/tls_context.h"
#include "net/url.h"

namespace cheetah {

// The body of a GET, within limits of time and size. Throws Error, also for a status that is not 200.
std::string http_get(const Url& url, std::chrono::milliseconds limit = std::chrono::seconds(5),
    size_t max_bytes = size_t{32} << 20, const ClientTls& tls = {});

}  // namespace cheetah
