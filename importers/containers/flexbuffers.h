// FlexBuffers: the numbers of a map, by key. What a custom operator of TensorFlow Lite is told.
//
// Read from the end: the last byte is the width of the root, before it stand its type and the root
// itself. A type's lower two bits are the width of what it refers to (1 << bits), the others its
// kind. Whatever is not in place is an offset back from where it stands. A map's values follow
// each other in the map's width, their types behind them, their number before them, before that
// the width and the place of the keys, which are offsets to texts ended by a zero. Source:
// flatbuffers.dev, "FlexBuffers".
#pragma once

#include <map>
#include <span>
#include <string>

namespace etalon {

// Integers, floats and booleans; other values are left out. A bad-input Error where the bytes are
// no map.
std::map<std::string, double, std::less<>> flexbuffer_numbers(std::span<const std::byte> bytes);

}  // namespace etalon
