// y = x backwards, of n < blockDim.x elements: some threads of a warp wait at a barrier that the others never come to.
extern "C" __global__ void divergent(const float* x, float* y, int n) {
    __shared__ float kept[1024];
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) {
        kept[i] = x[i];
        __syncthreads();  // fault
        y[i] = kept[n - 1 - i];
    }
}
