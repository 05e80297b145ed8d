// Runs the scheduler on what stdin has: for each cycle eight bytes, little-endian: 1 if there is a demand, tag, source,
// destination, size in bytes (16 bits each, the first two 8). Writes, for each grant, sixteen bytes: cycle (64 bits),
// source, destination, size (16 bits each), flags (last, first, tag) and cycles that it is held (8 bits each).
#include "Vbench.h"
#include "verilated.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

// Field number `at` of `width` bits; Verilator packs wide ports as arrays of 32-bit words.
template <typename T> static uint32_t field(const T &port, unsigned at, unsigned width) {
    uint32_t value = 0;
    const auto *words = reinterpret_cast<const uint32_t *>(&port);
    for (unsigned bit = 0; bit < width; bit++) {
        unsigned place = at * width + bit;
        value |= (words[place / 32] >> (place % 32) & 1) << bit;
    }
    return value;
}

int main(int argc, char **argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Vbench top{&context};
    top.rst_ni = 0;
    top.demand_i = 0;
    for (int edge = 0; edge < 4; edge++) {
        top.clk_i = edge & 1;
        top.eval();
    }
    top.rst_ni = 1;
    uint8_t in[8], out[16];
    for (uint64_t cycle = 0; fread(in, 8, 1, stdin) == 1; cycle++) {
        uint16_t src, dst, size;
        memcpy(&src, in + 2, 2);
        memcpy(&dst, in + 4, 2);
        memcpy(&size, in + 6, 2);
        top.clk_i = 0;
        top.demand_i = in[0];
        top.src_i = src;
        top.dst_i = dst;
        top.size_i = size;
        top.tag_i = in[1];
        top.eval();
        if (in[0] && !top.ready_o) {
            fprintf(stderr, "cycle %lu: a demand, and the scheduler is not ready\n", (unsigned long)cycle);
            return 1;
        }
        for (unsigned s = 0; s < PORTS; s++) {
            if (!field(top.grant_o, s, 1)) continue;
            uint16_t words[3] = {(uint16_t)s, (uint16_t)field(top.grant_dst_o, s, PORT),
                                 (uint16_t)field(top.grant_size_o, s, SIZE)};
            memcpy(out, &cycle, 8);
            memcpy(out + 8, words, 6);
            out[14] = field(top.grant_last_o, s, 1) | field(top.grant_first_o, s, 1) << 1 |
                      field(top.grant_tag_o, s, 1) << 2;
            out[15] = field(top.grant_hold_o, s, 8);
            fwrite(out, 16, 1, stdout);
        }
        top.clk_i = 1;
        top.eval();
    }
#if VM_COVERAGE
    if (const char *folder = getenv("UNRACK_RTL_COVERAGE"))
        context.coveragep()->write((std::string{folder} + "/" + std::to_string(getpid()) + ".dat").c_str());
#endif
    return 0;
}
