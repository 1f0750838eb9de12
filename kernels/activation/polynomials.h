// Written by generate_polynomials.py. Coefficients, lowest power first.
#pragma once

namespace etalon::polynomials {

// (e^r - 1 - r)/r^2 on |r| <= ln2/2: relative error below 2^-48.
inline constexpr double kExpm1[] = {
    0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,  0x1.11111111109b3p-7,
    0x1.6c16c1788bd90p-10, 0x1.a01a01a7c41d5p-13, 0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19,
    0x1.289185613a3d6p-22, 0x1.af38a9b0ec855p-26};

// (log((1+s)/(1-s)) - 2s)/s^3 in powers of s^2, m = (1+s)/(1-s) in [0.707, 1.414]: relative error
// below 2^-46.
inline constexpr double kLog[] = {0x1.5555555555558p-1, 0x1.99999999952b2p-2, 0x1.2492492df6947p-2,
                                  0x1.c71c62debf86bp-3, 0x1.7462b69705382p-3, 0x1.39fe208c33457p-3,
                                  0x1.2b5b5fb2eac92p-3};

// the same for |s| <= 1/3: relative error below 2^-48.
inline constexpr double kLog1p[] = {
    0x1.5555555555555p-1, 0x1.9999999999944p-2, 0x1.2492492499d46p-2, 0x1.c71c71bedea97p-3,
    0x1.745d19937b1fcp-3, 0x1.3b13515f6f9efp-3, 0x1.111abdc8abe16p-3, 0x1.e0a2d581ab68fp-4,
    0x1.bc37f0140c19ep-4, 0x1.32e0d25c9c761p-4, 0x1.401d3e65cdc48p-3};

// erf(x)/x in powers of x^2, |x| <= 1/2: relative error below 2^-50.
inline constexpr double kErf[] = {
    0x1.20dd750429b6dp+0,  -0x1.812746b0379b4p-2,  0x1.ce2f21a03d7d9p-4,
    -0x1.b82ce30f291fdp-6, 0x1.565bcbf854bfbp-8,   -0x1.c02d4f4607141p-11,
    0x1.f98dace8138eep-14, -0x1.f22458d16a63fp-17, 0x1.8b46e196ddb44p-20};

// erfcx(x) in powers of u = kErfcxOffset - kErfcxScale/(x + kErfcxShift), 0 <= x <= 10.4, |u| <= 1:
// relative error below 2^-50; the terms' sizes add up to at most 18.4 times the value.
inline constexpr double kErfcxShift = 3.5;
inline constexpr double kErfcxOffset = 0x1.ac4ec4ec4ec4fp+0;
inline constexpr double kErfcxScale = 0x1.2b62762762762p+3;
inline constexpr double kErfcx[] = {
    0x1.f7a366e773a83p-3,   -0x1.547d2c9c57b1ep-2, 0x1.c9c8ee246886dp-3,   -0x1.f3b7df9c9f8e9p-4,
    0x1.b4e4be142ccb7p-5,   -0x1.2709087564d66p-6, 0x1.192cc2d465716p-8,   -0x1.0e9e962e8ad51p-11,
    -0x1.0de2832e9b4edp-14, 0x1.31e242c33a4d8p-15, -0x1.1d2d1b95a5769p-19, -0x1.dcb4e261d50bcp-20,
    0x1.24cead0ca6c55p-22,  0x1.9bef6936f126fp-24, -0x1.5fbcf029bae7bp-26, -0x1.bc7d4588692eep-28,
    0x1.67dbf41afa327p-30,  0x1.1457b0e521930p-31, -0x1.077ffbfd53e78p-34, -0x1.116ffdded1989p-35};

}  // namespace etalon::polynomials
