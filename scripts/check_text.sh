#!/usr/bin/env bash
# Checks the text of all files: no path of one person's machine, no note of unfinished work. Names
# the C++ sources over 800 lines and headers over 400, which want splitting, without failing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0

# Written so that the patterns do not match themselves.
report() {  # what, pattern
  local hits
  hits=$(scripts/list_files.sh | grep -vE '^(LICENSE|tests/.*/testdata/)' |
    tr '\n' '\0' | xargs -0 -r grep -nHIE "$2" || true)
  if [[ -n $hits ]]; then
    echo "$hits" | sed "s/^/$1: /"
    failed=1
  fi
}
report 'path of one machine' '(^|[^A-Za-z0-9_.$}{/-])/(work|root|home)/'
report 'unfinished work' '\b(TO[D]O|FIX[M]E|XX[X])\b'

while IFS= read -r file; do
  lines=$(wc -l <"$file")
  limit=800
  [[ $file == *.h ]] && limit=400
  if [[ $lines -gt $limit ]]; then echo "note: $file:$lines: over $limit lines, wants splitting"; fi
done < <(scripts/list_files.sh | grep -E '\.(h|cc)$' || true)
exit $failed
