// The transmit side of one end of a link: encoder, multiplexer, scrambler. A memory block is on the line two cycles
// after it was taken (table 1: PCS 5.12 ns).
`default_nettype none

module line_tx (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic        strict_i,
    // The MAC's column is taken in every cycle in which it is not held up.
    output      logic        column_take_o,
    input  wire logic [71:0] column_i,
    input  wire logic        memory_valid_i,
    input  wire logic [65:0] memory_i,
    output      logic        memory_take_o,
    // What the multiplexer sent, before the scrambler.
    output      logic [65:0] block_o,
    output      logic [65:0] line_o
);
  logic [65:0] encoded;

  pcs_encoder i_encoder (
      .clk_i,
      .rst_ni,
      .take_i  (column_take_o),
      .column_i,
      .block_o (encoded)
  );

  preemption_mux i_mux (
      .clk_i,
      .rst_ni,
      .strict_i,
      .frame_take_o (column_take_o),
      .frame_i      (encoded),
      .memory_valid_i,
      .memory_i,
      .memory_take_o,
      .block_o
  );

  scrambler i_scrambler (
      .clk_i,
      .rst_ni,
      .block_i(block_o),
      .block_o(line_o)
  );
endmodule
`default_nettype wire
