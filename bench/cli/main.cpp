#include "bench/cli/cli.h"

int main(int argc, char** argv) { return etalon::cli::main_program(argc, argv); }
