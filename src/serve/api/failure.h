// SPDX-License-Identifier: MIT
#pragma once
// How the parsers of this folder refuse a request: thrown where the fault is found, caught where the call
// began.
#include <exception>
#include <string>
#include <utility>

#include "serve/api/api_error.h"

namespace cheetah {

class ApiFailure : public std::exception {
 public:
  explicit ApiFailure(ApiError error) : error_(std::move(error)) {}
  const ApiError& error() const { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  ApiError error_;
};

// `param` may be empty: no single field is at fault.
[[noreturn]] void refuse(std::string code, std::string param, std::string message, int status = 400);

}  // namespace cheetah
