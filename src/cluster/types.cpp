#include "cluster/types.h"
