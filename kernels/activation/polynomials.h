// Written by generate_polynomials.py. Coefficients, lowest power first.
#pragma once

#include "engine/numerics/host_device.h"

namespace etalon::polynomials {

// (e^r - 1 - r)/r^2 on |r| <= ln2/2: relative error below 2^-48.
ETALON_TABLE double kExpm1[] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,
                                0x1.11111111109b3p-7,  0x1.6c16c1788bd90p-10, 0x1.a01a01a7c41d5p-13,
                                0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19, 0x1.289185613a3d6p-22,
                                0x1.af38a9b0ec855p-26};

// e^r on |r| <= ln2/32: relative error below 2^-38.5.
ETALON_TABLE double kExpSixteenth[] = {0x1.0000000000000p+0, 0x1.fffffffb12cf8p-1,
                                       0x1.fffffffe5b9aep-2, 0x1.5557e5734c36ap-3,
                                       0x1.55570abe5482fp-5};

// (e^r - 1)/r on the same: relative error below 2^-41.
ETALON_TABLE double kExpm1Sixteenth[] = {0x1.0000000000000p+0, 0x1.fffffffe5b9aep-2,
                                         0x1.55555554dd388p-3, 0x1.55570abe5482fp-5,
                                         0x1.11120b03cd855p-7};

// 2^r on |r| <= 1/32: relative error below 2^-38.5.
ETALON_TABLE double kExp2Sixteenth[] = {0x1.0000000000000p+0, 0x1.62e42fec39c7dp-1,
                                        0x1.ebfbdff6988c8p-3, 0x1.c6b3f746c5f99p-5,
                                        0x1.3b2c4ac7da565p-7};

// (log((1+s)/(1-s)) - 2s)/s^3 in powers of s^2, m = (1+s)/(1-s) in [0.707, 1.414]: relative error
// below 2^-33.
ETALON_TABLE double kLogShort[] = {0x1.5555555564f23p-1, 0x1.999998ca9ec73p-2, 0x1.2493242f22b76p-2,
                                   0x1.c67ab529f564fp-3, 0x1.8c8edd9198f8ep-3};

// the same for |s| <= 1/3: relative error below 2^-36.
ETALON_TABLE double kLog1pShort[] = {
    0x1.555555555ed28p-1, 0x1.99999958485b0p-2, 0x1.24926db12eb2ap-2, 0x1.c70d2f5e45807p-3,
    0x1.75de5d874a272p-3, 0x1.27db2445d4862p-3, 0x1.8677a4bf9332ap-3};

// (log((1+s)/(1-s)) - 2s)/s^3 in powers of s^2, m = (1+s)/(1-s) in [0.707, 1.414]: relative error
// below 2^-46.
ETALON_TABLE double kLog[] = {0x1.5555555555558p-1, 0x1.99999999952b2p-2, 0x1.2492492df6947p-2,
                              0x1.c71c62debf86bp-3, 0x1.7462b69705382p-3, 0x1.39fe208c33457p-3,
                              0x1.2b5b5fb2eac92p-3};

// the same for |s| <= 1/3: relative error below 2^-48.
ETALON_TABLE double kLog1p[] = {0x1.5555555555555p-1, 0x1.9999999999944p-2, 0x1.2492492499d46p-2,
                                0x1.c71c71bedea97p-3, 0x1.745d19937b1fcp-3, 0x1.3b13515f6f9efp-3,
                                0x1.111abdc8abe16p-3, 0x1.e0a2d581ab68fp-4, 0x1.bc37f0140c19ep-4,
                                0x1.32e0d25c9c761p-4, 0x1.401d3e65cdc48p-3};

// erf(x)/x in powers of x^2, |x| <= 1/2: relative error below 2^-50.
ETALON_TABLE double kErf[] = {0x1.20dd750429b6dp+0,  -0x1.812746b0379b4p-2,  0x1.ce2f21a03d7d9p-4,
                              -0x1.b82ce30f291fdp-6, 0x1.565bcbf854bfbp-8,   -0x1.c02d4f4607141p-11,
                              0x1.f98dace8138eep-14, -0x1.f22458d16a63fp-17, 0x1.8b46e196ddb44p-20};

