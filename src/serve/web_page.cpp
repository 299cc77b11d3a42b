// SPDX-License-Identifier: MIT
#include "serve/web_page.h"

#include "base/error.h"
#include "serve/web_files.h"

namespace cheetah {
namespace {

std::string_view content_type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  if (name.ends_with(".json")) return "application/json";
  CHEETAH_ASSERT(false, "an embedded file has a kind browsers are not told of");
}

}  // namespace

std::optional<WebFile> web_file(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  for (const EmbeddedFile& file : embedded_web_files())
    if (file.name == name) return WebFile{file.content, content_type_of(name), file.etag};
  return std::nullopt;
}

}  // namespace cheetah
