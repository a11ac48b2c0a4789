// y[i] = 2 x[i] for 0 <= i < n, and one element too many.
extern "C" __global__ void out_of_bounds(const float* x, float* y, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i <= n) {
        const float value = i < n ? x[i] : 0.0f;
        y[i] = 2.0f * value;  // fault
    }
}
