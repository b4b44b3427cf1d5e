// The emulation's internal interface of Foundation: readable reference counts, and factories of strings and errors.
#pragma once

#import <Foundation/Foundation.h>

#include <map>
#include <string>
#include <vector>

namespace emulation {

NSString* string(const std::string& text);  // autoreleased
std::string text(NSString* string);
NSError* error(long code, const std::string& text);  // autoreleased
NSArray* array(const std::vector<id>& objects);      // returns an autoreleased array that retains the objects
NSDictionary* dictionary(const std::map<std::string, id>& objects);

}  // namespace emulation
