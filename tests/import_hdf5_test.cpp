// HDF5 files of h5py, oldest and latest structures: every dataset has NumPy's bits.
#include <doctest/doctest.h>

#include <map>

#include "engine/core/error.h"
#include "importers/containers/hdf5.h"
#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

TEST_CASE("hdf5: layouts, filters and element types of all library versions") {
  std::map<std::string, Tensor> want;
  for (NamedTensor& t : load_tensors(fixture("hdf5/expected.npz")))
    want.emplace(t.name, std::move(t.tensor));
  for (const char* file : {"hdf5/old.h5", "hdf5/new.h5", "hdf5/newest.h5"}) {
    CAPTURE(file);
    const TensorList got = load_tensors(fixture(file));
    CHECK(got.size() == want.size());
    for (const NamedTensor& t : got) {
      CAPTURE(t.name);
      REQUIRE(want.contains(t.name));
      CHECK(t.tensor.type() == want.at(t.name).type());
      CHECK(std::ranges::equal(t.tensor.bytes(), want.at(t.name).bytes()));
    }
  }
}

TEST_CASE("hdf5: attributes in the header and dense ones, texts of both kinds") {
  for (const char* file : {"hdf5/old.h5", "hdf5/new.h5", "hdf5/newest.h5"}) {
    CAPTURE(file);
    const Hdf5File f(map_file(fixture(file)));
    const Hdf5Object root = f.root();
    REQUIRE(root.attribute("text") != nullptr);
    CHECK(root.attribute("text")->texts == std::vector<std::string>{"variable"});
    CHECK(root.attribute("fixed")->texts == std::vector<std::string>{"fixed"});
    CHECK(root.attribute("names")->texts == std::vector<std::string>{"a", "bc"});
    CHECK(to_int64_values(*root.attribute("number")->numbers) == Ints{7});
    const Hdf5Object many = f.child(root, "many");
    CHECK(many.attributes.size() == 12);
    CHECK(to_int64_values(*many.attribute("a11")->numbers) == Ints{11});
    CHECK_FALSE(f.find(root, "model/nothing").has_value());
    CHECK_THROWS_WITH_AS(f.child(root, "nothing"), doctest::Contains("nothing"), Error);
  }
}
