// Both sides of a link's end, each on its own, as vectors: crates/sim/phy/tests/cosim/line.rs has the fields.
`default_nettype none

module line_bench (
    input  wire logic         clk_i,
    input  wire logic         rst_ni,
    input  wire logic [223:0] in_i,
    output      logic [447:0] out_o
);
  // {header byte, payload} to a block and back.
  function automatic logic [65:0] unpacked(input logic [65:0] bytes);
    unpacked = {bytes[63:0], bytes[65:64]};
  endfunction
  function automatic logic [71:0] packed_(input logic [65:0] block);
    packed_ = {6'h0, block[1:0], block[65:2]};
  endfunction

  logic strict, memory_valid, column_take, memory_take, locked, block_valid, received, broken, decoder_valid;
  logic [65:0] block, line, descrambled, memory, decoder;
  logic [3:0] wrong;
  logic [71:0] column;
  assign {strict, memory_valid} = in_i[73:72];

  line_tx i_tx (
      .clk_i,
      .rst_ni,
      .strict_i      (strict),
      .column_take_o (column_take),
      .column_i      (in_i[71:0]),
      .memory_valid_i(memory_valid),
      .memory_i      (unpacked(in_i[145:80])),
      .memory_take_o (memory_take),
      .block_o       (block),
      .line_o        (line)
  );

  line_rx i_rx (
      .clk_i,
      .rst_ni,
      .strict_i       (strict),
      .line_i         (unpacked(in_i[217:152])),
      .locked_o       (locked),
      .block_valid_o  (block_valid),
      .block_o        (descrambled),
      .memory_valid_o (received),
      .memory_o       (memory),
      .broken_o       (broken),
      .wrong_o        (wrong),
      .decoder_valid_o(decoder_valid),
      .decoder_o      (decoder),
      .column_o       (column)
  );

  assign out_o = {column, packed_(decoder), packed_(memory), packed_(descrambled), packed_(line), packed_(block),
                  wrong, 3'h0, decoder_valid, broken, received, block_valid, locked, 2'h0, memory_take, column_take};

  logic unused;
  assign unused = ^{in_i[223:218], in_i[151:146], in_i[79:74]};
endmodule
`default_nettype wire
