// SPDX-License-Identifier: MIT
#pragma once
// The page a browser sees: web/, embedded in the binary. Its files need no API key (they hold no secrets; the
// page asks for the key and sends it with its own requests).
//
// The page lives on the public API: GET v1/models, POST v1/chat/completions and v1/completions (streamed),
// and GET v1/stats once per second. Of the latter it reads, at the top level and named as in EngineStats:
//   running waiting swapped max_sequences pages_total pages_free pages_cached steps prompt_tokens
//   generated_tokens prefix_queries prefix_hits preemptions finished_stop finished_length finished_deadline
//   finished_error last_step_ms last_batch_tokens
// and histograms.{ttft_s,tpot_s,itl_s} = {"bounds": [...], "counts": [...]}, counts one longer than bounds.
#include <optional>
#include <string_view>

namespace cheetah {

struct WebFile {
  std::string_view content;
  std::string_view content_type;
  std::string_view etag;  // quoted, changes with the content
};

// The file at a path of the server: "/" and "/index.html" are the page, "/page.js" and the like its parts.
// nullopt: no such file.
std::optional<WebFile> web_file(std::string_view path);

// The Content-Security-Policy to send with it: nothing from elsewhere, no inline scripts, no frames.
inline constexpr std::string_view kWebPageSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace cheetah
