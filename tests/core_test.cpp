#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/core/shape.h"
#include "engine/core/tensor.h"
#include "engine/core/tensor_pool.h"
#include "engine/core/threads.h"
#include "engine/numerics/contract.h"
#include "engine/numerics/sum_tree.h"

using namespace etalon;

TEST_CASE("shape: products are checked") {
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK_THROWS_WITH_AS(Shape({big, big}), doctest::Contains("does not fit in 64 bits"), Error);
  // A zero extent does not hide the overflow of the others.
  CHECK_THROWS_AS(Shape({0, big, big}), Error);
  CHECK_THROWS_AS(Shape({-1}), Error);
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape({2, 0, 3}).numel() == 0);
  CHECK(broadcast(Shape{3, 1}, Shape{2, 1, 4}) == Shape{2, 3, 4});
  CHECK_THROWS_AS(broadcast(Shape{3}, Shape{4}), Error);
}

TEST_CASE("tensor: a shared tensor cannot be written, a clone can") {
  Tensor a = Tensor::of<float>({2}, {1.0F, 2.0F});
  Tensor b = a.share();
  CHECK_THROWS_AS(a.mutable_data<float>(), Error);
  Tensor c = b.clone();
  c.mutable_data<float>()[0] = 5.0F;
  CHECK(a.data<float>()[0] == 1.0F);
  CHECK_THROWS_AS(a.data<double>(), Error);
}

TEST_CASE("tensor: a deferred one is made when it is read, once") {
  int made = 0;
  bool fails = true;
  const Tensor a = Tensor::deferred(DType::f32, {2, 3}, [&] {
    if (std::exchange(fails, false)) throw bad_input("not now");
    ++made;
    return Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  });
  const Tensor b = a.share(), c = a.reshaped({6});
  CHECK(a.type() == TensorType{DType::f32, {2, 3}});
  CHECK(a.size_bytes() == 24);
  CHECK(!!a);
  CHECK_THROWS_AS(a.reshaped({5}), Error);
  CHECK_THROWS_AS(a.data<double>(), Error);
  CHECK(made == 0);
  CHECK_THROWS_WITH_AS(a.data<float>(), doctest::Contains("not now"), Error);
  std::vector<const std::byte*> seen(64);
  parallel_for(64, 4, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      seen[static_cast<std::size_t>(i)] = (i % 2 == 0 ? b : c).bytes().data();
  });
  CHECK(made == 1);
  for (const std::byte* place : seen) CHECK(place == a.bytes().data());
  CHECK(c.data<float>()[5] == 6.0F);
  CHECK(a.clone().data<float>()[4] == 5.0F);
  Tensor d = a.share();
  CHECK_THROWS_AS(d.mutable_bytes(), Error);
  const Tensor other =
      Tensor::deferred(DType::f32, {2}, [] { return Tensor::zeros(DType::f64, {2}); });
  CHECK_THROWS_WITH_AS(other.bytes(), doctest::Contains("came as f64[2]"), Error);
}

TEST_CASE("tensor: large ones begin at different lines of a page, also those of a pool") {
  const auto line = [](const Tensor& t) {
    const auto at = reinterpret_cast<std::uintptr_t>(t.bytes().data());
    CHECK(at % 64 == 0);
    return at % 4096 / 64;
  };
  TensorPool pool;
  for (const bool pooled : {false, true})
    for (const std::int64_t bytes : {std::int64_t{1} << 15, std::int64_t{3} << 20}) {
      std::vector<Tensor> tensors;
      for (int i = 0; i < 5; ++i)
        tensors.push_back(pooled ? pool.take(DType::u8, {bytes})
                                 : Tensor::uninitialized(DType::u8, {bytes}));
      for (std::size_t i = 0; i < tensors.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          const auto apart = (line(tensors[i]) - line(tensors[j])) % 64;
          CHECK(std::min(apart, 64 - apart) >= 3);
        }
      for (Tensor& t : tensors) {
        std::ranges::fill(t.mutable_bytes(), std::byte{7});
        CHECK(t.bytes().back() == std::byte{7});
      }
    }
}

TEST_CASE("hash: type, shape and every bit count") {
  // xxhash.xxh3_128_hexdigest(b"f32[2]\n" + numpy.array([1, 2], "<f4").tobytes())
  const Tensor a = Tensor::of<float>({2}, {1.0F, 2.0F});
  CHECK(to_string(hash_tensor(a)).size() == 32);
  CHECK(hash_tensor(a) == hash_tensor(a.clone()));
  CHECK_FALSE(hash_tensor(a) == hash_tensor(a.reshaped({1, 2})));
  CHECK_FALSE(hash_tensor(Tensor::of<float>({1}, {0.0F})) ==
              hash_tensor(Tensor::of<float>({1}, {-0.0F})));
  CHECK_FALSE(hash_tensor(Tensor::of<std::int32_t>({1}, {0})) ==
              hash_tensor(Tensor::of<float>({1}, {0.0F})));
}

