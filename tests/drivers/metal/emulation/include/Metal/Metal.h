// The part of Apple's <Metal/Metal.h> that the Metal driver uses, with identical declarations.
#pragma once

#include <Foundation/Foundation.h>
#ifdef __APPLE__
#include <dispatch/dispatch.h>
#endif

NS_ASSUME_NONNULL_BEGIN

typedef double CFTimeInterval;

typedef struct {
  NSUInteger width, height, depth;
} MTLSize;
static inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  MTLSize size = {width, height, depth};
  return size;
}

typedef NS_OPTIONS(NSUInteger, MTLResourceOptions) {
  MTLResourceStorageModeShared = 0,
  MTLResourceHazardTrackingModeDefault = 0,
  MTLResourceHazardTrackingModeUntracked = 0x1 << 8,
};
typedef NS_OPTIONS(NSUInteger, MTLBarrierScope) { MTLBarrierScopeBuffers = 1 << 0 };
typedef NS_ENUM(NSUInteger, MTLStorageMode) {
  MTLStorageModeShared = 0,
};
typedef NS_ENUM(NSUInteger, MTLCommandBufferStatus) {
  MTLCommandBufferStatusNotEnqueued = 0,
  MTLCommandBufferStatusEnqueued = 1,
  MTLCommandBufferStatusCommitted = 2,
  MTLCommandBufferStatusScheduled = 3,
  MTLCommandBufferStatusCompleted = 4,
  MTLCommandBufferStatusError = 5,
};
typedef NS_ENUM(NSUInteger, MTLDispatchType) {
  MTLDispatchTypeSerial = 0,
  MTLDispatchTypeConcurrent = 1,
};
typedef NS_ENUM(NSInteger, MTLGPUFamily) {
  MTLGPUFamilyApple7 = 1007,
  MTLGPUFamilyApple8 = 1008,
  MTLGPUFamilyApple9 = 1009,
};
typedef NS_ENUM(NSUInteger, MTLLanguageVersion) {
  MTLLanguageVersion3_1 = (3 << 16) + 1,
};
typedef NS_ENUM(NSInteger, MTLMathMode) {
  MTLMathModeSafe = 0,
  MTLMathModeRelaxed = 1,
  MTLMathModeFast = 2,
};
typedef NS_ENUM(NSInteger, MTLMathFloatingPointFunctions) {
  MTLMathFloatingPointFunctionsFast = 0,
  MTLMathFloatingPointFunctionsPrecise = 1,
};
typedef NS_ENUM(NSUInteger, MTLDataType) {
  MTLDataTypeFloat = 3,
  MTLDataTypeHalf = 16,
  MTLDataTypeInt = 29,
  MTLDataTypeUInt = 33,
  MTLDataTypeShort = 37,
  MTLDataTypeUShort = 41,
  MTLDataTypeChar = 45,
  MTLDataTypeUChar = 49,
  MTLDataTypeBool = 53,
  MTLDataTypeLong = 81,
  MTLDataTypeULong = 85,
  MTLDataTypeBFloat = 121,
};