// erfcx(x), 0 <= x <= 10.42, is a quotient of these two: relative error below 2^-39.

ETALON_TABLE double kErfcxAbove[] = {
    0x1.0000000001789p+0, 0x1.9e00e9c472e70p+0, 0x1.48f4456a842dfp+0, 0x1.3aa0611f8940cp-1,
    0x1.7a2454c5705c4p-3, 0x1.0f5ad4701f73ep-5, 0x1.71a784f0636cbp-9};

ETALON_TABLE double kErfcxBelow[] = {
    0x1.0000000000000p+0, 0x1.5f6f2f64c17b7p+1, 0x1.b1073b99b6500p+1, 0x1.3821774fdfe3cp+1,
    0x1.1e5982308d5e3p+0, 0x1.51ad88cad2fecp-2, 0x1.e0f6d4cd923c6p-5, 0x1.4798fd3643827p-8};

// erfcx(x/sqrt(2))/2, 0 <= x <= 14.73, is a quotient of these two: relative error below 2^-39.

ETALON_TABLE double kErfcxGeluAbove[] = {
    0x1.0000000001789p-1, 0x1.24bea69a7879bp-1, 0x1.48f4456a842dfp-2, 0x1.bcf2f425db890p-4,
    0x1.7a2454c5705c4p-6, 0x1.7fc0eed1cf2e7p-9, 0x1.71a784f0636cbp-13};

ETALON_TABLE double kErfcxGeluBelow[] = {
    0x1.0000000000000p+0, 0x1.f100d039bd0dap+0, 0x1.b1073b99b6500p+0, 0x1.b96b64d0f43dbp-1,
    0x1.1e5982308d5e3p-2, 0x1.dd8c7273a4b6bp-5, 0x1.e0f6d4cd923c6p-8, 0x1.cf4b01481c534p-12};

// (sin(r)/r - 1)/z, z = r^2, |r| <= 0.7874: relative error below 2^-48.
ETALON_TABLE double kSin[] = {-0x1.5555555555555p-3, 0x1.1111111110b8ep-7,   -0x1.a01a019e7b0d2p-13,
                              0x1.71de378b65356p-19, -0x1.ae5fff6da1955p-26, 0x1.5e06f0aa6d5a9p-33};

// (cos(r) - 1)/z, the same r: relative error below 2^-48.
ETALON_TABLE double kCos[] = {-0x1.ffffffffffffap-2, 0x1.55555555540aep-5,   -0x1.6c16c1690d677p-10,
                              0x1.a019fc666c80ep-16, -0x1.27e0ea9ffdbb9p-22, 0x1.1c02626b0fe14p-29};

// (atan(t)/t - 1)/z, z = t^2, |t| <= sqrt(2) - 1: relative error below 2^-46.
ETALON_TABLE double kAtan[] = {-0x1.5555555555546p-2, 0x1.9999999990a93p-3,  -0x1.2492491dd42c9p-3,
                               0x1.c71c6dd186305p-4,  -0x1.745c7f7b8c379p-4, 0x1.3b068e61396ddp-4,
                               -0x1.105e3a71f0cd0p-4, 0x1.d5eb4c53c5c16p-5,  -0x1.6f4554e10d021p-5,
                               0x1.74bbdc9bd8937p-6};

// (asin(t)/t - 1)/z, z = t^2, |t| <= 1/2: relative error below 2^-44.
ETALON_TABLE double kAsin[] = {0x1.55555555555bbp-3,  0x1.33333333030cfp-4, 0x1.6db6dba99e56dp-5,
                               0x1.f1c6ff7f5507fp-6,  0x1.6e8f34a32a3ecp-6, 0x1.1c0d74beb3610p-6,
                               0x1.cf5ed14c7cb7ep-7,  0x1.512bc40e88a9ep-7, 0x1.fa1b2b4831188p-7,
                               -0x1.bf16e7c9f283cp-8, 0x1.c8a4a8d5d7026p-6};