TEST_CASE("philox: the published test vector") {
  // Random123, kat_vectors: philox4x32 10, zero counter and key.
  const Philox zero{};
  const auto b = zero.block(0);
  CHECK(b[0] == 0x6627e8d5U);
  CHECK(b[1] == 0xe169c58dU);
  CHECK(b[2] == 0xbc57ac4cU);
  CHECK(b[3] == 0x9b00dbd8U);
}

TEST_CASE("threads: every index once, errors come back") {
  for (const int threads : {1, 2, 3, 7}) {
    std::vector<int> hits(1001);
    parallel_for(1001, threads, 16, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t i = b; i < e; ++i) ++hits[static_cast<std::size_t>(i)];
    });
    CHECK(std::ranges::count(hits, 1) == 1001);
    CHECK_THROWS_AS(
        parallel_for(100, threads, 1, [](std::int64_t, std::int64_t) { throw bad_input("no"); }),
        Error);
  }
}

TEST_CASE("contract: canonical strings") {
  CHECK(to_string(Contract::seq()) ==
        "etalon1:store=f32,acc=f32,order=seq,walk=crs,fma=on,round=rn,subnormals=keep,math=cr,"
        "algo=direct");
  CHECK(to_string(Contract::parse("exact")) ==
        "etalon1:store=f32,order=exact,round=rn,subnormals=keep");
  for (const char* text :
       {"seq", "exact", "order=lanes:8", "order=blocks:256+256,fma=off",
        "walk=c16rs,order=blocks:144", "acc=bf16,store=f16,round=rz,subnormals=flush",
        "exact,store=f16", "algo=im2col", "algo=winograd:4/3", "algo=fft:full",
        "transform=f64,algo=winograd:6/3,points=reciprocal,channels=pairwise",
        "algo=fft:32,radix=2,store=f16"}) {
    const Contract c = Contract::parse(text);
    CHECK(Contract::parse(to_string(c)) == c);
    CHECK(short_name(c) == short_name(Contract::parse(short_name(c))));
  }
  for (const char* text : {"",
                           "sequence",
                           "order=lanes:0",
                           "order=lanes",
                           "order=seq:3",
                           "acc=f8",
                           "walk=c0rs",
                           "fma=yes",
                           "seq,seq",
                           "order=seq,order=seq",
                           "exact,fma=on",
                           "etalon2:seq",
                           "order=blocks:3+",
                           "order=lanes:99999999999999999999",
                           "algo=winograd",
                           "algo=winograd:4",
                           "algo=winograd:0/3",
                           "algo=winograd:9/9",
                           "algo=winograd:2/3,points=0:1",
                           "algo=winograd:2/3,points=0:1:1",
                           "algo=winograd:2/3,points=0:1:1/0",
                           "algo=winograd:2/3,transform=bf16",
                           "algo=winograd:2/3,channels=pairwise:12",
                           "algo=winograd:2/3,radix=2",
                           "algo=fft",
                           "algo=fft:12",
                           "algo=fft:16,points=0",
                           "algo=fft:8,radix=3",
                           "algo=direct:1",
                           "algo=im2col,radix=2",
                           "radix=2",
                           "exact,algo=fft:8"})
    CHECK_THROWS_AS(Contract::parse(text), Error);
}

TEST_CASE("contract: an algorithm says all of itself") {
  CHECK(Contract::parse("algo=winograd:4/3").algo ==
        "winograd:4/3,points=0:1:-1:2:-2,transform=f32,channels=seq");
  CHECK(
      Contract::parse("channels=pairwise,algo=winograd:2/5,points=reciprocal,transform=f64").algo ==
      "winograd:2/5,points=0:1:-1:2:-1/2,transform=f64,channels=pairwise:8");
  for (const char* text : {"algo=winograd:4/3", "algo=winograd:4/3,points=reciprocal,transform=f64",
                           "algo=winograd:2/3,points=0:1:2,channels=pairwise:4", "algo=fft:full",
                           "algo=im2col", "fma=off,algo=fft:8"}) {
    CHECK(short_name(Contract::parse(text)) == text);
    CHECK(Contract::parse(short_name(Contract::parse(text))) == Contract::parse(text));
  }
  CHECK(Contract::parse("algo=fft:16").algo == "fft:16,radix=2");
  CHECK(Contract::parse("radix=2,algo=fft:full").algo == "fft:full,radix=2");
}

TEST_CASE("sum tree: what is not a tree is refused") {
  CHECK(SumTree::parse("0 1 + 2 3 + +").terms == 4);
  CHECK(SumTree::parse("2 0 1 + +").text() == "2 0 1 + +");
  for (const char* text : {"", "+", "0 1", "0 0 +", "0 2 +", "0 x +", "0 99999999999 +", "0 1 + +"})
    CHECK_THROWS_AS(SumTree::parse(text), Error);
}
