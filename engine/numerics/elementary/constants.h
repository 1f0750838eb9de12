// Written by generate_tables.py; truncated, least significant limb first.
#pragma once

#include <cstdint>

namespace etalon::tables {

// pi = limbs * 2^(2 - 4096), truncated.
inline constexpr std::uint64_t kPiLimbs[64] = {
    0xc1d4dcb2602646deU, 0x36c3fab4d27c7026U, 0x4df435c934028492U, 0x86ffb7dc90a6c08fU,
    0x93b4ea988d8fddc1U, 0xd0069127d5b05aa9U, 0xb81bdd762170481cU, 0x1f612970cee2d7afU,
    0x233ba186515be7edU, 0x99b2964fa090c3a2U, 0x287c59474e6bc05dU, 0x2e8efc141fbecaa6U,
    0xdbbbc2db04de8ef9U, 0x2583e9ca2ad44ce8U, 0x1a946834b6150bdaU, 0x99c327186af4e23cU,
    0x88719a10bdba5b26U, 0x1a723c12a787e6d7U, 0x4b82d120a9210801U, 0x43db5bfce0fd108eU,
    0x08e24fa074e5ab31U, 0x770988c0bad946e2U, 0xbbe117577a615d6cU, 0x521f2b18177b200cU,
    0xd87602733ec86a64U, 0xf12ffa06d98a0864U, 0xcee3d2261ad2ee6bU, 0x1e8c94e04a25619dU,
    0xabf5ae8cdb0933d7U, 0xb3970f85a6e1e4c7U, 0x8aea71575d060c7dU, 0xecfb850458dbef0aU,
    0xa85521abdf1cba64U, 0xad33170d04507a33U, 0x15728e5a8aaac42dU, 0x15d2261898fa0510U,
    0x3995497cea956ae5U, 0xde2bcbf695581718U, 0xb5c55df06f4c52c9U, 0x9b2783a2ec07a28fU,
    0xe39e772c180e8603U, 0x32905e462e36ce3bU, 0xf1746c08ca18217cU, 0x670c354e4abc9804U,
    0x9ed529077096966dU, 0x1c62f356208552bbU, 0x83655d23dca3ad96U, 0x69163fa8fd24cf5fU,
    0x98da48361c55d39aU, 0xc2007cb8a163bf05U, 0x49286651ece45b3dU, 0xae9f24117c4b1fe6U,
    0xee386bfb5a899fa5U, 0x0bff5cb6f406b7edU, 0xf44c42e9a637ed6bU, 0xe485b576625e7ec6U,
    0x4fe1356d6d51c245U, 0x302b0a6df25f1437U, 0xef9519b3cd3a431bU, 0x514a08798e3404ddU,
    0x020bbea63b139b22U, 0x29024e088a67cc74U, 0xc4c6628b80dc1cd1U, 0xc90fdaa22168c234U,
};
inline constexpr int kPiExponent = 2;

// log(2) = limbs * 2^(0 - 4096), truncated.
inline constexpr std::uint64_t kLn2Limbs[64] = {
    0x175eb4afc8daadd8U, 0xf07afff3a892374eU, 0x8f6826250dea891eU, 0xcecb72f19c38339dU,
    0x5f6f7cebac9f45aeU, 0x6c472096e76115c0U, 0x972cd18bfbbd9d42U, 0x0ab111bbbd67c724U,
    0x473826fda0c238b9U, 0x61c1696dd24aaebdU, 0x156e0c292413d5e3U, 0x95184460dc4e7487U,
    0xd7622658901e646aU, 0xef2f0ce2d7373958U, 0x2ac5b61cc4e9207cU, 0x57339ba2beba7d05U,
    0x0060e49908391a0cU, 0x621363196af50302U, 0x05c128d53d0bd2f9U, 0x36e02b20cee886b9U,
    0x0bbb16faf3d949f2U, 0x422183edc9942109U, 0x5e9222b88c66d3c5U, 0x61affd446b1ca3cfU,
    0x268a5c1f9538b982U, 0x8d6f5177fbcf0755U, 0xa17293d1228a4ef9U, 0x44a02554731cdc8eU,
    0x96d4e6d330af889bU, 0x5570b6c68f969834U, 0x7598a1951ae273eeU, 0x4d162db3b365853dU,
    0x5f50b5185064c18bU, 0x078f735d1b2db31bU, 0xae313cdb6c606cb1U, 0x955d5179b1e17b9dU,
    0x0c480a5417350d2cU, 0x074db6015cfe7aa3U, 0x6a9c7f8a5e148e82U, 0x25669b333564a337U,
    0x4c1a1e0bd1d6095dU, 0xcccc4e659393514cU, 0xc943e732b479cd33U, 0x17460775db8990e5U,
    0x7d2e23de1400b396U, 0xee569d6dfc1efa15U, 0x610d30f88fe551a2U, 0x07f4ca11fb5bfb90U,
    0xda2d97c50f3fd5c6U, 0x655fa1872f20e3a2U, 0xf5dfa6bd38303248U, 0x72ce87b19d6548caU,
    0x256fa0ec7657f74bU, 0xb9ea9bc3b136603bU, 0x1acbda11317c387eU, 0x3e96ca16224ae8c5U,
    0x27573b291169b825U, 0xed2eae35c1382144U, 0x559552fb4afa1b10U, 0xe7b876206debac98U,
    0x8a0d175b8baafa2bU, 0x40f343267298b62dU, 0xc9e3b39803f2f6afU, 0xb17217f7d1cf79abU,
};
inline constexpr int kLn2Exponent = 0;

// log(10) = limbs * 2^(2 - 4096), truncated.
inline constexpr std::uint64_t kLn10Limbs[64] = {
    0x8e668aeaba83c7f8U, 0xb81c4a5b53d49ea6U, 0x48a93f5f5e3b6eb4U, 0xa2d6fe91388e9e3eU,
    0x4b40ed7a56c6cdcdU, 0xc4b83301006bf062U, 0x1be5a9a967fddc57U, 0xff3065c40cfceec8U,
    0x89bf752fb5dfb353U, 0x6a36ceccb2d5ae5bU, 0xbc1261c8b3e4daadU, 0xdf3ccbb3189da49dU,
    0xd006f8b4be145a2aU, 0x99d6d20ea2defd2bU, 0xb6524dc18c167e86U, 0xed69b13dc1a03730U,
    0xf42c58def8a3c52dU, 0xf6ff363db00b6b33U, 0xa0d9c260794a976fU, 0x421ef5e0b00410a0U,
    0xdef85a05eb56323aU, 0x8fcd08324a7b32a6U, 0x0a62d18e478f7bd5U, 0x4d5e843f20642b97U,
    0x1f1d366c20663834U, 0xbc64ea806e198566U, 0xaa6604a5324ec3dcU, 0xb5e4b1c8c0e5a10aU,
    0x3b70fcda2d732d47U, 0x0942617819127a6eU, 0x3982a78ca45ddfc8U, 0xef99c8e5f6974f36U,
    0x4cb0466d61ba648eU, 0xad6bfbffd821ba0aU, 0xe38a5700ffde2db1U, 0xf77e37604e943960U,
    0xa949eaaadf69e8a5U, 0xe88047f17b0d9b50U, 0x3848c8d25faf1bcaU, 0x3dfd3c51748e6d6eU,
    0xaf88486ea9b7401eU, 0xf47fa96deb271060U, 0x45765cde268339dbU, 0xe40bf3cc1e14126aU,
    0xdb1d28ea57d4fdc0U, 0xa47ecb26978c5d4fU, 0x9cd5b42e6a271619U, 0xe2478fcaad3aee98U,
    0x469ea58e9305e981U, 0x5b08b057d5ede20fU, 0x8e93368d44789c4fU, 0xca67b35b23605085U,
    0x5161bb49d219c7bbU, 0xef66ceb04ab3c6faU, 0x765aa6c3b0d831fbU, 0x782cf8a28a8c911eU,
    0xfb8f788402e516d6U, 0x2c622418410be2daU, 0xcc70cbc02c5f0d68U, 0x962f02d7b1a8105cU,
    0x83c61e8201f02d72U, 0xe28fecf9da5df90eU, 0xea56d62b82d30a28U, 0x935d8dddaaa8ac16U,
};
inline constexpr int kLn10Exponent = 2;

}  // namespace etalon::tables
