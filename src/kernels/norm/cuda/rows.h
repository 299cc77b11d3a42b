// SPDX-License-Identifier: MIT
#pragma once
// Rows kept in registers: read once, written once.
#include "kernels/norm/norm_cuda.h"

namespace cheetah::gpu {

// Whether rows are short enough for the registers of a block and lie so that 16 bytes can be read at a time.
template <class T>
bool norm_rows_fits(const NormArgs<T>& args);
template <class T>
void norm_rows(const NormArgs<T>& args, bool centered, Stream& stream);

template <class T>
bool add_and_norm_rows_fits(const AddAndNormArgs<T>& args);
template <class T>
void add_and_norm_rows(const AddAndNormArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
