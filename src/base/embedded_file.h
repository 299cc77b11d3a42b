// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

namespace cheetah {

// A file of the tree that the build put into the binary (cmake/Embed.cmake).
struct EmbeddedFile {
  std::string_view name;  // without a folder
  std::string_view content;
  std::string_view etag;  // quoted, of the content
};

}  // namespace cheetah
