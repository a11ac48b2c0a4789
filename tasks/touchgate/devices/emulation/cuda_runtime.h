// The emulation's names are there before the .cu text begins; CUDA's own header must not be found.
#include "touchgate_emulation.h"
