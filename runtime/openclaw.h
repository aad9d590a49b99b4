// Everything that a program needs: #include <openclaw/openclaw.h>
#pragma once

#include "openclaw/core/clock.h"
#include "openclaw/core/cluster.h"
#include "openclaw/core/config.h"
#include "openclaw/core/cost_table.h"
#include "openclaw/core/dtype.h"
#include "openclaw/core/logging.h"
#include "openclaw/core/rng.h"
#include "openclaw/core/shape.h"
#include "openclaw/core/status.h"
#include "openclaw/core/tensor.h"
#include "openclaw/core/trace.h"
