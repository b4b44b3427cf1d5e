#include "driver/cuda/event.h"

namespace mpsx::driver::cuda {

CudaEvent::CudaEvent(const Device& device) : device_(device) {
  device_.bind();
  device_.api.check(device_.api.cuEventCreate(&event_, CU_EVENT_DEFAULT), "cuEventCreate");
}
CudaEvent::~CudaEvent() { device_.api.cuEventDestroy(event_); }

void CudaEvent::record(CUstream stream) {
  device_.bind();
  device_.api.check(device_.api.cuEventRecord(event_, stream), "cuEventRecord");
  recorded_ = true;
}

bool CudaEvent::query() const {
  if (!recorded_) return true;
  device_.bind();
  const CUresult result = device_.api.cuEventQuery(event_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  device_.api.check(result, "cuEventQuery");
  return true;
}

void CudaEvent::synchronize() const {
  if (!recorded_) return;
  device_.bind();
  device_.api.check(device_.api.cuEventSynchronize(event_), "cuEventSynchronize");
}

double CudaEvent::elapsed_ms(const CudaEvent& from, const CudaEvent& to) {
  if (!from.recorded_ || !to.recorded_) throw Error("elapsed_time: expected both events to be recorded");
  if (!from.query() || !to.query())
    throw Error("elapsed_time: expected both events to be complete; synchronize them first");
  float ms = 0;
  from.device_.api.check(from.device_.api.cuEventElapsedTime(&ms, from.event_, to.event_), "cuEventElapsedTime");
  return ms;
}

}  // namespace mpsx::driver::cuda
