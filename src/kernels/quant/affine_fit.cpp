// SPDX-License-Identifier: MIT
#include "kernels/quant/affine_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cheetah {
namespace {

using Weights = std::array<float, 32>;

// Large values matter more to the layer's output than their share of the squared error says.
Weights weights_of(const SubBlock& block) {
  float squares = 0;
  for (int i = 0; i < block.count; ++i) squares += block.x[i] * block.x[i];
  const float mean = squares / static_cast<float>(block.count);
  Weights weights{};
  for (int i = 0; i < block.count; ++i) {
    const float x = block.x[i];
    weights[static_cast<size_t>(i)] =
        block.importance ? block.importance[i] * std::sqrt(mean + x * x) : std::sqrt(mean) + std::fabs(x);
  }
  return weights;
}

// Weighted least squares for (scale, offset) once the levels are chosen with `guess`.
Affine refit(const SubBlock& block, const Weights& weights, const Affine& guess, int levels) {
  double w = 0, wq = 0, wqq = 0, wx = 0, wqx = 0;
  for (int i = 0; i < block.count; ++i) {
    const double weight = weights[static_cast<size_t>(i)], q = level_of(block.x[i], guess, levels);
    const double x = block.x[i];
    w += weight, wq += weight * q, wqq += weight * q * q, wx += weight * x, wqx += weight * q * x;
  }
  const double determinant = w * wqq - wq * wq;
  if (determinant <= 0) return guess;
  const double scale = (w * wqx - wq * wx) / determinant, offset = (wq * wqx - wqq * wx) / determinant;
  if (offset >= 0) return {static_cast<float>(scale), static_cast<float>(offset)};
  return {wqq > 0 ? static_cast<float>(wqx / wqq) : 0.f, 0.f};  // the format has no positive minimum
}

double weighted_error(const SubBlock& block, const Weights& weights, const Affine& fit, int levels) {
  double error = 0;
  for (int i = 0; i < block.count; ++i) {
    const double miss =
        fit.scale * static_cast<float>(level_of(block.x[i], fit, levels)) - fit.offset - block.x[i];
    error += weights[static_cast<size_t>(i)] * miss * miss;
  }
  return error;
}

}  // namespace

int level_of(float value, const Affine& fit, int levels) {
  if (fit.scale <= 0) return 0;
  return std::clamp(static_cast<int>(std::lround((value + fit.offset) / fit.scale)), 0, levels);
}

Affine fit_affine(const SubBlock& block, int levels) {
  const auto [least, most] = std::minmax_element(block.x, block.x + block.count);
  const float low = std::min(0.f, *least), span = *most - low;
  if (span <= 0) return {0.f, -low};
  const Weights weights = weights_of(block);
  Affine best{span / static_cast<float>(levels), -low};
  double best_error = weighted_error(block, weights, best, levels);
  for (int step = -10; step <= 10; ++step) {
    const Affine guess{span / (static_cast<float>(levels) + 0.1f * static_cast<float>(step)), -low};
    const Affine fit = refit(block, weights, guess, levels);
    const double error = weighted_error(block, weights, fit, levels);
    if (fit.scale <= 0 || error >= best_error) continue;
    best = fit;
    best_error = error;
  }
  return best;
}

float fit_symmetric(const SubBlock& block, int most) {
  float extreme = 0;
  for (int i = 0; i < block.count; ++i)
    if (std::fabs(block.x[i]) > std::fabs(extreme)) extreme = block.x[i];
  if (extreme == 0) return 0;
  const Weights weights = weights_of(block);
  float best = 0;
  double best_gain = -1;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = -(static_cast<float>(most + 1) + 0.1f * static_cast<float>(step)) / extreme;
    double qx = 0, qq = 0;
    for (int i = 0; i < block.count; ++i) {
      const double q = std::clamp(static_cast<int>(std::lround(block.x[i] * inverse)), -most - 1, most);
      const double weight = weights[static_cast<size_t>(i)];
      qx += weight * q * block.x[i], qq += weight * q * q;
    }
    if (qq <= 0 || qx * qx <= best_gain * qq) continue;  // the squared error falls by qx^2 / qq
    best_gain = qx * qx / qq;
    best = static_cast<float>(qx / qq);
  }
  return best;
}

}  // namespace cheetah
