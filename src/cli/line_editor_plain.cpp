// SPDX-License-Identifier: MIT
// Where libedit was not there when the program was built.
#include "cli/line_editor.h"
#include "cli/line_reader.h"
#include "cli/output.h"

namespace cheetah {

struct LineEditor::State {
  LineReader lines;
};

LineEditor::LineEditor(std::string, std::vector<std::string>) : state_(std::make_unique<State>()) {}
LineEditor::~LineEditor() = default;

LineEditor::Event LineEditor::read(const std::string& prompt, std::string& message) {
  for (const char c : prompt)
    if (c != '\1') print(std::string(1, c));
  flush_output();
  return state_->lines.next(message) ? Event::kMessage : Event::kEnd;
}

}  // namespace cheetah