typedef NS_OPTIONS(NSUInteger, MTLPipelineOption) {
  MTLPipelineOptionNone = 0,
  MTLPipelineOptionArgumentInfo = 1 << 0,
  MTLPipelineOptionFailOnBinaryArchiveMiss = 1 << 2,
};
typedef NS_ENUM(NSInteger, MTLBindingType) {
  MTLBindingTypeBuffer = 0,
  MTLBindingTypeThreadgroupMemory = 1,
  MTLBindingTypeTensor = 37,
};
typedef NS_ENUM(NSInteger, MTLTensorDataType) {
  MTLTensorDataTypeFloat32 = 3,
  MTLTensorDataTypeFloat16 = 16,
  MTLTensorDataTypeInt32 = 29,
  MTLTensorDataTypeUInt32 = 33,
  MTLTensorDataTypeInt16 = 37,
  MTLTensorDataTypeUInt16 = 41,
  MTLTensorDataTypeInt8 = 45,
  MTLTensorDataTypeUInt8 = 49,
  MTLTensorDataTypeBFloat16 = 121,
};
typedef NS_OPTIONS(NSUInteger, MTLTensorUsage) {
  MTLTensorUsageCompute = 1,
};
typedef NS_ENUM(NSInteger, MTL4CommandQueueError) {
  MTL4CommandQueueErrorTimeout = 1,
  MTL4CommandQueueErrorOutOfMemory = 3,
};
typedef NS_ENUM(NSUInteger, MTLLibraryError) {
  MTLLibraryErrorCompileFailure = 3,
  MTLLibraryErrorFunctionNotFound = 5,
};
typedef NS_ENUM(NSUInteger, MTLCommandBufferError) {
  MTLCommandBufferErrorTimeout = 2,
  MTLCommandBufferErrorPageFault = 3,
  MTLCommandBufferErrorOutOfMemory = 8,
  MTLCommandBufferErrorDeviceRemoved = 11,
};
typedef NS_ENUM(NSInteger, MTLCaptureDestination) {
  MTLCaptureDestinationDeveloperTools = 1,
  MTLCaptureDestinationGPUTraceDocument = 2,
};

@protocol MTLDevice, MTLCommandQueue, MTLCommandBuffer, MTLComputeCommandEncoder, MTLTensor;
@class MTLTensorDescriptor;

typedef struct {
  uint64_t _impl;
} MTLResourceID;

@protocol MTLAllocation <NSObject>
@end

@protocol MTLResource <MTLAllocation>
@property(readonly) MTLStorageMode storageMode;
@end

@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
@property(readonly) uint64_t gpuAddress;
- (void*)contents;
- (nullable id<MTLTensor>)newTensorWithDescriptor:(MTLTensorDescriptor*)descriptor
                                           offset:(NSUInteger)offset
                                            error:(NSError* _Nullable* _Nullable)error;
@end

@interface MTLTensorExtents : NSObject MPSX_EMULATED_STATE
- (nullable instancetype)initWithRank:(NSUInteger)rank values:(const NSInteger* _Nullable)values;
@property(readonly) NSUInteger rank;
- (NSInteger)extentAtDimensionIndex:(NSUInteger)dimensionIndex;
@end

@interface MTLTensorDescriptor : NSObject MPSX_EMULATED_STATE
@property(nonatomic, readwrite, copy) MTLTensorExtents* dimensions;
@property(nonatomic, readwrite, copy, nullable) MTLTensorExtents* strides;
@property(nonatomic, readwrite) MTLTensorDataType dataType;
@property(nonatomic, readwrite) MTLTensorUsage usage;
@property(nonatomic, readwrite) MTLStorageMode storageMode;
@end

@protocol MTLTensor <MTLResource>
@property(readonly) MTLResourceID gpuResourceID;
@end

@interface MTLResidencySetDescriptor : NSObject MPSX_EMULATED_STATE
@end

@protocol MTLResidencySet <NSObject>
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
@end

@interface MTLCompileOptions : NSObject MPSX_EMULATED_STATE
@property(readwrite, nonatomic) MTLLanguageVersion languageVersion;
@property(readwrite, nonatomic) BOOL fastMathEnabled;
@property(readwrite, nonatomic) MTLMathMode mathMode;
@property(readwrite, nonatomic) MTLMathFloatingPointFunctions mathFloatingPointFunctions;
@end

@interface MTLFunctionConstant : NSObject MPSX_EMULATED_STATE
@property(readonly) NSString* name;
@property(readonly) MTLDataType type;
@property(readonly) NSUInteger index;
@property(readonly) BOOL required;
@end

@interface MTLFunctionConstantValues : NSObject MPSX_EMULATED_STATE
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index;
@end

@protocol MTLFunction <NSObject>
@property(readonly) NSString* name;
@property(readonly) NSDictionary<NSString*, MTLFunctionConstant*>* functionConstantsDictionary;
@end