// The bits of 2^(j/16) less j 2^48: with 2^48 n added, n = 16 k + j, those of 2^(n/16).
ETALON_TABLE unsigned long long kPowerSixteenth[] = {
    0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
    0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
    0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
    0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};

// Four numbers a row; row E - 27 is for floats x of [2^E, 2^(E+1)): x times the first is
// 2 x/pi modulo 4 but for the rest, |rest| < 2^-4, x times the second what is left of it to
// 2^-33; both products are exact. The third is the rest to 53 bits, the fourth is not used.
ETALON_TABLE double kTwoOverPi[] = {
    -0x1.d067c92000000p-4,   0x1.391054c000000p-34,   -0x1.80f62a0b82b2dp-62,  0x0.0p+0,
    0x1.7cc1b70000000p-7,    0x1.391054a000000p-34,   0x1.fc2757d1f534ep-64,   0x0.0p+0,
    0x1.7cc1b74000000p-7,    -0x1.8ddf56c000000p-35,  0x1.fc2757d1f534ep-64,   0x0.0p+0,
    0x1.7cc1b72000000p-7,    0x1.c882a54000000p-37,   -0x1.ec54170565912p-71,  0x0.0p+0,
    -0x1.067c91c000000p-8,   0x1.c882a54000000p-37,   -0x1.ec54170565912p-71,  0x0.0p+0,
    0x1.f306dca000000p-9,    -0x1.bbead60000000p-40,  -0x1.ec54170565912p-71,  0x0.0p+0,
    -0x1.9f246c0000000p-14,  -0x1.bbead60000000p-40,  -0x1.ec54170565912p-71,  0x0.0p+0,
    -0x1.9f246c0000000p-14,  -0x1.bbead60000000p-40,  -0x1.ec54170565912p-71,  0x0.0p+0,
    -0x1.9f246c8000000p-14,  0x1.1054a80000000p-42,   -0x1.ec54170565912p-71,  0x0.0p+0,
    -0x1.9f246c8000000p-14,  0x1.1054a80000000p-42,   -0x1.ec54170565912p-71,  0x0.0p+0,
    -0x1.9f246c6000000p-14,  -0x1.df56b02000000p-43,  0x1.3abe8fa9a6ee0p-75,   0x0.0p+0,
    0x1.836e4e4000000p-16,   0x1.054a7f0000000p-46,   0x1.3abe8fa9a6ee0p-75,   0x0.0p+0,
    0x1.836e4e4000000p-16,   0x1.054a7f0000000p-46,   0x1.3abe8fa9a6ee0p-75,   0x0.0p+0,
    -0x1.f246c70000000p-18,  0x1.054a7f0000000p-46,   0x1.3abe8fa9a6ee0p-75,   0x0.0p+0,
    -0x1.f246c6e000000p-18,  -0x1.f56b01e000000p-47,  -0x1.8a82e0acb223fp-76,  0x0.0p+0,
    0x1.b727220000000p-23,   0x1.529fc20000000p-52,   0x1.d5f47d4d37703p-78,   0x0.0p+0,
    0x1.b727220000000p-23,   0x1.529fc20000000p-52,   0x1.d5f47d4d37703p-78,   0x0.0p+0,
    0x1.b727220000000p-23,   0x1.529fc28000000p-52,   -0x1.505c1596447e5p-81,  0x0.0p+0,
    0x1.b727220000000p-23,   0x1.529fc28000000p-52,   -0x1.505c1596447e5p-81,  0x0.0p+0,
    0x1.b727220000000p-23,   0x1.529fc28000000p-52,   -0x1.505c1596447e5p-81,  0x0.0p+0,
    -0x1.236377c000000p-25,  -0x1.5ac07b2000000p-53,  0x1.5f47d4d377037p-82,   0x0.0p+0,
    -0x1.236377e000000p-25,  0x1.4a7f09e000000p-54,   -0x1.4170565911f92p-83,  0x0.0p+0,
    0x1.b939106000000p-26,   -0x1.6b01ec6000000p-55,  0x1.7d1f534ddc0dbp-84,   0x0.0p+0,
    -0x1.1b1bbec000000p-28,  0x1.29fc276000000p-56,   -0x1.05c1596447e49p-85,  0x0.0p+0,
    -0x1.1b1bbea000000p-28,  -0x1.ac07b16000000p-57,  0x1.f47d4d377036ep-86,   0x0.0p+0,
    0x1.c9c882a000000p-29,   0x1.4fe13ac000000p-59,   -0x1.70565911f924fp-91,  0x0.0p+0,
    -0x1.b1bbeb0000000p-32,  0x1.4fe13ac000000p-59,   -0x1.70565911f924fp-91,  0x0.0p+0,
    -0x1.b1bbeac000000p-32,  -0x1.603d8a8000000p-60,  -0x1.70565911f924fp-91,  0x0.0p+0,
    -0x1.b1bbeae000000p-32,  0x1.3f84eb0000000p-61,   -0x1.70565911f924fp-91,  0x0.0p+0,
    0x1.391054c000000p-34,   -0x1.80f62a0000000p-62,  -0x1.70565911f924fp-91,  0x0.0p+0,
    0x1.391054a000000p-34,   0x1.fc2757c000000p-64,   0x1.1f534ddc0db63p-92,   0x0.0p+0,
    -0x1.8ddf56c000000p-35,  0x1.fc2757e000000p-64,   -0x1.c1596447e493bp-93,  0x0.0p+0,
    0x1.c882a54000000p-37,   -0x1.ec54180000000p-71,  0x1.f534ddc0db629p-96,   0x0.0p+0,
    0x1.c882a54000000p-37,   -0x1.ec54180000000p-71,  0x1.f534ddc0db629p-96,   0x0.0p+0,
    -0x1.bbead60000000p-40,  -0x1.ec54180000000p-71,  0x1.f534ddc0db629p-96,   0x0.0p+0,
    -0x1.bbead60000000p-40,  -0x1.ec54170000000p-71,  -0x1.596447e493ad5p-101, 0x0.0p+0,
    -0x1.bbead60000000p-40,  -0x1.ec54170000000p-71,  -0x1.596447e493ad5p-101, 0x0.0p+0,
    0x1.1054a80000000p-42,   -0x1.ec54170000000p-71,  -0x1.596447e493ad5p-101, 0x0.0p+0,
    0x1.1054a80000000p-42,   -0x1.ec54170000000p-71,  -0x1.596447e493ad5p-101, 0x0.0p+0,
    -0x1.df56b02000000p-43,  0x1.3abe900000000p-75,   -0x1.596447e493ad5p-101, 0x0.0p+0,
    0x1.054a7f0000000p-46,   0x1.3abe8f8000000p-75,   0x1.4d377036d8a56p-102,  0x0.0p+0,
    0x1.054a7f0000000p-46,   0x1.3abe8fc000000p-75,   -0x1.65911f924eb53p-103, 0x0.0p+0,
    0x1.054a7f0000000p-46,   0x1.3abe8fa000000p-75,   0x1.34ddc0db6295ap-104,  0x0.0p+0,
    -0x1.f56b01e000000p-47,  -0x1.8a82e0a000000p-76,  -0x1.96447e493ad4dp-105, 0x0.0p+0,
    0x1.529fc20000000p-52,   0x1.d5f47d4000000p-78,   0x1.a6ee06db14acdp-107,  0x0.0p+0,
    0x1.529fc20000000p-52,   0x1.d5f47d4000000p-78,   0x1.a6ee06db14acdp-107,  0x0.0p+0,
    0x1.529fc28000000p-52,   -0x1.505c158000000p-81,  -0x1.6447e493ad4cep-109, 0x0.0p+0,
    0x1.529fc28000000p-52,   -0x1.505c158000000p-81,  -0x1.6447e493ad4cep-109, 0x0.0p+0,
    0x1.529fc28000000p-52,   -0x1.505c15a000000p-81,  0x1.377036d8a5665p-110,  0x0.0p+0,
    -0x1.5ac07b2000000p-53,  0x1.5f47d4e000000p-82,   -0x1.911f924eb5336p-111, 0x0.0p+0,
    0x1.4a7f09e000000p-54,   -0x1.4170566000000p-83,  0x1.bb81b6c52b328p-113,  0x0.0p+0,
    -0x1.6b01ec6000000p-55,  0x1.7d1f534000000p-84,   0x1.bb81b6c52b328p-113,  0x0.0p+0,
    0x1.29fc276000000p-56,   -0x1.05c1596000000p-85,  -0x1.11f924eb53362p-115, 0x0.0p+0,
    -0x1.ac07b16000000p-57,  0x1.f47d4d4000000p-86,   -0x1.11f924eb53362p-115, 0x0.0p+0,
    0x1.4fe13ac000000p-59,   -0x1.70565a0000000p-91,  0x1.dc0db6295993cp-116,  0x0.0p+0,
    0x1.4fe13ac000000p-59,   -0x1.7056590000000p-91,  -0x1.1f924eb53361ep-119, 0x0.0p+0,
    -0x1.603d8a8000000p-60,  -0x1.7056590000000p-91,  -0x1.1f924eb53361ep-119, 0x0.0p+0,
    0x1.3f84eb0000000p-61,   -0x1.7056590000000p-91,  -0x1.1f924eb53361ep-119, 0x0.0p+0,
    -0x1.80f62a0000000p-62,  -0x1.7056592000000p-91,  0x1.c0db6295993c4p-120,  0x0.0p+0,
    0x1.fc2757c000000p-64,   0x1.1f534de000000p-92,   -0x1.f924eb53361dep-123, 0x0.0p+0,
    0x1.fc2757e000000p-64,   -0x1.c159644000000p-93,  -0x1.f924eb53361dep-123, 0x0.0p+0,
    -0x1.ec54180000000p-71,  0x1.f534de0000000p-96,   -0x1.f924eb53361dep-123, 0x0.0p+0,
    -0x1.ec54180000000p-71,  0x1.f534ddc000000p-96,   0x1.b6c52b3278872p-129,  0x0.0p+0,
    -0x1.ec54180000000p-71,  0x1.f534ddc000000p-96,   0x1.b6c52b3278872p-129,  0x0.0p+0,
    -0x1.ec54170000000p-71,  -0x1.5964480000000p-101, 0x1.b6c52b3278872p-129,  0x0.0p+0,
    -0x1.ec54170000000p-71,  -0x1.5964480000000p-101, 0x1.b6c52b3278872p-129,  0x0.0p+0,
    -0x1.ec54170000000p-71,  -0x1.5964480000000p-101, 0x1.b6c52b3278872p-129,  0x0.0p+0,
    -0x1.ec54170000000p-71,  -0x1.5964480000000p-101, 0x1.b6c52b3278872p-129,  0x0.0p+0,
    0x1.3abe900000000p-75,   -0x1.596447e000000p-101, -0x1.24eb53361de38p-131, 0x0.0p+0,
    0x1.3abe8f8000000p-75,   0x1.4d37704000000p-102,  -0x1.24eb53361de38p-131, 0x0.0p+0,
    0x1.3abe8fc000000p-75,   -0x1.65911fa000000p-103, 0x1.b6295993c4390p-132,  0x0.0p+0,
    0x1.3abe8fa000000p-75,   0x1.34ddc0e000000p-104,  -0x1.275a99b0ef1bfp-134, 0x0.0p+0,
    -0x1.8a82e0a000000p-76,  -0x1.96447e4000000p-105, -0x1.275a99b0ef1bfp-134, 0x0.0p+0,
    0x1.d5f47d4000000p-78,   0x1.a6ee06c000000p-107,  0x1.b14acc9e21c82p-135,  0x0.0p+0,
    0x1.d5f47d4000000p-78,   0x1.a6ee06e000000p-107,  -0x1.3ad4cd8778df8p-137, 0x0.0p+0,
    -0x1.505c158000000p-81,  -0x1.6447e48000000p-109, -0x1.3ad4cd8778df8p-137, 0x0.0p+0,
    -0x1.505c158000000p-81,  -0x1.6447e4a000000p-109, 0x1.8a5664f10e410p-138,  0x0.0p+0,
    -0x1.505c15a000000p-81,  0x1.377036e000000p-110,  -0x1.d6a66c3bc6fbep-140, 0x0.0p+0,
    0x1.5f47d4e000000p-82,   -0x1.911f924000000p-111, -0x1.d6a66c3bc6fbep-140, 0x0.0p+0,
    -0x1.4170566000000p-83,  0x1.bb81b6c000000p-113,  0x1.4acc9e21c8210p-143,  0x0.0p+0,
    0x1.7d1f534000000p-84,   0x1.bb81b6c000000p-113,  0x1.4acc9e21c8210p-143,  0x0.0p+0,
    -0x1.05c1596000000p-85,  -0x1.11f9250000000p-115, 0x1.4acc9e21c8210p-143,  0x0.0p+0,
    0x1.f47d4d4000000p-86,   -0x1.11f924e000000p-115, -0x1.6a66c3bc6fbe0p-144, 0x0.0p+0,
    -0x1.70565a0000000p-91,  0x1.dc0db62000000p-116,  0x1.2b32788720840p-145,  0x0.0p+0,
    -0x1.7056590000000p-91,  -0x1.1f924e8000000p-119, -0x1.a99b0ef1bef80p-146, 0x0.0p+0,
    -0x1.7056590000000p-91,  -0x1.1f924ec000000p-119, 0x1.5993c439041fep-148,  0x0.0p+0,
    -0x1.7056590000000p-91,  -0x1.1f924ec000000p-119, 0x1.5993c439041fep-148,  0x0.0p+0,
    -0x1.7056592000000p-91,  0x1.c0db62a000000p-120,  -0x1.4cd8778df7c03p-149, 0x0.0p+0,
    0x1.1f534de000000p-92,   -0x1.f924eb8000000p-123, 0x1.664f10e4107f9p-150,  0x0.0p+0,
    -0x1.c159644000000p-93,  -0x1.f924eb4000000p-123, -0x1.3361de37df00dp-151, 0x0.0p+0,
    0x1.f534de0000000p-96,   -0x1.f924eb6000000p-123, 0x1.993c439041fe5p-152,  0x0.0p+0,
    0x1.f534ddc000000p-96,   0x1.b6c52c0000000p-129,  -0x1.9b0ef1bef806cp-154, 0x0.0p+0,
    0x1.f534ddc000000p-96,   0x1.b6c52c0000000p-129,  -0x1.9b0ef1bef806cp-154, 0x0.0p+0,
    -0x1.5964480000000p-101, 0x1.b6c52b0000000p-129,  0x1.93c439041fe51p-156,  0x0.0p+0,
    -0x1.5964480000000p-101, 0x1.b6c52b0000000p-129,  0x1.93c439041fe51p-156,  0x0.0p+0,
    -0x1.5964480000000p-101, 0x1.b6c52b4000000p-129,  -0x1.b0ef1bef806bap-158, 0x0.0p+0,
    -0x1.5964480000000p-101, 0x1.b6c52b4000000p-129,  -0x1.b0ef1bef806bap-158, 0x0.0p+0,
    -0x1.596447e000000p-101, -0x1.24eb534000000p-131, 0x1.3c439041fe516p-160,  0x0.0p+0,
    0x1.4d37704000000p-102,  -0x1.24eb534000000p-131, 0x1.3c439041fe516p-160,  0x0.0p+0,
    -0x1.65911fa000000p-103, 0x1.b62959a000000p-132,  -0x1.8778df7c035d4p-161, 0x0.0p+0,
    0x1.34ddc0e000000p-104,  -0x1.275a99c000000p-134, 0x1.e21c820ff28b2p-163,  0x0.0p+0};

