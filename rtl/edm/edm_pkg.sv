// EDM's blocks (§3.1.4, §3.2); every bit of them is in crates/sim/phy/src/edm/layout.rs.
`default_nettype none
/* verilator lint_off UNUSEDPARAM */ // no module has a use for all

package edm_pkg;
  localparam logic [7:0] MS = 8'h2e;
  localparam logic [7:0] MT = 8'h65;
  localparam logic [7:0] MST = 8'h84;
  localparam logic [7:0] N = 8'hb7;
  localparam logic [7:0] G = 8'hd1;

  // What a message is, and what a block says of one.
  localparam logic [1:0] READ = 2'd0;
  localparam logic [1:0] WRITE = 2'd1;
  localparam logic [1:0] MODIFY = 2'd2;
  localparam logic [1:0] RESPONSE = 2'd3;

  // What an RMWREQ does, and whether it has two operands; else it has one.
  localparam logic [1:0] COMPARE_SWAP = 2'd0;
  localparam logic [1:0] FETCH_ADD = 2'd1;

  function automatic logic is_compare_swap(input logic [15:0] opcode);
    is_compare_swap = opcode == 16'(COMPARE_SWAP);
  endfunction

  // Bytes of the answer.
  function automatic logic [15:0] modify_answer(input logic [15:0] opcode);
    modify_answer = edm_pkg::is_compare_swap(opcode) ? 16'd1 : 16'd8;
  endfunction

  // Bits of what control_builder makes blocks of.
  localparam int unsigned WHAT = 235;

  // CRC-8 of x^8 + x^2 + x + 1, bits in the order of the line. Each bit of what is left after 64 is the parity of some
  // of them; for 56 they are the same, further down.
  localparam logic [63:0] CHECK_0 = 64'h07156a166329dd13;
  localparam logic [63:0] CHECK_1 = 64'h0e2ad42cc653ba26;
  localparam logic [63:0] CHECK_2 = 64'h1c55a8598ca7744d;
  localparam logic [63:0] CHECK_3 = 64'h38ab50b3194ee89b;
  localparam logic [63:0] CHECK_4 = 64'h7156a166329dd137;
  localparam logic [63:0] CHECK_5 = 64'he2ad42cc653ba26f;
  localparam logic [63:0] CHECK_6 = 64'hc24fef8ea95e99cd;
  localparam logic [63:0] CHECK_7 = 64'h838ab50b3194ee89;

  // What is left of `left` after a block.
  function automatic logic [7:0] check(input logic [7:0] left, input logic [63:0] payload);
    logic [63:0] bits;
    bits = payload ^ {56'h0, left};
    check = {^(bits & edm_pkg::CHECK_7),
             ^(bits & edm_pkg::CHECK_6),
             ^(bits & edm_pkg::CHECK_5),
             ^(bits & edm_pkg::CHECK_4),
             ^(bits & edm_pkg::CHECK_3),
             ^(bits & edm_pkg::CHECK_2),
             ^(bits & edm_pkg::CHECK_1),
             ^(bits & edm_pkg::CHECK_0)};
  endfunction

  // A control block whose last byte is the check.
  function automatic logic [65:0] closed(input logic [7:0] left, input logic [55:0] payload);
    closed = {edm_pkg::check(8'h00, {payload ^ {48'h0, left}, 8'h00}), payload, 2'b01};
  endfunction

  // Whether a block that starts so is a control block of this type.
  function automatic logic is_control(input logic [9:0] start, input logic [7:0] block_type);
    is_control = start == {block_type, pcs_pkg::CONTROL};
  endfunction

  function automatic logic is_edm(input logic [7:0] block_type);
    is_edm = block_type == edm_pkg::MS || block_type == edm_pkg::MT || block_type == edm_pkg::MST || block_type == edm_pkg::N || block_type == edm_pkg::G;
  endfunction

  // Whether a message is open after a block of memory that starts so.
  function automatic logic opens_message(input logic [9:0] start, input logic was_open);
    opens_message = edm_pkg::is_control(start, edm_pkg::MS) || (was_open && !edm_pkg::is_control(start, edm_pkg::MT));
  endfunction
endpackage
/* verilator lint_on UNUSEDPARAM */
`default_nettype wire
