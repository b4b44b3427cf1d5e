// The internal interface of the emulated Foundation: reference counts, and functions that create strings, arrays and
// errors.
#pragma once

#import <Foundation/Foundation.h>

#include <map>
#include <string>
#include <vector>

namespace emulation {

NSString* string(const std::string& text);  // autoreleased
std::string text(NSString* string);
NSError* error(long code, const std::string& text);  // autoreleased
NSArray* array(const std::vector<id>& objects);      // the array is autoreleased and retains the objects
NSDictionary* dictionary(const std::map<std::string, id>& objects);

}  // namespace emulation
