// The part of Foundation that the driver uses: reference-counted objects, autorelease pools, strings, errors and
// collections. Freed objects become zombies. A message to a zombie ends the process.
#include "foundation.h"

#include <objc/message.h>
#include <objc/runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "control.h"
#include "validation.h"

namespace emulation {
namespace {

struct Header {
  std::atomic<long> count;
  const char* class_name;
};
constexpr size_t kHeader = 16;
static_assert(sizeof(Header) <= kHeader);

Header& header(id object) { return *reinterpret_cast<Header*>(reinterpret_cast<char*>(object) - kHeader); }

struct Census {
  std::mutex mutex;
  std::map<std::string, long> live;
};
Census& census() {
  static Census* c = new Census;
  return *c;
}
void count(const char* name, long change) {
  Census& c = census();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.live[name] += change;
}

using Pool = std::vector<id>;
std::vector<Pool*>& pools() {
  // Never destroyed, because exit handlers run after the thread's destructors.
  static thread_local auto* stack = new std::vector<Pool*>;
  return *stack;
}

}  // namespace
}  // namespace emulation

using emulation::header;

@interface EmulatedZombie : NSObject
@end

@implementation NSObject
+ (void)initialize {
}
+ (Class)class {
  return (Class)self;
}
+ (instancetype)alloc {
  const size_t size = class_getInstanceSize((Class)self);
  char* memory = static_cast<char*>(std::calloc(1, size + emulation::kHeader));
  const char* name = class_getName((Class)self);
  new (memory) emulation::Header{{1}, name};
  emulation::count(name, 1);
  id object = (id)(memory + emulation::kHeader);
  object_setClass(object, (Class)self);
  return object;
}
+ (instancetype) new {
  return [[self alloc] init];
}
- (instancetype)init {
  return self;
}
- (instancetype)self {
  return self;
}
- (Class)class {
  return object_getClass(self);
}
- (void)dealloc {
  emulation::count(header(self).class_name, -1);
  object_setClass(self, [EmulatedZombie class]);
}
- (instancetype)retain {
  header(self).count.fetch_add(1, std::memory_order_relaxed);
  return self;
}
- (oneway void)release {
  if (header(self).count.fetch_sub(1, std::memory_order_acq_rel) == 1) [self dealloc];
}
- (instancetype)autorelease {
  EMULATION_REQUIRE(!emulation::pools().empty(), "an object of %s is autoreleased and no pool is in place: it leaks",
                    header(self).class_name);
  emulation::pools().back()->push_back(self);
  return self;
}
- (NSUInteger)retainCount {
  return NSUInteger(header(self).count.load());
}
- (BOOL)isKindOfClass:(Class)wanted {
  for (Class c = object_getClass(self); c; c = class_getSuperclass(c))
    if (c == wanted) return YES;
  return NO;
}
- (BOOL)respondsToSelector:(SEL)selector {
  return class_respondsToSelector(object_getClass(self), selector);
}
@end

@implementation EmulatedZombie
- (instancetype)retain {
  emulation::invalid("a freed object of %s is retained", header(self).class_name);
}
- (oneway void)release {
  emulation::invalid("a freed object of %s is released", header(self).class_name);
}
- (instancetype)autorelease {
  emulation::invalid("a freed object of %s is autoreleased", header(self).class_name);
}
@end

namespace {
id zombie_method(id object, SEL selector, ...) {
  emulation::invalid("a freed object of %s is sent %s", header(object).class_name, sel_getName(selector));
}
id unknown_method(id object, SEL selector, ...) {
  emulation::invalid("an object of %s is sent %s, which it does not know", class_getName(object_getClass(object)),
                     sel_getName(selector));
}
// GNU's runtime calls this function when a class does not implement a method.
const bool forwards = [] {
  __objc_msg_forward2 = [](id object, SEL) {
    const bool zombie = object_getClass(object) == objc_getClass("EmulatedZombie");
    return zombie ? &zombie_method : &unknown_method;
  };
  return true;
}();
}  // namespace

@implementation NSAutoreleasePool
- (instancetype)init {
  auto* pool = new emulation::Pool;
  state = pool;
  emulation::pools().push_back(pool);
  return self;
}
- (void)drain {
  auto* pool = static_cast<emulation::Pool*>(state);
  EMULATION_REQUIRE(!emulation::pools().empty() && emulation::pools().back() == pool,
                    "an autorelease pool is drained out of order, or on another thread");
  emulation::pools().pop_back();
  for (id object : *pool) [object release];
  delete pool;
  [super release];
}
@end

extern "C" {
void* objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void*);
void* objc_autoreleasePoolPush(void) { return [NSAutoreleasePool new]; }
void objc_autoreleasePoolPop(void* pool) { [(NSAutoreleasePool*)pool drain]; }
}

@interface EmulatedString : NSString {
 @public
  std::string* text;
}
@end