@protocol MTLLibrary <NSObject>
@property(readonly) NSArray<NSString*>* functionNames;
- (nullable id<MTLFunction>)newFunctionWithName:(NSString*)functionName;
- (nullable id<MTLFunction>)newFunctionWithName:(NSString*)name
                                 constantValues:(MTLFunctionConstantValues*)constantValues
                                          error:(NSError* _Nullable* _Nullable)error;
@end

@protocol MTLComputePipelineState <NSObject>
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger staticThreadgroupMemoryLength;
@end

@protocol MTLBinding <NSObject>
@property(readonly) NSString* name;
@property(readonly) MTLBindingType type;
@property(readonly) NSUInteger index;
@property(readonly, getter=isUsed) BOOL used;
@end

@protocol MTLTensorBinding <MTLBinding>
@property(readonly) MTLTensorDataType tensorDataType;
@property(readonly, nullable) MTLTensorExtents* dimensions;
@end

@interface MTLComputePipelineReflection : NSObject MPSX_EMULATED_STATE
@property(readonly) NSArray<id<MTLBinding>>* bindings;
@end

@class MTLComputePipelineDescriptor;

@interface MTLBinaryArchiveDescriptor : NSObject MPSX_EMULATED_STATE
@property(readwrite, nonatomic, copy, nullable) NSURL* url;
@end

@protocol MTLBinaryArchive <NSObject>
- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                            error:(NSError* _Nullable* _Nullable)error;
- (BOOL)serializeToURL:(NSURL*)url error:(NSError* _Nullable* _Nullable)error;
@end

@interface MTLComputePipelineDescriptor : NSObject MPSX_EMULATED_STATE
@property(nullable, readwrite, nonatomic, strong) id<MTLFunction> computeFunction;
@property(readwrite, nullable, nonatomic, copy) NSArray<id<MTLBinaryArchive>>* binaryArchives;
@property(readwrite, nonatomic) MTLSize requiredThreadsPerThreadgroup;
@end

@protocol MTLFence <NSObject>
@end

@protocol MTLComputeCommandEncoder <NSObject>
@property(nullable, copy, atomic) NSString* label;
- (void)pushDebugGroup:(NSString*)string;
- (void)popDebugGroup;
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBuffer:(nullable id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBuffers:(const id<MTLBuffer> _Nullable*)buffers offsets:(const NSUInteger*)offsets withRange:(NSRange)range;
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
- (void)dispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
- (void)endEncoding;
@end

@protocol MTLEvent <NSObject>
@end

@protocol MTLSharedEvent <MTLEvent>
@property(readwrite) uint64_t signaledValue;
@end

@protocol MTLCommandBuffer <NSObject>
@property(nullable, copy, atomic) NSString* label;
@property(readonly) MTLCommandBufferStatus status;
@property(nullable, readonly) NSError* error;
@property(readonly) CFTimeInterval GPUStartTime;
@property(readonly) CFTimeInterval GPUEndTime;
- (nullable id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)dispatchType;
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)commit;
- (void)waitUntilCompleted;
@end

