// Sums and largest values. The order of a sum depends on shapes alone, and on whether addresses lie
// on 16 bytes, so results repeat.
#pragma once

#include "openclaw/devices/cuda/kernels/move.h"

namespace oc::cuda::kernels {

enum class ReduceOp : int32_t { kSum, kMean, kMax };

// y[o] = op over i of x[kept(o) + inner(i)], each output by one block, warp or thread. Where there
// are few outputs of many elements `parts` blocks make one; `partial` then has room for outputs *
// parts * 8 bytes. `out` is the type of y: `type`, or kF32 where that is a float's. `accumulate`
// adds to y.
cudaError_t Reduce(Type type, Type out, ReduceOp op, const void* x, const Walk& kept,
                   const Walk& inner, int parts, void* partial, bool accumulate, void* y,
                   cudaStream_t stream);
int ReduceParts(int64_t outputs, int64_t elements);

// Sums over the rows of [rows, columns]. `partial` has room for chunks * columns doubles.
int ColumnChunks(int64_t rows, int64_t columns, int units);
cudaError_t ColumnSums(Type type, Type out, const void* x, int64_t rows, int64_t columns,
                       int chunks, double* partial, double scale, bool accumulate, void* y,
                       cudaStream_t stream);

}  // namespace oc::cuda::kernels
