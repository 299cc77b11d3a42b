// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

// The path of a file that belongs to a model, for opening. `name` must be a plain file name; a symbolic link
// may lead only to a place inside the directory or, as in the Hugging Face cache, from snapshots/<revision>/
// to the blobs/ beside snapshots/. nullopt when there is no such file; Error when the rule is broken.
std::optional<std::string> find_model_file(const std::string& directory, std::string_view name);

// The whole text of such a file; nullopt when there is none. Error over 128 MiB.
std::optional<std::string> read_model_text(const std::string& directory, std::string_view name);

// Names of the files of the directory, sorted.
std::vector<std::string> list_files(const std::string& directory);

}  // namespace cheetah
