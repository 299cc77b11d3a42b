// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "net/url.h"
#include "observe/trace_exporter.h"

namespace cheetah {

// "http://host:4318[/path]"; without a path it is /v1/traces. Throws UsageError naming what is wrong.
Url parse_otlp_endpoint(const std::string& text);

// Posts to an OpenTelemetry collector over one connection.
TraceSender otlp_sender(const Url& endpoint);

}  // namespace cheetah
