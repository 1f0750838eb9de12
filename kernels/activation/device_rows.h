// clang-format off
// Written by generate_device_rows.py: what device_quick.h looks up. Polynomials lowest power first, with the bound
// of their relative error.
#pragma once

#include "engine/numerics/host_device.h"

namespace etalon::device_rows {

// 2^(j/16), j 2^48 taken from its bits: with n 2^48 more, n = 16 k + j, they are 2^(n/16).
ETALON_TABLE double kRowPower[] = {0x1.0000000000000p+0, 0x1.fb5586cf9890fp-1, 0x1.f72b83c7d517bp-1, 0x1.f387a6e756238p-1, 0x1.f06fe0a31b715p-1, 0x1.edea64c123422p-1, 0x1.ebfdad5362a27p-1, 0x1.eab07dd485429p-1, 0x1.ea09e667f3bcdp-1, 0x1.ea11473eb0187p-1, 0x1.eace5422aa0dbp-1, 0x1.ec49182a3f090p-1, 0x1.ee89f995ad3adp-1, 0x1.f199bdd85529cp-1, 0x1.f5818dcfba487p-1, 0x1.fa4afa2a490dap-1};

// 1/c, c the middle of a sixteenth of a binade, 1 where that holds 1.
ETALON_TABLE double kRowLogInverse[] = {0x1.661ec6a5122f9p+0, 0x1.571ed3c506b3ap+0, 0x1.49539e3b2d067p+0, 0x1.3c995a47babe7p+0, 0x1.30d190130d190p+0, 0x1.25e22708092f1p+0, 0x1.1bb4a4046ed29p+0, 0x1.12358e75d3033p+0, 0x1.0953f39010954p+0, 0x1.0000000000000p+0, 0x1.e573ac901e574p-1, 0x1.ca4b3055ee191p-1, 0x1.b2036406c80d9p-1, 0x1.9c2d14ee4a102p-1, 0x1.886e5f0abb04ap-1, 0x1.767dce434a9b1p-1};

// log c.
ETALON_TABLE double kRowLog[] = {-0x1.57bf753c8d1fbp-2, -0x1.2bef07cdc9355p-2, -0x1.01eae5626c691p-2, -0x1.b31d8575bce3bp-3, -0x1.6574ebe8c1339p-3, -0x1.1aa2b7e23f729p-3, -0x1.a4e7640b1bc38p-4, -0x1.1973bd1465561p-4, -0x1.252f32f8d1840p-5, 0x0.0p+0, 0x1.b42dd711971b9p-5, 0x1.c5e548f5bc743p-4, 0x1.526e5e3a1b438p-3, 0x1.bc286742d8cd4p-3, 0x1.1058bf9ae4ad4p-2, 0x1.404308686a7e4p-2};

// log(1 + r)/r, |r| < 0.02963: 2^-44 of log c + log(1 + r).
ETALON_TABLE double kRowLogTerms[] = {0x1.0000000000000p+0, -0x1.00000000145e3p-1, 0x1.55555555798b5p-2, -0x1.fffff4ac3238cp-3, 0x1.99998f87ee022p-3, -0x1.55ba1bad00944p-3, 0x1.24ebdd75e946fp-3};

// log c.
ETALON_TABLE double kRowLog2[] = {-0x1.efec61b011f85p-2, -0x1.b0b67f4f46812p-2, -0x1.7418acebbf18fp-2, -0x1.39de8e1559f6ep-2, -0x1.01d9bbcfa61d4p-2, -0x1.97c1cb13c7ec0p-3, -0x1.2f9e32d5bfdd1p-3, -0x1.960caf9abb7c1p-4, -0x1.a6f9c377dd31dp-5, 0x0.0p+0, 0x1.3aa2fdd27f1bfp-4, 0x1.476a9f983f74dp-3, 0x1.e840be74e6a4dp-3, 0x1.406463b1b0448p-2, 0x1.88e9c72e0b224p-2, 0x1.ce0a4923a587dp-2};

// log(1 + r)/r, |r| < 0.02963: 2^-44 of log c + log(1 + r).
ETALON_TABLE double kRowLog2Terms[] = {0x1.71547652b82fep+0, -0x1.71547652d5926p-1, 0x1.ec709dc3d47dap-2, -0x1.71546e26f403ep-2, 0x1.2776bdcb945b6p-2, -0x1.ed0200e7a6d63p-3, 0x1.a6989efefe516p-3};

// log c.
ETALON_TABLE double kRowLog10[] = {-0x1.2a935ba5f1479p-3, -0x1.0484e4942aa44p-3, -0x1.c00c7767225cbp-4, -0x1.79efb57b0f802p-4, -0x1.367ba3aaa1882p-4, -0x1.eafd05035bd3ap-5, -0x1.6d97ab3ba5e10p-5, -0x1.e8eeb09f2f6c0p-6, -0x1.fd503c3904f20p-7, 0x0.0p+0, 0x1.7adc3df3b1ff3p-6, 0x1.8a3fadeb847f4p-5, 0x1.25f5215eb594ap-4, 0x1.81ca63d05a448p-4, 0x1.d91d5866aa99ap-4, 0x1.162d082ac9d10p-3};

// log(1 + r)/r, |r| < 0.02963: 2^-44 of log c + log(1 + r).
ETALON_TABLE double kRowLog10Terms[] = {0x1.bcb7b1526e50ep-2, -0x1.bcb7b15291b2ep-3, 0x1.287a763713a9cp-3, -0x1.bcb7a77bb17dcp-4, 0x1.63c61eb635729p-4, -0x1.28d1fe5ec5d70p-4, 0x1.fcdb439935c62p-5};

// log(1 + r)/r, |r| <= 1/64: 2^-43.7.
ETALON_TABLE double kRowUnitTerms[] = {0x1.0000000000125p+0, -0x1.0000000000200p-1, 0x1.5555550306695p-2, -0x1.ffffff6ff5990p-3, 0x1.99b508d089161p-3, -0x1.556d56af01514p-3};

// 1/(1 + j/32).
ETALON_TABLE double kRowUnitInverse[] = {0x1.0000000000000p+0, 0x1.f07c1f07c1f08p-1, 0x1.e1e1e1e1e1e1ep-1, 0x1.d41d41d41d41dp-1, 0x1.c71c71c71c71cp-1, 0x1.bacf914c1bad0p-1, 0x1.af286bca1af28p-1, 0x1.a41a41a41a41ap-1, 0x1.999999999999ap-1, 0x1.8f9c18f9c18fap-1, 0x1.8618618618618p-1, 0x1.7d05f417d05f4p-1, 0x1.745d1745d1746p-1, 0x1.6c16c16c16c17p-1, 0x1.642c8590b2164p-1, 0x1.5c9882b931057p-1, 0x1.5555555555555p-1, 0x1.4e5e0a72f0539p-1, 0x1.47ae147ae147bp-1, 0x1.4141414141414p-1, 0x1.3b13b13b13b14p-1, 0x1.3521cfb2b78c1p-1, 0x1.2f684bda12f68p-1, 0x1.29e4129e4129ep-1, 0x1.2492492492492p-1, 0x1.1f7047dc11f70p-1, 0x1.1a7b9611a7b96p-1, 0x1.15b1e5f75270dp-1, 0x1.1111111111111p-1, 0x1.0c9714fbcda3bp-1, 0x1.0842108421084p-1, 0x1.0410410410410p-1, 0x1.0000000000000p-1};

// The logarithms of what these are the reciprocals of.
ETALON_TABLE double kRowUnitLog[] = {0x0.0p+0, 0x1.f829b0e7832f8p-6, 0x1.f0a30c01162a8p-5, 0x1.6f0d28ae56b4ep-4, 0x1.e27076e2af2eap-4, 0x1.29552f81ff521p-3, 0x1.5ff3070a793d6p-3, 0x1.9525a9cf456b6p-3, 0x1.c8ff7c79a9a20p-3, 0x1.fb9186d5e3e29p-3, 0x1.1675cababa60fp-2, 0x1.2e8e2bae11d31p-2, 0x1.4618bc21c5ec2p-2, 0x1.5d1bdbf5809cap-2, 0x1.739d7f6bbd007p-2, 0x1.89a3386c1425bp-2, 0x1.9f323ecbf984dp-2, 0x1.b44f77bcc8f64p-2, 0x1.c8ff7c79a9a21p-2, 0x1.dd46a04c1c4a1p-2, 0x1.f128f5faf06ecp-2, 0x1.02552a5a5d0ffp-1, 0x1.0be72e4252a83p-1, 0x1.154c3d2f4d5eap-1, 0x1.1e85f5e7040d1p-1, 0x1.2795e1289b11bp-1, 0x1.307d7334f10bep-1, 0x1.393e0d3562a1ap-1, 0x1.41d8fe84672afp-1, 0x1.4a4f85db03ebbp-1, 0x1.52a2d265bc5abp-1, 0x1.5ad404c359f2dp-1, 0x1.62e42fefa39efp-1};

// e^r, |r| <= ln2/32: 2^-46.5.
ETALON_TABLE double kRowExpTerms[] = {0x1.0000000000000p+0, 0x1.0000000000000p+0, 0x1.fffffffe5bc5fp-2, 0x1.55555554dd44dp-3, 0x1.55570aa7f01a8p-5, 0x1.11120af701df1p-7};

// 2^r, |r| <= 1/32: 2^-46.5.
ETALON_TABLE double kRowExp2Terms[] = {0x1.0000000000000p+0, 0x1.62e42fefa39efp-1, 0x1.ebfbdff6988c8p-3, 0x1.c6b08d6faa1bep-5, 0x1.3b2c4ac7da56cp-7, 0x1.5d893e58acc68p-10};

// (sin(r)/r - 1)/z, z = r^2, |r| <= pi/32: 2^-50.
ETALON_TABLE double kRowSinTerms[] = {-0x1.5555555554a7cp-3, 0x1.111110c1e9979p-7, -0x1.a0049e7cd3b21p-13};

// (cos(r) - 1)/z: 2^-47.
ETALON_TABLE double kRowCosTerms[] = {-0x1.fffffffffcf2dp-2, 0x1.555554a33dcc3p-5, -0x1.6bfeb206f1e7ep-10};

// sin(j pi/16); that of 0 is -0, so that -0 stays what it is.
ETALON_TABLE double kRowSin[] = {-0.0, 0x1.8f8b83c69a60bp-3, 0x1.87de2a6aea963p-2, 0x1.1c73b39ae68c8p-1, 0x1.6a09e667f3bcdp-1, 0x1.a9b66290ea1a3p-1, 0x1.d906bcf328d46p-1, 0x1.f6297cff75cb0p-1, 0x1.0000000000000p+0, 0x1.f6297cff75cb0p-1, 0x1.d906bcf328d46p-1, 0x1.a9b66290ea1a3p-1, 0x1.6a09e667f3bcdp-1, 0x1.1c73b39ae68c8p-1, 0x1.87de2a6aea963p-2, 0x1.8f8b83c69a60bp-3, 0x0.0p+0, -0x1.8f8b83c69a60bp-3, -0x1.87de2a6aea963p-2, -0x1.1c73b39ae68c8p-1, -0x1.6a09e667f3bcdp-1, -0x1.a9b66290ea1a3p-1, -0x1.d906bcf328d46p-1, -0x1.f6297cff75cb0p-1, -0x1.0000000000000p+0, -0x1.f6297cff75cb0p-1, -0x1.d906bcf328d46p-1, -0x1.a9b66290ea1a3p-1, -0x1.6a09e667f3bcdp-1, -0x1.1c73b39ae68c8p-1, -0x1.87de2a6aea963p-2, -0x1.8f8b83c69a60bp-3, 0x0.0p+0, 0x1.8f8b83c69a60bp-3, 0x1.87de2a6aea963p-2, 0x1.1c73b39ae68c8p-1, 0x1.6a09e667f3bcdp-1, 0x1.a9b66290ea1a3p-1, 0x1.d906bcf328d46p-1, 0x1.f6297cff75cb0p-1};

// (atan(t)/t - 1)/z, z = t^2, |t| <= 0.0626: 2^-40.
ETALON_TABLE double kRowAtanTerms[] = {-0x1.55555551c2bdcp-2, 0x1.9999195f8d1bdp-3, -0x1.233d17193e98ap-3};

// Of angles whose tangent is j/8, or cotangent 2 - j/8: sines, cosines, angles.
ETALON_TABLE double kRowAtanSine[] = {0x0.0p+0, 0x1.fc0bd88a0f1d9p-4, 0x1.f0b6848d2af1cp-3, 0x1.678ce749eca7cp-2, 0x1.c9f25c5bfedd9p-2, 0x1.0f5c056474e6fp-1, 0x1.3333333333333p-1, 0x1.512784161f059p-1, 0x1.6a09e667f3bcdp-1, 0x1.8151bb86fee1dp-1, 0x1.999999999999ap-1, 0x1.b22cd56d87d7ep-1, 0x1.c9f25c5bfedd9p-1, 0x1.df6689b7e6350p-1, 0x1.f0b6848d2af1cp-1, 0x1.fc0bd88a0f1d9p-1, 0x1.0000000000000p+0};

ETALON_TABLE double kRowAtanCosine[] = {0x1.0000000000000p+0, 0x1.fc0bd88a0f1d9p-1, 0x1.f0b6848d2af1cp-1, 0x1.df6689b7e6350p-1, 0x1.c9f25c5bfedd9p-1, 0x1.b22cd56d87d7ep-1, 0x1.999999999999ap-1, 0x1.8151bb86fee1dp-1, 0x1.6a09e667f3bcdp-1, 0x1.512784161f059p-1, 0x1.3333333333333p-1, 0x1.0f5c056474e6fp-1, 0x1.c9f25c5bfedd9p-2, 0x1.678ce749eca7cp-2, 0x1.f0b6848d2af1cp-3, 0x1.fc0bd88a0f1d9p-4, 0x0.0p+0};

ETALON_TABLE double kRowAtanAngle[] = {0x0.0p+0, 0x1.fd5ba9aac2f6ep-4, 0x1.f5b75f92c80ddp-3, 0x1.6f61941e4def1p-2, 0x1.dac670561bb4fp-2, 0x1.1e00babdefeb4p-1, 0x1.4978fa3269ee1p-1, 0x1.700a7c5784634p-1, 0x1.921fb54442d18p-1, 0x1.b434ee31013fdp-1, 0x1.dac670561bb4fp-1, 0x1.031f57e54adbep+0, 0x1.1b6e192ebbe44p+0, 0x1.3647503caf55cp+0, 0x1.5368c951e9cfdp+0, 0x1.7249faa996a21p+0, 0x1.921fb54442d18p+0};

// (asin(t)/t - 1)/z, z = t^2, |t| <= 0.0905: 2^-37.7.
ETALON_TABLE double kRowAsinTerms[] = {0x1.555555676b633p-3, 0x1.3331fcc4b8191p-4, 0x1.70caf8e33ff7bp-5};

// Of angles whose sine is j/8, or cosine 2 - j/8: sines, cosines, angles, what they lack to pi/2.
ETALON_TABLE double kRowAsinSine[] = {0x0.0p+0, 0x1.0000000000000p-3, 0x1.0000000000000p-2, 0x1.8000000000000p-2, 0x1.0000000000000p-1, 0x1.4000000000000p-1, 0x1.8000000000000p-1, 0x1.c000000000000p-1, 0x0.0p+0, 0x1.efbdeb14f4edap-2, 0x1.52a7fa9d2f8eap-1, 0x1.8fae0c15ad38ap-1, 0x1.bb67ae8584caap-1, 0x1.daa2fefaae1d8p-1, 0x1.efbdeb14f4edap-1, 0x1.fbfbf7ebc755fp-1, 0x1.0000000000000p+0};

ETALON_TABLE double kRowAsinCosine[] = {0x1.0000000000000p+0, 0x1.fbfbf7ebc755fp-1, 0x1.efbdeb14f4edap-1, 0x1.daa2fefaae1d8p-1, 0x1.bb67ae8584caap-1, 0x1.8fae0c15ad38ap-1, 0x1.52a7fa9d2f8eap-1, 0x1.efbdeb14f4edap-2, 0x1.0000000000000p+0, 0x1.c000000000000p-1, 0x1.8000000000000p-1, 0x1.4000000000000p-1, 0x1.0000000000000p-1, 0x1.8000000000000p-2, 0x1.0000000000000p-2, 0x1.0000000000000p-3, 0x0.0p+0};

ETALON_TABLE double kRowAsinAngle[] = {0x0.0p+0, 0x1.00abe0c129e1ep-3, 0x1.02be9ce0b87cdp-2, 0x1.899f4edc962d3p-2, 0x1.0c152382d7366p-1, 0x1.59aad71ced00fp-1, 0x1.b235315c680dcp-1, 0x1.10c066d3e6932p+0, 0x0.0p+0, 0x1.02be9ce0b87cdp-1, 0x1.720a392c1d955p-1, 0x1.ca94936b98a22p-1, 0x1.0c152382d7366p+0, 0x1.2fb7e18d1d464p+0, 0x1.51700e0c14b25p+0, 0x1.720a392c1d955p+0, 0x1.921fb54442d18p+0};

ETALON_TABLE double kRowAsinRest[] = {0x1.921fb54442d18p+0, 0x1.720a392c1d955p+0, 0x1.51700e0c14b25p+0, 0x1.2fb7e18d1d464p+0, 0x1.0c152382d7366p+0, 0x1.ca94936b98a22p-1, 0x1.720a392c1d955p-1, 0x1.02be9ce0b87cdp-1, 0x1.921fb54442d18p+0, 0x1.10c066d3e6932p+0, 0x1.b235315c680dcp-1, 0x1.59aad71ced00fp-1, 0x1.0c152382d7366p-1, 0x1.899f4edc962d3p-2, 0x1.02be9ce0b87cdp-2, 0x1.00abe0c129e1ep-3, 0x0.0p+0};

}  // namespace etalon::device_rows