@implementation NSString
+ (instancetype)stringWithUTF8String:(const char*)bytes {
  return (id)emulation::string(bytes);
}
- (NSUInteger)length {
  return 0;
}
- (const char*)UTF8String {
  return "";
}
@end

@implementation EmulatedString
- (NSUInteger)length {
  return text->size();
}
- (const char*)UTF8String {
  return text->c_str();
}
- (void)dealloc {
  delete text;
  [super dealloc];
}
@end

@implementation NSConstantString
- (instancetype)retain {
  return self;
}
- (oneway void)release {
}
- (instancetype)autorelease {
  return self;
}
- (NSUInteger)length {
  return len;
}
- (const char*)UTF8String {
  return c_string;
}
@end

@implementation NSArray
- (NSUInteger)count {
  return static_cast<std::vector<id>*>(state)->size();
}
+ (instancetype)arrayWithObject:(id)object {
  EMULATION_REQUIRE(object, "an array with nil in it");
  return (id)emulation::array({object});
}
- (id)objectAtIndex:(NSUInteger)index {
  auto& objects = *static_cast<std::vector<id>*>(state);
  EMULATION_REQUIRE(index < objects.size(), "index %lu is beyond an array of %zu", index, objects.size());
  return objects[index];
}
- (void)dealloc {
  auto* objects = static_cast<std::vector<id>*>(state);
  for (id object : *objects) [object release];
  delete objects;
  [super dealloc];
}
@end

@implementation NSDictionary
- (NSUInteger)count {
  return static_cast<std::map<std::string, id>*>(state)->size();
}
- (NSArray*)allValues {
  std::vector<id> values;
  for (auto& [key, object] : *static_cast<std::map<std::string, id>*>(state)) values.push_back(object);
  return emulation::array(values);
}
- (void)dealloc {
  auto* objects = static_cast<std::map<std::string, id>*>(state);
  for (auto& [key, object] : *objects) [object release];
  delete objects;
  [super dealloc];
}
@end

@implementation NSURL
+ (NSURL*)fileURLWithPath:(NSString*)path {
  NSURL* url = [NSURL alloc];
  url->state = [path retain];
  return [url autorelease];
}
- (NSString*)path {
  return (NSString*)state;
}
- (void)dealloc {
  [(id)state release];
  [super dealloc];
}
@end

namespace emulation {
namespace {
struct ErrorState {
  long code;
  NSString* text;
};
}  // namespace

NSString* string(const std::string& text) {
  EmulatedString* made = [EmulatedString alloc];
  made->text = new std::string(text);
  return [made autorelease];
}
std::string text(NSString* string) { return string ? string.UTF8String : ""; }
NSError* error(long code, const std::string& text) {
  NSError* made = [NSError alloc];
  made->state = new ErrorState{code, [string(text) retain]};
  return [made autorelease];
}
NSArray* array(const std::vector<id>& objects) {
  NSArray* made = [NSArray alloc];
  for (id object : objects) [object retain];
  made->state = new std::vector<id>(objects);
  return [made autorelease];
}
NSDictionary* dictionary(const std::map<std::string, id>& objects) {
  NSDictionary* made = [NSDictionary alloc];
  for (auto& [key, object] : objects) [object retain];
  made->state = new std::map<std::string, id>(objects);
  return [made autorelease];
}
}  // namespace emulation

@implementation NSError
- (NSInteger)code {
  return static_cast<emulation::ErrorState*>(state)->code;
}
- (NSString*)localizedDescription {
  return static_cast<emulation::ErrorState*>(state)->text;
}
- (void)dealloc {
  auto* own = static_cast<emulation::ErrorState*>(state);
  [own->text release];
  delete own;
  [super dealloc];
}
@end

@implementation NSProcessInfo
+ (NSProcessInfo*)processInfo {
  return [[NSProcessInfo new] autorelease];
}
- (NSOperatingSystemVersion)operatingSystemVersion {
  if (emulation::fails("old_macos")) return {13, 6, 1};
  if (emulation::fails("macos_15")) return {15, 2, 0};
  if (emulation::fails("macos_26")) return {26, 0, 0};
  if (emulation::fails("m5")) return {26, 2, 0};
  return {14, 0, 0};
}
- (NSString*)operatingSystemVersionString {
  return @"Version 14.0 (emulated)";
}
@end

extern "C" {

long mpsx_emulation_live(const char* class_name) {
  auto& c = emulation::census();
  std::lock_guard<std::mutex> lock(c.mutex);
  if (class_name) return c.live[class_name];
  long all = 0;
  for (auto& [name, live] : c.live) all += live;
  return all;
}

void mpsx_emulation_print_live(void) {
  auto& c = emulation::census();
  std::lock_guard<std::mutex> lock(c.mutex);
  for (auto& [name, live] : c.live)
    if (live) std::fprintf(stderr, "emulated Metal: %ld live objects of %s\n", live, name.c_str());
}
}
