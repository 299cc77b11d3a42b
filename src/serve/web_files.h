// SPDX-License-Identifier: MIT
#pragma once
// The files of web/ as the build put them into the binary (cmake/Embed.cmake writes the definition).
#include <span>
#include <string_view>

namespace cheetah {

struct EmbeddedFile {
  std::string_view name;  // without a folder
  std::string_view content;
  std::string_view etag;  // quoted, of the content
};

std::span<const EmbeddedFile> embedded_web_files();

}  // namespace cheetah