@protocol MTLCommandQueue <NSObject>
@property(nullable, copy, atomic) NSString* label;
- (nullable id<MTLCommandBuffer>)commandBuffer;
- (nullable id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
- (void)addResidencySet:(id<MTLResidencySet>)residencySet;
- (void)removeResidencySet:(id<MTLResidencySet>)residencySet;
@end

@interface MTL4ArgumentTableDescriptor : NSObject MPSX_EMULATED_STATE
@property(nonatomic, readwrite) NSUInteger maxBufferBindCount;
@end

@protocol MTL4ArgumentTable <NSObject>
- (void)setAddress:(uint64_t)gpuAddress atIndex:(NSUInteger)bindingIndex;
- (void)setResource:(MTLResourceID)resourceID atBufferIndex:(NSUInteger)bindingIndex;
@end

@protocol MTL4CommandAllocator <NSObject>
@end

@protocol MTL4CommandEncoder <NSObject>
- (void)pushDebugGroup:(NSString*)string;
- (void)popDebugGroup;
- (void)endEncoding;
@end

@protocol MTL4ComputeCommandEncoder <MTL4CommandEncoder>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setArgumentTable:(nullable id<MTL4ArgumentTable>)argumentTable;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
- (void)dispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
@end

@protocol MTL4CommandBuffer <NSObject>
- (void)beginCommandBufferWithAllocator:(id<MTL4CommandAllocator>)allocator;
- (void)useResidencySet:(id<MTLResidencySet>)residencySet;
- (nullable id<MTL4ComputeCommandEncoder>)computeCommandEncoder;
- (void)endCommandBuffer;
@end

@protocol MTL4CommitFeedback <NSObject>
@property(nullable, readonly) NSError* error;
@end
typedef void (^MTL4CommitFeedbackHandler)(id<MTL4CommitFeedback> commitFeedback);

@interface MTL4CommitOptions : NSObject MPSX_EMULATED_STATE
- (void)addFeedbackHandler:(MTL4CommitFeedbackHandler)block;
@end

@protocol MTL4CommandQueue <NSObject>
- (void)waitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)commit:(const id<MTL4CommandBuffer> _Nonnull[_Nonnull])commandBuffers
         count:(NSUInteger)count
       options:(MTL4CommitOptions*)options;
@end

@protocol MTLDevice <NSObject>
@property(readonly) NSString* name;
@property(readonly) BOOL hasUnifiedMemory;
@property(readonly) NSUInteger maxBufferLength;
@property(readonly) NSUInteger maxThreadgroupMemoryLength;
@property(readonly) NSUInteger currentAllocatedSize;
@property(readonly) uint64_t recommendedMaxWorkingSetSize;
- (BOOL)supportsFamily:(MTLGPUFamily)gpuFamily;
- (nullable id<MTLCommandQueue>)newCommandQueue;
- (nullable id<MTLFence>)newFence;
- (nullable id<MTLSharedEvent>)newSharedEvent;
- (nullable id<MTL4CommandQueue>)newMTL4CommandQueue;
- (nullable id<MTL4CommandAllocator>)newCommandAllocator;
- (nullable id<MTL4CommandBuffer>)newCommandBuffer;
- (nullable id<MTL4ArgumentTable>)newArgumentTableWithDescriptor:(MTL4ArgumentTableDescriptor*)descriptor
                                                           error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)desc
                                                        error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (nullable id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)pointer
                                            length:(NSUInteger)length
                                           options:(MTLResourceOptions)options
                                       deallocator:(void (^_Nullable)(void* pointer, NSUInteger length))deallocator;
- (nullable id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                                        options:(nullable MTLCompileOptions*)options
                                          error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)computeFunction
                                                                      error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLComputePipelineState>)
    newComputePipelineStateWithFunction:(id<MTLFunction>)computeFunction
                                options:(MTLPipelineOption)options
                             reflection:(MTLComputePipelineReflection* _Nullable* _Nullable)reflection
                                  error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLComputePipelineState>)
    newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                  options:(MTLPipelineOption)options
                               reflection:(MTLComputePipelineReflection* _Nullable* _Nullable)reflection
                                    error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor*)descriptor
                                                          error:(NSError* _Nullable* _Nullable)error;
@end

@interface MTLCaptureDescriptor : NSObject MPSX_EMULATED_STATE
@property(nonatomic, strong, nullable) id captureObject;
@property(nonatomic, assign) MTLCaptureDestination destination;
@property(nonatomic, copy, nullable) NSURL* outputURL;
@end

@interface MTLCaptureManager : NSObject
+ (MTLCaptureManager*)sharedCaptureManager;
- (BOOL)supportsDestination:(MTLCaptureDestination)destination;
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor*)descriptor error:(NSError* _Nullable* _Nullable)error;
- (void)stopCapture;
@property(readonly) BOOL isCapturing;
@end

#ifdef __cplusplus
extern "C" {
#endif
NSArray<id<MTLDevice>>* MTLCopyAllDevices(void);
#ifdef __cplusplus
}
#endif

NS_ASSUME_NONNULL_END
