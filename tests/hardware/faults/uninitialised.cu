// y[i] = x[i] for 0 <= i < n, had anybody set sums to zero.
extern "C" __global__ void uninitialised(const float* x, float* y, const float* sums, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        y[i] = x[i] + sums[i];  // fault
    }
}