// 2^(j/32) in f32, and the logarithm of the quotient of 2^(j/32) and that.
ETALON_TABLE float kPairPower[] = {
    0x1.0000000000000p+0F, 0x1.059b0e0000000p+0F, 0x1.0b55860000000p+0F, 0x1.11301e0000000p+0F,
    0x1.172b840000000p+0F, 0x1.1d48740000000p+0F, 0x1.2387a60000000p+0F, 0x1.29e9e00000000p+0F,
    0x1.306fe00000000p+0F, 0x1.371a740000000p+0F, 0x1.3dea640000000p+0F, 0x1.44e0860000000p+0F,
    0x1.4bfdae0000000p+0F, 0x1.5342b60000000p+0F, 0x1.5ab07e0000000p+0F, 0x1.6247ec0000000p+0F,
    0x1.6a09e60000000p+0F, 0x1.71f75e0000000p+0F, 0x1.7a11480000000p+0F, 0x1.82589a0000000p+0F,
    0x1.8ace540000000p+0F, 0x1.93737c0000000p+0F, 0x1.9c49180000000p+0F, 0x1.a5503c0000000p+0F,
    0x1.ae89fa0000000p+0F, 0x1.b7f7700000000p+0F, 0x1.c199be0000000p+0F, 0x1.cb720e0000000p+0F,
    0x1.d5818e0000000p+0F, 0x1.dfc9740000000p+0F, 0x1.ea4afa0000000p+0F, 0x1.f507660000000p+0F};
