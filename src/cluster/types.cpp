// SPDX-License-Identifier: MIT
#include "cluster/types.h"
