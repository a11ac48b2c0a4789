// y = x backwards, of n <= blockDim.x elements: what another warp has kept is read without waiting for it.
extern "C" __global__ void race(const float* x, float* y, int n) {
    __shared__ float kept[1024];
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) {
        kept[i] = x[i];
    }
    if (i < n) {
        y[i] = kept[n - 1 - i];  // fault
    }
}
