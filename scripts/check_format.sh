#!/usr/bin/env bash
# Checks that every C++ file is formatted by .clang-format and names those that are not; --fix formats
# them instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v clang-format >/dev/null; then
  echo "check_format.sh: skipped, no clang-format here (scripts/install_deps.sh installs it)"
  exit 77
fi
files=$(scripts/list_files.sh | grep -E '\.(h|cc)$' || true)
if [[ ${1:-} == --fix ]]; then
  echo "$files" | xargs -r -P 2 -n 20 clang-format -i
  exit 0
fi
complaints=$(echo "$files" | xargs -r -n 20 clang-format --dry-run -Werror 2>&1 || true)
if [[ -n $complaints ]]; then
  # The first place of each file is enough.
  echo "$complaints" | grep -E '^[^ ]+:[0-9]+:[0-9]+: ' | awk -F: '!seen[$1]++' || echo "$complaints"
  echo "check_format.sh: scripts/check_format.sh --fix formats them"
  exit 1
fi
