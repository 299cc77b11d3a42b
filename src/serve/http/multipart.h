// SPDX-License-Identifier: MIT
#pragma once
// A body of multipart/form-data (RFC 7578): how forms and OpenAI's clients send files.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

struct FormPart {
  std::string name;
  std::string filename;      // "": a plain field
  std::string_view content;  // of the body
};

// nullopt: the type is another one, names no boundary, or the body does not keep to it. At most 64 parts.
std::optional<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace cheetah
