#pragma once
// Results for a terminal.
#include "lab/result.h"

namespace cheetah::lab {

std::string human_time(double seconds);                    // "12.3 us"
std::string human_rate(const Cost& cost, double seconds);  // "1.23 TB/s", "45 TFLOP/s", "3.2 ns/hop"
std::string list_text(std::span<const Experiment* const> experiments);
std::string result_text(const ExperimentResult& result);

}  // namespace cheetah::lab
