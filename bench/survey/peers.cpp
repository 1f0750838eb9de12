#include "bench/survey/peers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/resources.h"
#include "bench/runners/interpreters.h"
#include "bench/runners/process.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "importers/containers/json.h"
#include "kernels/kernels.h"

namespace etalon {
namespace {

class Row final : public ElementwiseRow {
 public:
  Row(const SurveyedFunction& f, std::int64_t count, int threads, Isa isa)
      : op_(op_of(f)),
        threads_(threads),
        x_(Tensor::uninitialized(DType::f32, {count})),
        known_{{x_.type(), nullptr, true}},
        types_(infer_alone(*op_.first, op_.second, InferInputs(known_))) {
    problem_.op = op_.first;
    problem_.params = &op_.second;
    problem_.inputs = known_;
    problem_.outputs = types_;
    problem_.contract = &contract_;
    problem_.isa = isa;
  }
  bool select(const std::string& prefix) {
    if (prefix.empty()) {
      row_ = all_kernels().select(problem_).row;
    } else {
      for (const KernelRow* row : all_kernels().rows_of(op_.first->name))
        if (row_ == nullptr && row->name.starts_with(prefix) &&
            row->refuse(problem_) == std::nullopt)
          row_ = row;
    }
    if (row_ == nullptr) return false;
    if (row_->prepare != nullptr) prepared_ = row_->prepare(problem_, threads_);
    y_.push_back(Tensor::uninitialized(DType::f32, x_.shape()));
    inputs_ = {&x_};
    return true;
  }
  std::span<float> x() override { return x_.mutable_data<float>(); }
  std::span<const float> y() const override { return y_[0].data<float>(); }
  void run() override {
    row_->run({.problem = &problem_,
               .inputs = inputs_,
               .outputs = y_,
               .truth = {},
               .threads = threads_,
               .prepared = prepared_.get()});
  }
  std::string kernel() const override { return std::string(row_->name); }
  std::string version() const override { return row_->version == nullptr ? "" : row_->version(); }

 private:
  std::pair<const OpRow*, Params> op_;
  Contract contract_ = Contract::seq();
  int threads_;
  Tensor x_;
  std::vector<InferInput> known_;
  std::vector<TensorType> types_;
  Problem problem_;
  const KernelRow* row_ = nullptr;
  Prepared prepared_;
  std::vector<Tensor> y_;
  std::vector<const Tensor*> inputs_;
};

class RowPeer final : public SurveyPeer {
 public:
  RowPeer(std::string name, int threads) : name_(std::move(name)), threads_(threads) {}
  std::string name() const override { return name_; }
  std::string version() const override { return version_; }
  bool has(const SurveyedFunction& f) const override {
    const auto row = ElementwiseRow::make(f, name_ + ".", 16, threads_, detect_isa());
    if (row == nullptr) return false;
    row->run();
    version_ = row->version();
    return true;
  }
  void compute(const SurveyedFunction& f, std::span<const float> x, std::span<float> y) override {
    if (f.name != function_) {
      rows_.clear();
      function_ = f.name;
    }
    auto& row = rows_[x.size()];
    if (row == nullptr)
      row = ElementwiseRow::make(f, name_ + ".", static_cast<std::int64_t>(x.size()), threads_,
                                 detect_isa());
    if (row == nullptr) throw internal_error("{} lost its row of {}", name_, f.name);
    std::ranges::copy(x, row->x().begin());
    row->run();
    std::ranges::copy(row->y(), y.begin());
    version_ = row->version();
  }

 private:
  std::string name_;
  int threads_;
  mutable std::string version_;
  std::string_view function_;
  std::map<std::size_t, std::unique_ptr<ElementwiseRow>> rows_;  // by length
};

// A file that both processes map: what one writes the other reads.
class SharedBlock {
 public:
  explicit SharedBlock(std::size_t count) : bytes_(count * sizeof(float)) {
    const std::string folder = std::filesystem::is_directory("/dev/shm")
                                   ? "/dev/shm"
                                   : std::filesystem::temp_directory_path().string();
    path_ = folder + "/etalon-survey-XXXXXX";
    const int file = mkstemp(path_.data());
    if (file < 0) throw bad_input("{}: {}", path_, std::strerror(errno));
    const bool sized = posix_fallocate(file, 0, static_cast<off_t>(bytes_)) == 0;
    void* memory =
        sized ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    if (memory == MAP_FAILED) {
      unlink(path_.c_str());
      throw bad_input("{}: no room for a block of {} bytes", folder, bytes_);
    }
    data_ = static_cast<float*>(memory);
  }
  ~SharedBlock() {
    munmap(data_, bytes_);
    unlink(path_.c_str());
  }
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  float* data() { return data_; }
  const std::string& path() const { return path_; }

