// y = x backwards, of 64 < n <= blockDim.x elements, with barriers in divergent code: warps that wait at two barriers where
// one is due, which most GPUs let pass; then threads that wait for others of their warp, which never come.
extern "C" __global__ void divergent(const float* x, float* y, int n) {
    __shared__ float kept[1024];
    const int i = static_cast<int>(threadIdx.x);
    float value = 0.0f;
    if (i < 64) {
        kept[i] = x[i];
        __syncthreads();  // fault
        value = kept[n - 1 - i];
    } else {
        kept[i] = i < n ? x[i] : 0.0f;
        __syncthreads();  // fault
        value = i < n ? kept[n - 1 - i] : 1.0f;
    }
    if (i % 2 == 0) {
        __syncthreads();  // fault
        value += kept[i ^ 2];
    }
    if (i < n) {
        y[i] = value;
    }
}
