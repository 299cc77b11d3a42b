// SPDX-License-Identifier: MIT
#pragma once
// Models in Hugging Face's download cache: models--ORG--NAME/{blobs,refs,snapshots/REVISION}.
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

// ORG/NAME[/FILE][:QUANT][@REVISION], also behind https://huggingface.co/ or hf.co/.
struct HubReference {
  std::string repository;         // ORG/NAME, or NAME alone
  std::string file = {};          // inside the repository, "": the whole model
  std::string quant = {};         // of the GGUF file wanted, e.g. Q8_0
  std::string revision = "main";  // a branch, a tag or a commit
};

// nullopt: the text cannot be one.
std::optional<HubReference> parse_hub_reference(std::string_view text);

// The path of what the reference means in the cache at `hub_directory` ($HF_HOME/hub). Throws Error that says what
// is missing and how to get it.
std::string find_in_hub_cache(const HubReference& reference, const std::string& hub_directory);

// ORG/NAME of a path inside such a cache; "" for any other path.
std::string hub_name_of(const std::string& path);

// A model reference from the command line: a path that exists, or a HubReference of the cache at `hub_directory`
// (empty: do not look). Returns the path to open; throws Error when there is none.
std::string resolve_model_reference(const std::string& reference, const std::string& hub_directory);

}  // namespace cheetah
