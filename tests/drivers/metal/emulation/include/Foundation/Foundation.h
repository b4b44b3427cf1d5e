// The part of Apple's <Foundation/Foundation.h> that the Metal driver uses, with identical declarations.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __APPLE__
#include <objc/NSObject.h>
#else
#include <objc/objc.h>

typedef unsigned long NSUInteger;
typedef long NSInteger;
typedef struct _NSZone NSZone;

@protocol NSObject
- (Class)class;
- (instancetype)self;
- (instancetype)retain;
- (oneway void)release;
- (instancetype)autorelease;
- (NSUInteger)retainCount;
- (BOOL)isKindOfClass:(Class)aClass;
- (BOOL)respondsToSelector:(SEL)aSelector;
@end

__attribute__((objc_root_class))
@interface NSObject <NSObject> {
  Class isa;
}
+ (void)initialize;
+ (Class)class;
+ (instancetype)alloc;
+ (instancetype)new;
- (instancetype)init;
- (void)dealloc;
@end
#endif

typedef struct _NSRange {
  NSUInteger location, length;
} NSRange;
static inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return {location, length}; }

#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#ifndef NS_ENUM
#define NS_ENUM(type, name) \
  enum name : type name;    \
  enum name : type
#define NS_OPTIONS(type, name) \
  enum name : type name;       \
  enum name : type
#endif

// GNU's runtime fixes the layout of instance variables at compile time, so classes that the driver allocates must
// reserve space here.
#ifdef __APPLE__
#define MPSX_EMULATED_STATE
#else
#define MPSX_EMULATED_STATE \
  {                         \
   @public                  \
    void* _Nullable state;  \
  }
#endif

NS_ASSUME_NONNULL_BEGIN

@interface NSAutoreleasePool : NSObject MPSX_EMULATED_STATE
- (void)drain;
@end

@interface NSString : NSObject
+ (nullable instancetype)stringWithUTF8String:(const char*)nullTerminatedCString;
@property(readonly) NSUInteger length;
@property(nullable, readonly) const char* UTF8String;
@end

#ifndef __APPLE__
@interface NSConstantString : NSString {
 @public
  char* c_string;
  unsigned int len;
}
@end
#endif

@interface NSArray<__covariant ObjectType> : NSObject MPSX_EMULATED_STATE
@property(readonly) NSUInteger count;
- (ObjectType)objectAtIndex:(NSUInteger)index;
+ (instancetype)arrayWithObject:(ObjectType)anObject;
@end

@interface NSDictionary<__covariant KeyType, __covariant ObjectType> : NSObject MPSX_EMULATED_STATE
@property(readonly) NSUInteger count;
@property(readonly, copy) NSArray<ObjectType>* allValues;
@end

@interface NSURL : NSObject MPSX_EMULATED_STATE
+ (NSURL*)fileURLWithPath:(NSString*)path;
@property(nullable, readonly, copy) NSString* path;
@end

@interface NSError : NSObject MPSX_EMULATED_STATE
@property(readonly) NSInteger code;
@property(readonly, copy) NSString* localizedDescription;
@end

typedef struct {
  NSInteger majorVersion;
  NSInteger minorVersion;
  NSInteger patchVersion;
} NSOperatingSystemVersion;

@interface NSProcessInfo : NSObject
@property(class, readonly, strong) NSProcessInfo* processInfo;
@property(readonly) NSOperatingSystemVersion operatingSystemVersion;
@property(readonly, copy) NSString* operatingSystemVersionString;
@end

NS_ASSUME_NONNULL_END