 private:
  std::size_t bytes_;
  std::string path_;
  float* data_ = nullptr;
};

constexpr std::size_t kLargestBlock = std::size_t{1} << 24;

class ScriptPeer final : public SurveyPeer {
 public:
  ScriptPeer(std::string library, const std::vector<std::string>& interpreters, int threads)
      : library_(std::move(library)), threads_(threads), x_(kLargestBlock), y_(kLargestBlock) {
    std::string reasons;
    for (const std::string& python : interpreters) {
      try {
        process_ = std::make_unique<Process>(ProcessOptions{
            .command = {python, resource_path("bench/survey/adapter.py"), library_}});
      } catch (const Error&) {
        continue;
      }
      const nlohmann::json hello = answer(Seconds(60));
      if (hello.contains("version")) {
        version_ = fmt::format("{} {} (Python {})", library_, hello.value("version", ""),
                               hello.value("python", ""));
        functions_ = hello.value("functions", std::vector<std::string>{});
        return;
      }
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", python,
                             hello.value("error", "no answer"));
    }
    throw missing("{}: no interpreter has it ({}); name one as {}@/path/to/python", library_,
                  reasons.empty() ? "none was found" : reasons, library_);
  }
  std::string name() const override { return library_; }
  std::string version() const override { return version_; }
  bool has(const SurveyedFunction& f) const override {
    return std::ranges::find(functions_, f.name) != functions_.end();
  }
  void compute(const SurveyedFunction& f, std::span<const float> x, std::span<float> y) override {
    copy(x.data(), x.size(), x_.data());
    const nlohmann::json job = {{"function", f.name},
                                {"x", x_.path()},
                                {"y", y_.path()},
                                {"count", x.size()},
                                {"threads", threads_}};
    if (process_->send_line(job.dump(), Seconds(60)) != Process::Status::line)
      throw internal_error("{} ended: {}", version_, process_->error_tail(300));
    const nlohmann::json reply = answer(Seconds(300));
    if (!reply.contains("ok"))
      throw missing("{}: {}: {}", version_, f.name, reply.value("error", "no answer"));
    copy(y_.data(), y.size(), y.data());
  }

 private:
  void copy(const float* from, std::size_t count, float* to) const {
    constexpr std::int64_t kGrain = 1 << 18;
    parallel_for(static_cast<std::int64_t>(count), threads_, kGrain,
                 [&](std::int64_t begin, std::int64_t end) {
                   std::copy_n(from + begin, end - begin, to + begin);
                 });
  }
  nlohmann::json answer(Seconds patience) {
    std::string line;
    if (process_->receive_line(line, patience) != Process::Status::line)
      return {{"error", "it " + process_->how_it_ended() + " " + process_->error_tail(300)}};
    nlohmann::json parsed = parse_json_or_null(line);
    return parsed.is_object() ? parsed : nlohmann::json{{"error", "its answer is no JSON"}};
  }

  std::string library_, version_;
  int threads_;
  std::unique_ptr<Process> process_;
  std::vector<std::string> functions_;
  SharedBlock x_, y_;
};

std::vector<std::string> interpreters_for(const std::string& library) {
  auto found =
      interpreter_candidates(find_runner(library == "pytorch" ? "pytorch" : "onnxruntime"));
  found.emplace_back("python3");
  return found;
}

}  // namespace

std::pair<const OpRow*, Params> op_of(const SurveyedFunction& f) {
  const bool tanh_form = f.name == "gelu_tanh";
  const OpRow& op = get_op(tanh_form ? "gelu" : f.name);
  return {&op, tanh_form ? parse_params(op.defaults(), "approximate=tanh") : op.defaults()};
}

std::unique_ptr<ElementwiseRow> ElementwiseRow::make(const SurveyedFunction& f,
                                                     const std::string& prefix, std::int64_t count,
                                                     int threads, Isa isa) {
  auto row = std::make_unique<Row>(f, count, threads, isa);
  if (!row->select(prefix)) return nullptr;
  return row;
}

std::unique_ptr<SurveyPeer> make_survey_peer(const std::string& text, int threads) {
  const auto at = text.find('@');
  const std::string name = text.substr(0, at);
  if (name == "glibc" || name == "onednn") {
    if (at != std::string::npos) throw usage_error("{} has no interpreter", name);
    const std::string prefix = name + ".";
    const bool built = std::ranges::any_of(all_kernels().rows_of("exp"), [&](const KernelRow* row) {
      return row->name.starts_with(prefix);
    });
    if (!built) throw missing("{}: this program was built without it", name);
    return std::make_unique<RowPeer>(name, threads);
  }
  if (name != "numpy" && name != "pytorch" && name != "onnxruntime")
    throw usage_error("--of {}: the libraries are glibc, onednn, numpy, pytorch, onnxruntime",
                      text);
  return std::make_unique<ScriptPeer>(name,
                                      at == std::string::npos
                                          ? interpreters_for(name)
                                          : std::vector<std::string>{text.substr(at + 1)},
                                      threads);
}

}  // namespace etalon
