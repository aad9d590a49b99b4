#!/usr/bin/env bash
# Checks who includes whom:
#  - a folder includes only itself and the folders below it;
#  - devices/<x>/ and comm/<x>/ (the leaves) are included by the same leaf and by tests only;
#    runtime/builtin_leaves.cc registers those that were built, others stand in
#    scripts/layer_exceptions.txt;
#  - every own include reads "openclaw/<folder>/x.h", but for helpers beside a test;
#  - headers of large libraries stay in .cc files, and a vendor's headers in that vendor's leaf;
#  - examples use what is installed: no leaf, no launcher.
# Prints file:line for each violation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exceptions=$PWD/scripts/layer_exceptions.txt

# --root DIR checks another tree: the test of this script does that.
if [[ ${1:-} == --root ]]; then
  cd "$2"
  files=$(find . -type f | sed 's|^\./||' | sort)
else
  files=$(scripts/list_files.sh)
fi
echo "$files" | { grep -E '\.(h|cc)$' || true; } |
  awk -v exceptions="$exceptions" '
    function glob(text, pattern,   re) {
      re = pattern
      gsub(/[.+?^${}()|\[\]\\]/, "\\\\&", re)
      gsub(/\*/, ".*", re)
      return text ~ ("^" re "$")
    }
    function excepted(file, name,   i) {
      for (i = 1; i <= count; i++) if (glob(file, from[i]) && glob(name, to[i])) return 1
      return 0
    }
    function leaf(path,   part) {  # "devices/cpu" of a file in a leaf, else ""
      split(path, part, "/")
      if (part[2] == "host") return ""  # what devices in host memory share; no device itself
      if ((part[1] == "devices" || part[1] == "comm") && part[3] != "")
        return part[1] "/" part[2]
      return ""
    }
    function fail(why) {
      if (excepted(file, name)) return
      print file ":" line ": " why
      failed = 1
    }
    BEGIN {
      below["core"] = " core "
      below["graph"] = " core graph "
      below["optim"] = " core graph optim "
      below["partitioner"] = " core graph optim partitioner "
      below["devices"] = " core graph devices "
      below["comm"] = " core devices comm "
      below["runtime"] = " core graph optim partitioner devices comm runtime "
      below["launcher"] = below["runtime"] "launcher "
      below["tests"] = below["benchmarks"] = below["launcher"]
      below["examples"] = below["runtime"]
      heavy = "^(nlohmann/|yaml-cpp/|spdlog/|CLI/|boost/|asio|dnnl|oneapi/|mpi\\.h|hwloc|google/protobuf|cuda|cudnn|nccl|CL/|clblast)"
      vendor["^(dnnl|oneapi/)"] = "devices/cpu"
      vendor["^mpi\\.h"] = "comm/mpi"
      vendor["^(cuda|cudnn|cublas)"] = "devices/cuda"
      vendor["^nccl"] = "comm/nccl"
      vendor["^(CL/|clblast)"] = "devices/opencl"
      while ((getline text < exceptions) > 0) {
        sub(/#.*/, "", text)
        if (split(text, word, " ") >= 2) { count++; from[count] = word[1]; to[count] = word[2] }
      }
    }
    {
      file = $0
      split(file, part, "/")
      folder = part[1]
      line = 0
      while ((getline text < file) > 0) {
        line++
        if (text !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
        quoted = text ~ /^[ \t]*#[ \t]*include[ \t]*"/
        name = text
        sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", name)
        sub(/[">].*/, "", name)
        if (name ~ /^openclaw\//) {
          target = name
          sub(/^openclaw\//, "", target)
          split(target, part, "/")
          if (target == "openclaw.h") {
            if (folder != "examples" && folder != "tests" && folder != "benchmarks")
              fail("includes the umbrella header, which is for users")
            continue
          }
          if (folder in below && index(below[folder], " " part[1] " ") == 0)
            fail(folder "/ may not include " part[1] "/ (" name ")")
          other = leaf(target)
          if (other != "" && other != leaf(file) && folder != "tests" &&
              file != "runtime/builtin_leaves.cc")
            fail("includes the leaf " other "/ (" name ")")
        } else if (quoted && name !~ /\.pb\.h$/ && folder != "tests" && folder != "benchmarks") {
          fail("include \"" name "\" should read openclaw/<folder>/x.h")
        }
        at_home = 0  # in the leaf of the vendor whose header it is
        for (v in vendor) {
          if (name !~ v) continue
          if (leaf(file) == vendor[v]) at_home = 1
          else if (folder != "tests" && folder != "benchmarks")
            fail("<" name "> belongs to the leaf " vendor[v] "/")
        }
        if (file ~ /\.h$/ && name ~ heavy && !at_home)
          fail("<" name "> is a large library header: include it in a .cc file")
      }
      close(file)
    }
    END { exit failed }'
