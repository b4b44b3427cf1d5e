// MTLCaptureManager and os_signpost.
#include <os/signpost.h>

#include <cstring>

#include "objects.h"

namespace {

struct CaptureState {
  id object = nil;
  MTLCaptureDestination destination = MTLCaptureDestinationDeveloperTools;
  NSURL* url = nil;
};
std::atomic<bool> capturing{false};
std::atomic<os_signpost_id_t> last_id{0};

CaptureState& state_of(void* state) { return *static_cast<CaptureState*>(state); }

}  // namespace

@implementation MTLCaptureDescriptor
- (instancetype)init {
  state = new CaptureState;
  return self;
}
- (id)captureObject {
  return state_of(state).object;
}
- (void)setCaptureObject:(id)object {
  [object retain];
  [state_of(state).object release];
  state_of(state).object = object;
}
- (MTLCaptureDestination)destination {
  return state_of(state).destination;
}
- (void)setDestination:(MTLCaptureDestination)destination {
  state_of(state).destination = destination;
}
- (NSURL*)outputURL {
  return state_of(state).url;
}
- (void)setOutputURL:(NSURL*)url {
  [url retain];
  [state_of(state).url release];
  state_of(state).url = url;
}
- (void)dealloc {
  [state_of(state).object release];
  [state_of(state).url release];
  delete &state_of(state);
  [super dealloc];
}
@end

@implementation MTLCaptureManager
+ (MTLCaptureManager*)sharedCaptureManager {
  return [[MTLCaptureManager new] autorelease];
}
- (BOOL)supportsDestination:(MTLCaptureDestination)destination {
  return destination == MTLCaptureDestinationGPUTraceDocument && !emulation::fails("no_capture");
}
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor*)descriptor error:(NSError**)error {
  EMULATION_REQUIRE([descriptor.captureObject isKindOfClass:[EmulatedDevice class]], "a capture of no device");
  EMULATION_REQUIRE(descriptor.destination == MTLCaptureDestinationGPUTraceDocument && descriptor.outputURL,
                    "a capture to no file");
  EMULATION_REQUIRE(!capturing, "a capture while another one runs");
  if (emulation::fails("capture")) {
    if (error) *error = emulation::error(1, "injected");
    return NO;
  }
  capturing = true;
  return YES;
}
- (void)stopCapture {
  EMULATION_REQUIRE(capturing, "stopCapture without a capture");
  capturing = false;
  ++emulation::counts().captures;
}
- (BOOL)isCapturing {
  return capturing;
}
@end

extern "C" {

os_log_t os_log_create(const char* subsystem, const char* category) {
  EMULATION_REQUIRE(subsystem && category, "a log without a name");
  static char object;
  return reinterpret_cast<os_log_t>(&object);
}
os_signpost_id_t os_signpost_id_generate(os_log_t) { return ++last_id; }
bool os_signpost_enabled(os_log_t) { return true; }
void _os_signpost_emit_with_name_impl(void*, os_log_t log, os_signpost_type_t type, os_signpost_id_t id,
                                      const char* name, const char* format, uint8_t*, uint32_t) {
  EMULATION_REQUIRE(log && id && id <= last_id && name && format, "a signpost without a log, a number or a name");
  ++(type == OS_SIGNPOST_INTERVAL_BEGIN ? emulation::counts().intervals_begun : emulation::counts().intervals_ended);
}
}
