// x^58 + x^39 + 1 over payloads (§49.2.6), a block a cycle. Sync headers pass.
//
// Bit i of what is sent is d(i) + s(i-39) + s(i-58). The last 58 bits sent are the state, oldest first: bits 0 to 38
// depend on it alone, and the others on these.
`default_nettype none

module scrambler (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic [65:0] block_i,
    output      logic [65:0] block_o
);
  logic [57:0] sent;
  logic [63:0] d;
  logic [38:0] low;
  logic [24:0] high;
  assign sent = block_o[65:8];
  assign d    = block_i[65:2];
  assign low  = d[38:0] ^ sent[57:19] ^ sent[38:0];
  assign high = d[63:39] ^ low[24:0] ^ {low[5:0], sent[57:39]};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) block_o <= {64'hffff_ffff_ffff_ffff, pcs_pkg::CONTROL};
    else block_o <= {high, low, block_i[1:0]};
  end
endmodule
`default_nettype wire
