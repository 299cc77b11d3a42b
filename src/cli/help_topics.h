// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>
#include <vector>

namespace cheetah {

// What holds for several commands.
struct HelpTopic {
  const char* name;
  const char* title;
  const char* text;  // paragraphs; a line that begins with two spaces stays as it is
};

std::span<const HelpTopic> help_topics();
std::vector<std::string> topic_names();
std::string topic_page(const HelpTopic& topic, int columns);

}  // namespace cheetah
