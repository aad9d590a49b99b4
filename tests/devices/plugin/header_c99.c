/* The interface is C99 alone, and its layout is fixed: what an older build reads stays where it was. */
#include "openclaw/devices/openclaw_device.h"

#define FIXED(name, condition) typedef char name[(condition) ? 1 : -1]
FIXED(range_is_frozen, sizeof(oc_range) == 24);
FIXED(error_begins, sizeof(oc_error) >= 1032 && offsetof(oc_error, message) == 12);
FIXED(tensor_begins, sizeof(oc_tensor_type) >= 40 && offsetof(oc_tensor_type, bytes) == 32);
FIXED(operand_begins, sizeof(oc_operand) >= 32 && offsetof(oc_operand, updates) == 24);
FIXED(attr_begins, sizeof(oc_attr) >= 56 && offsetof(oc_attr, ints) == 48);
FIXED(request_begins, sizeof(oc_op_request) >= 64 && offsetof(oc_op_request, attrs) == 56);
FIXED(device_info_begins, sizeof(oc_device_info) >= 48);
FIXED(slice_options_begins, sizeof(oc_slice_options) >= 40);
FIXED(slice_info_begins, sizeof(oc_slice_info) >= 32);
FIXED(support_begins, sizeof(oc_op_support) >= 264 && offsetof(oc_op_support, reason) == 24);
FIXED(op_info_begins, sizeof(oc_op_info) >= 56);
FIXED(host_begins, sizeof(oc_host_api) >= 24);
FIXED(api_begins, offsetof(oc_device_api, leaf) == 24 && offsetof(oc_device_api, count) == 40 &&
                      offsetof(oc_device_api, event_wait) == 240 && sizeof(oc_device_api) >= 280);

int openclaw_header_is_c99(void) { return 0; }
