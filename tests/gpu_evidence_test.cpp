// bench/gpu_evidence.sh without a GPU, a compiler or a build: what it leaves behind when a stage or
// the build fails. CMake and the program are stand-ins; the script is the real one.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

struct Scene {
  fs::path root = fs::temp_directory_path() / ("etalon-evidence-" + std::to_string(getpid()));
  Scene() {
    fs::create_directories(root / "bench");
    fs::create_directories(root / "bin");
    fs::create_directories(root / "headers/fmt");
    std::ofstream(root / "headers/fmt/format.h") << '\n';
    fs::copy_file(fs::path(ETALON_SOURCE_DIR) / "bench/gpu_evidence.sh",
                  root / "bench/gpu_evidence.sh");
    program("bin/nvcc", "exit 0");
  }
  ~Scene() { fs::remove_all(root); }
  Scene(const Scene&) = delete;

  void program(const std::string& at, const std::string& body) const {
    std::ofstream(root / at) << "#!/bin/sh\n" << body << '\n';
    fs::permissions(root / at, fs::perms::owner_all);
  }
  int run(const std::string& stages) const {
    const std::string r = root.string();
    const int status =
        std::system(("unset ETALON_PROGRAM; PATH=" + r + "/bin:$PATH ETALON_STAGES='" + stages +
                     "' bash " + r + "/bench/gpu_evidence.sh " + r + "/headers " + r +
                     "/out/record.json abc 60 > " + r + "/said 2>&1")
                        .c_str());
    return WEXITSTATUS(status);
  }
  std::string text(const std::string& at) const {
    std::ostringstream all;
    all << std::ifstream(root / at).rdbuf();
    return all.str();
  }
};

// Less its first line, which says where the program was built.
std::string behind_build(const std::string& record) {
  return record.starts_with("note build: built ") ? record.substr(record.find('\n') + 1)
                                                  : "no note on the build\n" + record;
}

bool holds(const std::string& text, const char* part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("gpu_evidence.sh: a build that fails leaves a record with its reason, and the log") {
  const Scene s;
  s.program("bin/cmake", "case \"$*\" in *--build*) echo 'tile.cu(3): error: no'; exit 1;; esac");
  CHECK(s.run("rows") == 4);
  CHECK(holds(s.text("out/record.json"), "\"failed\": \"the build failed"));
  CHECK(holds(s.text("out/record.build.log"), "tile.cu(3): error: no"));
}

TEST_CASE("gpu_evidence.sh: a stage that crashes or fails has its reason and costs no other") {
  const Scene s;
  // A program that writes down what it is asked; rows crash twice, networks always fail.
  s.program("made",
            "case $3 in note) echo \"note $4: $5\" >> $1;;"
            " rows) echo rows >> $1; [ $(grep -c '^rows' $1) -gt 2 ] || kill -SEGV $$;;"
            " networks) exit 70;;"
            " *) echo $3 >> $1;; esac");
  s.program("bin/cmake", "case \"$*\" in *--build*) mkdir -p $2/bin; cp " +
                             (s.root / "made").string() + " $2/bin/gpu_evidence;; esac");
  CHECK(s.run("rows networks sizes times") == 1);
  const std::string record = behind_build(s.text("out/record.json"));
  CAPTURE(record);
  CHECK(record ==
        "rows\nrows\nrows\n"
        "note networks: ended with 70: the last lines of record.log say why\n"
        "sizes\ntimes\n");
}

TEST_CASE("gpu_evidence.sh: without a device every stage says so, exit code 4") {
  const Scene s;
  s.program("made",
            "case $3 in note) echo \"note $4: $5\" >> $1;; *) echo $3 >> $1; exit 3;; esac");
  s.program("bin/cmake", "case \"$*\" in *--build*) mkdir -p $2/bin; cp " +
                             (s.root / "made").string() + " $2/bin/gpu_evidence;; esac");
  CHECK(s.run("rows sizes vendors") == 4);
  CHECK(behind_build(s.text("out/record.json")) == "rows\nvendors\nsizes\n");
}
