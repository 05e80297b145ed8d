// The blocks of a notification, a grant or a request (RREQ, RMWREQ), one a cycle.
`default_nettype none

module control_builder (
    input  wire logic                       clk_i,
    input  wire logic                       rst_ni,
    input  wire logic                       valid_i,
    // {block type, kind, node, id, size, address, operands}: type /N/, /G/, or /MS/ for a request, which is /MST/ where it
    // fits. The size of an RMWREQ is its opcode.
    input  wire logic [edm_pkg::WHAT-1:0]   what_i,
    output      logic                       take_o,
    output      logic                       valid_o,
    output      logic [65:0]                block_o,
    input  wire logic                       take_i
);
  logic [7:0] kind_of_block, id;
  logic [1:0] kind;
  logic [8:0] node;
  logic [15:0] size;
  logic [63:0] address;
  logic [127:0] operands;
  assign {kind_of_block, kind, node, id, size, address, operands} = what_i;

  // A read of at most 256 bytes from a multiple of 64 below 64 MiB is one block.
  logic is_request, is_short;
  assign is_request = kind_of_block == edm_pkg::MS;
  assign is_short   = kind == edm_pkg::READ && address[63:26] == '0 && address[5:0] == '0 && size <= 16'd256;

  // The body of a request: address and operands. Block `at` has the first two bytes of word `at`, and the last six of the
  // one before.
  logic [3:0][63:0] body;
  logic [1:0] words, at_q;
  logic [47:0] rest_q;
  assign body = {64'h0, operands, address};
  always_comb begin
    words = 2'd1;
    if (kind == edm_pkg::MODIFY) words = edm_pkg::is_compare_swap(size) ? 2'd3 : 2'd2;
  end

  logic [7:0] check_q;
  logic [27:0] head;
  logic [7:0] less_one;
  assign head     = {id, node, is_request, kind, is_request && is_short ? edm_pkg::MST : kind_of_block};
  assign less_one = 8'(size - 16'd1);

  logic [65:0] block;
  logic is_last;
  always_comb begin
    is_last = 1'b1;
    if (!is_request) begin
      block = edm_pkg::closed(8'hff, {12'h0, size, head});
    end else if (is_short) begin
      block = edm_pkg::closed(8'hff, {address[25:6], less_one, head});
    end else if (at_q == words) begin
      block = edm_pkg::closed(check_q, {rest_q, edm_pkg::MT});
    end else begin
      block   = at_q == '0 ? {address[15:0], 4'h0, size, head, pcs_pkg::CONTROL}
                           : {body[at_q][15:0], rest_q, pcs_pkg::DATA};
      is_last = 1'b0;
    end
  end

  logic builds;
  assign builds = valid_i && (!valid_o || take_i);
  assign take_o = builds && is_last;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_o <= 1'b0;
      at_q    <= '0;
    end else begin
      valid_o <= builds || (valid_o && !take_i);
      if (builds) at_q <= is_last ? '0 : at_q + 2'd1;
    end
    if (builds) begin
      block_o <= block;
      rest_q  <= body[at_q][63:16];
      check_q <= edm_pkg::check(at_q == '0 ? 8'hff : check_q, block[65:2]);
    end
  end
endmodule
`default_nettype wire
