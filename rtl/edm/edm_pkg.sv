// EDM's blocks (§3.1.4, §3.2); every bit of them is in crates/phy/src/edm/layout.rs.
`default_nettype none

package edm_pkg;
  localparam logic [7:0] MS = 8'h2e;
  localparam logic [7:0] MT = 8'h65;
  localparam logic [7:0] MST = 8'h84;
  localparam logic [7:0] N = 8'hb7;
  localparam logic [7:0] G = 8'hd1;

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
`default_nettype wire
