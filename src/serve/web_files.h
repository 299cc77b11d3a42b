// SPDX-License-Identifier: MIT
#pragma once
// The files of web/ as the build put them into the binary (cmake/Embed.cmake writes the definition).
#include <span>

#include "base/embedded_file.h"

namespace cheetah {

std::span<const EmbeddedFile> embedded_web_files();

}  // namespace cheetah