ETALON_TABLE float kPairPowerRest[] = {0x0.0p+0F,
                                       -0x1.9474160000000p-25F,
                                       0x1.8d96d40000000p-25F,
                                       -0x1.dda2fe0000000p-25F,
                                       -0x1.9c0c220000000p-27F,
                                       -0x1.a2fbb40000000p-25F,
                                       0x1.9649020000000p-25F,
                                       -0x1.2b0dbc0000000p-25F,
                                       0x1.1250020000000p-25F,
                                       -0x1.cde8ce0000000p-26F,
                                       0x1.370be40000000p-25F,
                                       0x1.336de20000000p-30F,
                                       -0x1.0a35520000000p-25F,
                                       -0x1.c541b60000000p-26F,
                                       -0x1.00d8ac0000000p-27F,
                                       -0x1.6cb2840000000p-25F,
                                       0x1.26055c0000000p-26F,
                                       0x1.8b2bb80000000p-26F,
                                       -0x1.05cb440000000p-25F,
                                       -0x1.1c21420000000p-26F,
                                       0x1.67a1ca0000000p-28F,
                                       -0x1.348e560000000p-25F,
                                       0x1.a3b5e40000000p-28F,
                                       -0x1.0b7ec80000000p-25F,
                                       -0x1.f9c3060000000p-27F,
                                       -0x1.e4c8860000000p-26F,
                                       -0x1.6961b40000000p-28F,
                                       -0x1.b5151e0000000p-28F,
                                       -0x1.a5217c0000000p-28F,
                                       -0x1.ab71320000000p-26F,
                                       0x1.61428e0000000p-28F,
                                       -0x1.2ad5f80000000p-27F};

// e^r - 1 - r - r^2/2 is r^3 times this on |r| <= ln2/64 + 2^-18, with an absolute error
// below 6.5e-13.
ETALON_TABLE float kPairExp[] = {0x1.5555960000000p-3F, 0x1.5555820000000p-5F};

}  // namespace etalon::polynomials
