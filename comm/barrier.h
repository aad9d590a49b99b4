// Nobody leaves before everybody came.
#pragma once

#include "openclaw/comm/group.h"

namespace oc {

// Every member calls it. Errors: those of Group::Begin and Transport.
Status Barrier(Group& group);

}  // namespace oc
