#pragma once
#include <string>

namespace cheetah {
std::string version_text();
}
