// Runs a bench on what stdin has: IN bytes for each cycle. Writes OUT bytes for each: what the bench says before the
// cycle's end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include "Vbench.h"
#include "verilated.h"

int main(int argc, char **argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Vbench top{&context};
    static_assert(sizeof top.in_i >= IN && sizeof top.out_o >= OUT);
    top.rst_ni = 0;
    memset(&top.in_i, 0, sizeof top.in_i);
    for (int edge = 0; edge < 4; edge++) {
        top.clk_i = edge & 1;
        top.eval();
    }
    top.rst_ni = 1;
    while (fread(&top.in_i, IN, 1, stdin) == 1) {
        top.clk_i = 0;
        top.eval();
        fwrite(&top.out_o, OUT, 1, stdout);
        top.clk_i = 1;
        top.eval();
    }
#if VM_COVERAGE
    if (const char *folder = getenv("UNRACK_RTL_COVERAGE"))
        context.coveragep()->write((std::string{folder} + "/" + std::to_string(getpid()) + ".dat").c_str());
#endif
    return 0;
}
