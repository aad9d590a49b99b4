#!/usr/bin/env bash
# Makes a folder that runs on another x86-64 Linux (glibc 2.36 or later): the installed tree, the
# libraries that it needs beside it, and the suites and benchmarks of GPUs that are built. CUDA's own
# libraries and MPI's stay out: they belong to the machine.
#   scripts/bundle.sh FOLDER [BUILD]     BUILD: build/ where none is given
# There: FOLDER/gpu_test.sh, FOLDER/bin/ocl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -lt 1 || $1 == -* ]]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 2
fi
folder=$1
build=${2:-build}
cmake --install "$build" --prefix "$folder" --strip >/dev/null
lib=$folder/lib
# An install elsewhere keeps Debian's lib/x86_64-linux-gnu; modules are found in lib/ alone.
if [[ ! -d $lib ]]; then
  echo "bundle.sh: $folder has no lib/ (CMAKE_INSTALL_LIBDIR is another)"
  exit 1
fi
rm -rf "$folder/include" "$lib/cmake" "$lib/pkgconfig"
cp scripts/gpu_test.sh "$folder/"
for program in devices_conformance_cuda_test ops_conformance_cuda_test runtime_replay_test cuda_ops \
  train_step; do
  if [[ -f $build/bin/$program ]]; then
    install -s "$build/bin/$program" "$folder/bin/"
  else
    echo "bundle.sh: $program is not built, left out"
  fi
done

# What the loader finds for them here, but for what every machine has and what is the machine's own.
own='lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)|ld-linux.*'
mpi='libmpi.*|libopen-.*|libevent.*|libpmix.*|libucp.*|libucs.*|libuct.*|libucm.*'
cuda='libcuda.*|libcublas.*|libcudnn.*|libnccl.*|libnvrtc.*|libnvJitLink.*'
find "$folder/bin" "$lib" -type f \( -perm -u+x -o -name '*.so*' \) -print0 |
  LD_LIBRARY_PATH=$lib xargs -0 -n 1 ldd 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
  sort -u | while read -r file; do
  name=$(basename "$file")
  if [[ $name =~ ^($own|$mpi|$cuda)\.so || $file == "$(realpath "$lib")"/* || -e $lib/$name ]]; then
    continue
  fi
  cp -L "$file" "$lib/$name"
  strip --strip-unneeded "$lib/$name" 2>/dev/null || true
done
du -sh "$folder"
