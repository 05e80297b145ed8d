// What the one that is selected has; nothing but zeros if none is. The user sees to it that no two are.
`default_nettype none

module one_hot_mux #(
    parameter int unsigned COUNT = 8,
    parameter int unsigned WIDTH = 8
) (
    input  wire logic [COUNT-1:0]            select_i,
    input  wire logic [COUNT-1:0][WIDTH-1:0] data_i,
    output      logic [WIDTH-1:0]            data_o
);
  logic [COUNT-1:0][WIDTH-1:0] masked;
  for (genvar c = 0; c < COUNT; c++) begin : g_masked
    assign masked[c] = data_i[c] & {WIDTH{select_i[c]}};
  end

  // All of them ORed, as a tree: of each step's vector the lower half is what the next one needs. A loop over whole
  // vectors, since synthesis takes its time for each pass through a loop and not for the bits in it.
  logic [COUNT*WIDTH-1:0] any;
  always_comb begin
    any = masked;
    for (int unsigned step = 1; step < COUNT; step *= 2) any |= any >> (step * WIDTH);
  end
  assign data_o = any[WIDTH-1:0];
endmodule
`default_nettype wire
