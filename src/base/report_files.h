// SPDX-License-Identifier: MIT
#pragma once
// The stylesheet and the chart module of web/ that every report carries (cmake/Embed.cmake writes the definition).
#include <span>

#include "base/embedded_file.h"

namespace cheetah {

std::span<const EmbeddedFile> embedded_report_files();

}  // namespace cheetah
