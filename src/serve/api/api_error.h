// SPDX-License-Identifier: MIT
#pragma once
// What a client is told when a request cannot be served: the error object of the API it speaks.
#include <optional>
#include <string>

namespace cheetah {

enum class ApiStyle { kOpenAi, kAnthropic, kOllama };

struct ApiError {
  int status = 400;                    // of HTTP
  std::string message;                 // one sentence: the field, what was expected, what to do
  std::optional<std::string> param{};  // the field at fault, e.g. messages[2].content
  std::optional<std::string> code{};   // e.g. context_length_exceeded
  std::optional<double> retry_after_s{};
};

// The "type" both APIs derive from the status, e.g. invalid_request_error, overloaded_error.
std::string error_type(int status, ApiStyle style);
// The whole JSON body.
std::string error_body(const ApiError& error, ApiStyle style);

}  // namespace cheetah
