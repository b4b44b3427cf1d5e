#include "driver/metal/capture.h"

namespace mpsx::driver::metal {

void start_capture(id<MTLDevice> device, const std::string& path) {
  AutoreleasePool pool;
  MTLCaptureManager* manager = [MTLCaptureManager sharedCaptureManager];
  if (manager.isCapturing) throw Error("a GPU capture is already running");
  if (![manager supportsDestination:MTLCaptureDestinationGPUTraceDocument])
    throw Error("GPU capture to a file is disabled: start the program with METAL_CAPTURE_ENABLED=1");
  const auto descriptor = Owned<MTLCaptureDescriptor*>::adopt([[MTLCaptureDescriptor alloc] init]);
  descriptor.get().captureObject = device;
  descriptor.get().destination = MTLCaptureDestinationGPUTraceDocument;
  descriptor.get().outputURL = [NSURL fileURLWithPath:to_ns(path)];
  NSError* error = nil;
  if (![manager startCaptureWithDescriptor:descriptor.get() error:&error])
    throw Error("cannot capture to " + path + ": " + describe(error));
}

void stop_capture() {
  AutoreleasePool pool;
  MTLCaptureManager* manager = [MTLCaptureManager sharedCaptureManager];
  if (manager.isCapturing) [manager stopCapture];
}

}  // namespace mpsx::driver::metal
