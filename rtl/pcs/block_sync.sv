// Where blocks begin (figure 49-14). 66 bits of the line come in each cycle, a block begins anywhere in them.
//
// Headers are looked at in windows of 64. Without lock, a window without a bad header locks, and the first bad one
// slips by a bit; with lock, the sixteenth bad one of a window ends it.
`default_nettype none

module block_sync (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic [65:0] line_i,
    // A block is complete, and whether its place was trusted before its header was seen.
    output      logic        valid_o,
    output      logic        locked_o,
    output      logic [65:0] block_o
);
  localparam logic [6:0] WINDOW = 7'd64;
  localparam logic [4:0] BAD = 5'd16;

  // The block begins with bit `begin_q` (1 to 66) of the last word and this one: with 66 it is this one.
  logic [65:0] last_q;
  logic [6:0] begin_q;
  logic [131:0] bits;
  assign bits = {line_i, last_q} >> begin_q;
  assign block_o = bits[65:0];

  // A slip from this word's own beginning leaves no whole block in the next cycle.
  logic skip_q;
  assign valid_o = !skip_q;

  logic [6:0] seen_q, seen;
  logic [4:0] bad_q, bad;
  logic is_good, slips;
  assign is_good = block_o[0] != block_o[1];
  assign seen    = seen_q + 7'd1;
  assign bad     = bad_q + 5'(!is_good);
  assign slips   = valid_o && !is_good && (!locked_o || bad == BAD);

  always_ff @(posedge clk_i) begin
    last_q <= line_i;
    if (!rst_ni) begin
      begin_q  <= 7'd66;
      skip_q   <= 1'b0;
      locked_o <= 1'b0;
      seen_q   <= '0;
      bad_q    <= '0;
    end else begin
      skip_q <= slips && begin_q == 7'd66;
      if (slips) begin
        begin_q  <= begin_q == 7'd66 ? 7'd1 : begin_q + 7'd1;
        locked_o <= 1'b0;
        seen_q   <= '0;
        bad_q    <= '0;
      end else if (valid_o) begin
        if (seen == WINDOW) locked_o <= locked_o || bad == '0;
        seen_q <= seen == WINDOW ? '0 : seen;
        bad_q  <= seen == WINDOW ? '0 : bad;
      end
    end
  end

  logic unused;
  assign unused = ^bits[131:66];
endmodule
`default_nettype wire
