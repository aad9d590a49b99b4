// The list of optimizers. To add one: a file pair like sgd.h, and its line here.
#pragma once

#include <variant>

#include "openclaw/optim/adafactor.h"
#include "openclaw/optim/adam.h"
#include "openclaw/optim/adamw.h"
#include "openclaw/optim/lamb.h"
#include "openclaw/optim/lion.h"
#include "openclaw/optim/muon.h"
#include "openclaw/optim/sgd.h"

namespace oc {

using Method = std::variant<Sgd, Adam, AdamW, Lamb, Adafactor, Lion, Muon>;

// "sgd", "adam", ...
std::vector<std::string> MethodNames();
// The method of that name as it is by default. kUnimplemented lists the names.
StatusOr<Method> DefaultMethod(const std::string& name);

}  // namespace oc
