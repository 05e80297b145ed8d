// What encoder and decoder of 64b/66b share (IEEE 802.3 clause 49). A block is {payload, sync header}, bit 0 first on
// the line.
`default_nettype none
/* verilator lint_off UNUSEDPARAM */ // no module has a use for all

package pcs_pkg;
  localparam logic [1:0] DATA = 2'b10;
  localparam logic [1:0] CONTROL = 2'b01;

  // Block types (figure 49-7).
  localparam logic [7:0] CONTROLS = 8'h1e;
  localparam logic [7:0] ORDERED_4 = 8'h2d;
  localparam logic [7:0] START_4 = 8'h33;
  localparam logic [7:0] ORDERED_0 = 8'h4b;
  localparam logic [7:0] ORDERED_0_4 = 8'h55;
  localparam logic [7:0] ORDERED_START = 8'h66;
  localparam logic [7:0] START_0 = 8'h78;
  // A frame that ends in lane n has byte n.
  localparam logic [63:0] TERMINATE = 64'hff_e1_d2_cc_b4_aa_99_87;

  localparam logic [65:0] IDLE_BLOCK = {56'h0, CONTROLS, CONTROL};
  localparam logic [65:0] ERROR_BLOCK = {56'h3c_78f1_e3c7_8f1e, CONTROLS, CONTROL};

  // Characters of the media-independent interface (table 49-1).
  localparam logic [7:0] START = 8'hfb;
  localparam logic [7:0] END = 8'hfd;
  localparam logic [7:0] SEQUENCE = 8'h9c;
  localparam logic [7:0] SIGNAL = 8'h5c;
  // Columns are {control, data}.
  localparam logic [71:0] ERROR_COLUMN = {8'hff, {8{8'hfe}}};
  localparam logic [71:0] LOCAL_FAULT = {8'h11, 64'h0100_009c_0100_009c};

  // What a column or block is in the order of a stream (§49.2.13.2.3), and the state it leaves. S and INIT: no state
  // is a start, no column is the beginning. (Names in full, and no enumeration: yosys wants it so.)
  localparam logic [2:0] KIND_C = 3'd0;
  localparam logic [2:0] KIND_D = 3'd1;
  localparam logic [2:0] KIND_T = 3'd2;
  localparam logic [2:0] KIND_E = 3'd3;
  localparam logic [2:0] KIND_S = 3'd4;

  // Code of a control character, and whether it has one.
  function automatic logic [7:0] code_of(input logic [7:0] character);
    case (character)
      8'h07:   code_of = {1'b1, 7'h00};
      8'h06:   code_of = {1'b1, 7'h06};
      8'h1c:   code_of = {1'b1, 7'h2d};
      8'h3c:   code_of = {1'b1, 7'h33};
      8'h7c:   code_of = {1'b1, 7'h4b};
      8'hbc:   code_of = {1'b1, 7'h55};
      8'hdc:   code_of = {1'b1, 7'h66};
      8'hf7:   code_of = {1'b1, 7'h78};
      default: code_of = 8'h00;
    endcase
  endfunction

  // The other way about.
  function automatic logic [8:0] character_of(input logic [6:0] code);
    case (code)
      7'h00:   character_of = {1'b1, 8'h07};
      7'h06:   character_of = {1'b1, 8'h06};
      7'h2d:   character_of = {1'b1, 8'h1c};
      7'h33:   character_of = {1'b1, 8'h3c};
      7'h4b:   character_of = {1'b1, 8'h7c};
      7'h55:   character_of = {1'b1, 8'hbc};
      7'h66:   character_of = {1'b1, 8'hdc};
      7'h78:   character_of = {1'b1, 8'hf7};
      default: character_of = 9'h000;
    endcase
  endfunction

  // Figures 49-16 and 49-17: an end counts only if it ends well.
  function automatic logic [2:0] next_state(input logic [2:0] state, input logic [2:0] kind, input logic ends_well);
    logic in_frame;
    in_frame = state == pcs_pkg::KIND_D || state == pcs_pkg::KIND_E;
    case (kind)
      pcs_pkg::KIND_D:       next_state = in_frame ? pcs_pkg::KIND_D : pcs_pkg::KIND_E;
      pcs_pkg::KIND_T:       next_state = in_frame && ends_well ? pcs_pkg::KIND_T : pcs_pkg::KIND_E;
      pcs_pkg::KIND_C:       next_state = state != pcs_pkg::KIND_D ? pcs_pkg::KIND_C : pcs_pkg::KIND_E;
      pcs_pkg::KIND_S:       next_state = in_frame ? pcs_pkg::KIND_E : pcs_pkg::KIND_D;
      default: next_state = pcs_pkg::KIND_E;
    endcase
  endfunction

  function automatic logic is_terminate(input logic [7:0] block_type);
    is_terminate = 1'b0;
    for (int unsigned lane = 0; lane < 8; lane++) begin
      if (block_type == pcs_pkg::TERMINATE[8*lane+:8]) is_terminate = 1'b1;
    end
  endfunction

  function automatic logic is_start(input logic [7:0] block_type);
    is_start = block_type == pcs_pkg::START_0 || block_type == pcs_pkg::START_4 || block_type == pcs_pkg::ORDERED_START;
  endfunction

  // Whether a frame is open after a block of the encoder. An error within one does not end it.
  function automatic logic opens_frame(input logic [65:0] block, input logic was_open);
    if (block[1:0] != pcs_pkg::CONTROL) opens_frame = was_open;
    else opens_frame = pcs_pkg::is_start(block[9:2]) || (was_open && block == pcs_pkg::ERROR_BLOCK);
  endfunction
endpackage
/* verilator lint_on UNUSEDPARAM */
`default_nettype wire
