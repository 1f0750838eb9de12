#include "bench/report/bench_record.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/error.h"

namespace etalon {
namespace {

using json = nlohmann::json;
using Holds = bool (*)(const json&);

bool is_text(const json& v) { return v.is_string(); }
bool is_object(const json& v) { return v.is_object(); }
bool is_list(const json& v) { return v.is_array(); }
bool is_count(const json& v) {
  return v.is_number_integer() && v.get<std::int64_t>() >= 1 && v.get<std::int64_t>() <= 1 << 20;
}
// A time is divided by, and its logarithm taken.
bool is_time(const json& v) {
  return v.is_number() && v.get<double>() > 0 && std::isfinite(v.get<double>());
}

[[noreturn]] void wrong(const std::string& field, const char* expected, const json& got) {
  std::string shown = got.dump(-1, ' ', false, json::error_handler_t::replace);
  if (got.is_structured() || shown.size() > 40)
    shown = got.is_object() ? "an object" : got.is_array() ? "a list" : "a long text";
  throw bad_input("{} is {}, and {} is expected; the record is damaged", field, shown, expected);
}

void check(const json& value, const std::string& field, Holds holds, const char* expected) {
  if (!holds(value)) wrong(field, expected, value);
}
void check_fields(const json& of, const std::string& path, std::initializer_list<const char*> names,
                  Holds holds, const char* expected) {
  for (const char* name : names)
    if (const auto at = of.find(name); at != of.end())
      check(*at, path + "." + name, holds, expected);
}
// check_one(value, its path) for each of a list, where there is one.
template <class CheckOne>
void check_list(const json& of, const std::string& path, const char* name,
                const CheckOne& check_one) {
  const auto at = of.find(name);
  if (at == of.end()) return;
  const std::string field = path + "." + name;
  check(*at, field, is_list, "a list");
  for (std::size_t i = 0; i < at->size(); ++i)
    check_one((*at)[i], field + "[" + std::to_string(i) + "]");
}

// What a row and each peer of it have alike.
void check_timed(const json& timed, const std::string& path) {
  check(timed, path, is_object, "an object");
  check_fields(timed, path, {"hash", "version", "kernel", "kind", "status", "reason"}, is_text,
               "a text");
  check_fields(timed, path, {"median_s"}, is_time, "a positive number");
  for (const char* times : {"samples", "run_fastest"})
    check_list(timed, path, times, [](const json& time, const std::string& field) {
      check(time, field, is_time, "a positive number");
    });
}

}  // namespace

void check_bench_record(const json& record) {
  const auto found = record.find("bench");
  if (found == record.end()) return;
  const json& bench = *found;
  check(bench, "bench", is_object, "an object");
  check_fields(bench, "bench", {"started"}, is_text, "a text");
  check_fields(bench, "bench", {"load", "summary"}, is_object, "an object");
  if (const auto runs = bench.find("runs"); runs != bench.end() && runs->empty())
    throw bad_input("bench.runs is empty, and one object a run is expected; the record is damaged");
  check_list(bench, "bench", "runs", [](const json& run, const std::string& path) {
    check(run, path, is_object, "an object");
    check_fields(run, path, {"started"}, is_text, "a text");
  });
  const std::size_t runs = bench.contains("runs") ? bench["runs"].size() : 1;
  check_list(bench, "bench", "rows", [&](const json& row, const std::string& path) {
    check_timed(row, path);
    if (const auto fastest = row.find("run_fastest");
        fastest != row.end() && fastest->size() != runs)
      throw bad_input("{}.run_fastest has {} times for {} runs; the record is damaged", path,
                      fastest->size(), runs);
    check_fields(
        row, path,
        {"suite", "name", "op", "shape", "contract", "contract_name", "cache", "again", "file"},
        is_text, "a text");
    check_fields(row, path, {"threads"}, is_count, "a number of threads");
    check_fields(row, path, {"vs", "inputs"}, is_object, "an object");
    if (const auto inputs = row.find("inputs"); inputs != row.end())
      for (const auto& [name, type] : inputs->items())
        check(type, path + ".inputs." + name, is_text, "a text");
    if (const auto vs = row.find("vs"); vs != row.end())
      for (const auto& [name, peer] : vs->items()) check_timed(peer, path + ".vs." + name);
  });
}

}  // namespace etalon
