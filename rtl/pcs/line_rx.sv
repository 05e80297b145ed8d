// The receive side of one end of a link: block synchronization, descrambler, reassembly, decoder. A memory block is
// there two cycles after its last bit (table 1: PCS 5.12 ns).
`default_nettype none

module line_rx #(
    parameter int unsigned MOST  = 1131,
    parameter int unsigned DEPTH = 4096
) (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic        strict_i,
    input  wire logic [65:0] line_i,
    output      logic        locked_o,
    // A descrambled block, while locked.
    output      logic        block_valid_o,
    output      logic [65:0] block_o,
    output      logic        memory_valid_o,
    output      logic [65:0] memory_o,
    output      logic        broken_o,
    output      logic [3:0]  wrong_o,
    output      logic        decoder_valid_o,
    output      logic [65:0] decoder_o,
    output      logic [71:0] column_o
);
  logic found;
  logic [65:0] scrambled, descrambled;

  block_sync i_sync (
      .clk_i,
      .rst_ni,
      .line_i,
      .valid_o (found),
      .locked_o,
      .block_o (scrambled)
  );

  descrambler i_descrambler (
      .clk_i,
      .rst_ni,
      .valid_i(found),
      .block_i(scrambled),
      .block_o(descrambled)
  );

  // Everything behind begins anew with each lock.
  logic runs_q;
  always_ff @(posedge clk_i) begin
    runs_q        <= rst_ni && locked_o;
    block_valid_o <= rst_ni && locked_o && found;
    block_o       <= descrambled;
  end

  reassembly #(
      .MOST (MOST),
      .DEPTH(DEPTH)
  ) i_reassembly (
      .clk_i,
      .rst_ni         (runs_q),
      .strict_i,
      .valid_i        (block_valid_o),
      .block_i        (block_o),
      .memory_valid_o,
      .memory_o,
      .broken_o,
      .decoder_valid_o,
      .decoder_o,
      .wrong_o
  );

  pcs_decoder i_decoder (
      .clk_i,
      .rst_ni  (runs_q),
      .valid_i (decoder_valid_o),
      .block_i (decoder_o),
      .column_o
  );
endmodule
`default_nettype wire
