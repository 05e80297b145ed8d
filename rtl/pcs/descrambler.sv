// The inverse of the scrambler: right from the second block on, wherever it begins to listen.
`default_nettype none

module descrambler (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic        valid_i,
    input  wire logic [65:0] block_i,
    output      logic [65:0] block_o
);
  // The last 58 bits that came, oldest first.
  logic [57:0] came_q;
  logic [82:0] bits;
  assign bits    = {block_i[26:2], came_q};
  assign block_o = {block_i[65:2] ^ bits[82:19] ^ bits[63:0], block_i[1:0]};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) came_q <= '1;
    else if (valid_i) came_q <= block_i[65:8];
  end
endmodule
`default_nettype wire
