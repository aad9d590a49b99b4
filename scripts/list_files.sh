#!/usr/bin/env bash
# Prints the project's files, one a line, relative to its root: those that git tracks, or without
# git all but build folders and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  # A tracked file may have been deleted and not committed yet.
  git ls-files | while IFS= read -r file; do
    if [[ -f $file ]]; then echo "$file"; fi
  done
else
  find . -path './build*' -prune -o -path './runs' -prune -o -path './.*' -prune -o -type f -print |
    sed 's|^\./||' | sort
fi
