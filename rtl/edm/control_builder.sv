// The blocks of a notification, a grant or a request (RREQ), one a cycle.
`default_nettype none

module control_builder (
    input  wire logic         clk_i,
    input  wire logic         rst_ni,
    input  wire logic         valid_i,
    // {block type, kind, node, id, size, address}: type /N/, /G/, or /MS/ for a request, which is /MST/ where it fits.
    input  wire logic [106:0] what_i,
    output      logic         take_o,
    output      logic         valid_o,
    output      logic [65:0]  block_o,
    input  wire logic         take_i
);
  logic [7:0] kind_of_block, id;
  logic [1:0] kind;
  logic [8:0] node;
  logic [15:0] size;
  logic [63:0] address;
  assign {kind_of_block, kind, node, id, size, address} = what_i;

  // A request of at most 256 bytes from a multiple of 64 below 64 MiB is one block.
  logic is_request, is_short;
  assign is_request = kind_of_block == edm_pkg::MS;
  assign is_short   = address[63:26] == '0 && address[5:0] == '0 && size <= 16'd256;

  logic second_q;
  logic [7:0] check_q;
  logic [27:0] head;
  logic [7:0] less_one;
  logic [63:0] start;
  assign head     = {id, node, is_request, kind, is_request && is_short ? edm_pkg::MST : kind_of_block};
  assign less_one = 8'(size - 16'd1);
  assign start    = {address[15:0], 4'h0, size, head};

  logic [65:0] block;
  logic is_last;
  always_comb begin
    is_last = 1'b1;
    if (!is_request) begin
      block = edm_pkg::closed(8'hff, {12'h0, size, head});
    end else if (is_short) begin
      block = edm_pkg::closed(8'hff, {address[25:6], less_one, head});
    end else if (!second_q) begin
      block   = {start, pcs_pkg::CONTROL};
      is_last = 1'b0;
    end else begin
      block = edm_pkg::closed(check_q, {address[63:16], edm_pkg::MT});
    end
  end

  logic builds;
  assign builds = valid_i && (!valid_o || take_i);
  assign take_o = builds && is_last;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_o  <= 1'b0;
      second_q <= 1'b0;
    end else begin
      valid_o <= builds || (valid_o && !take_i);
      if (builds) second_q <= !is_last;
    end
    if (builds) begin
      block_o <= block;
      check_q <= edm_pkg::check(8'hff, start);
    end
  end
endmodule
`default_nettype wire
