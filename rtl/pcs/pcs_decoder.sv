// Blocks to columns (figures 49-7 and 49-17). A frame has ended only if what comes next can follow an end, so that a
// column comes out with the block after its own. What cannot follow, or is no block, becomes an error column.
`default_nettype none

module pcs_decoder (
    input  wire logic        clk_i,
    // Held low while there is no block lock.
    input  wire logic        rst_ni,
    input  wire logic        valid_i,
    input  wire logic [65:0] block_i,
    // {control, data}.
    output      logic [71:0] column_o
);
  logic [63:0] payload;
  assign payload = block_i[65:2];

  // By lane: the character of a code.
  logic [63:0] characters;
  logic [7:0] is_code;
  for (genvar lane = 0; lane < 8; lane++) begin : g_character
    assign {is_code[lane], characters[8*lane+:8]} = pcs_pkg::character_of(payload[8+7*lane+:7]);
  end

  logic set_0, set_4;
  assign set_0 = payload[35:32] == 4'h0 || payload[35:32] == 4'hf;
  assign set_4 = payload[39:36] == 4'h0 || payload[39:36] == 4'hf;
  logic [7:0] first_0, first_4;
  assign first_0 = payload[35:32] == 4'hf ? pcs_pkg::SIGNAL : pcs_pkg::SEQUENCE;
  assign first_4 = payload[39:36] == 4'hf ? pcs_pkg::SIGNAL : pcs_pkg::SEQUENCE;

  logic [2:0] kind;
  logic [71:0] column;
  always_comb begin
    kind   = pcs_pkg::KIND_E;
    column = pcs_pkg::ERROR_COLUMN;
    if (block_i[1:0] == pcs_pkg::DATA) begin
      kind   = pcs_pkg::KIND_D;
      column = {8'h00, payload};
    end else if (block_i[1:0] == pcs_pkg::CONTROL) begin
      case (payload[7:0])
        pcs_pkg::CONTROLS: begin
          if (&is_code) kind = pcs_pkg::KIND_C;
          column = {8'hff, characters};
        end
        pcs_pkg::START_0: begin
          kind   = pcs_pkg::KIND_S;
          column = {8'h01, payload[63:8], pcs_pkg::START};
        end
        pcs_pkg::START_4: begin
          if (&is_code[3:0]) kind = pcs_pkg::KIND_S;
          column = {8'h1f, payload[63:40], pcs_pkg::START, characters[31:0]};
        end
        pcs_pkg::ORDERED_4: begin
          if (&is_code[3:0] && set_4) kind = pcs_pkg::KIND_C;
          column = {8'h1f, payload[63:40], first_4, characters[31:0]};
        end
        pcs_pkg::ORDERED_0: begin
          if (&is_code[7:4] && set_0) kind = pcs_pkg::KIND_C;
          column = {8'hf1, characters[63:32], payload[31:8], first_0};
        end
        pcs_pkg::ORDERED_0_4: begin
          if (set_0 && set_4) kind = pcs_pkg::KIND_C;
          column = {8'h11, payload[63:40], first_4, payload[31:8], first_0};
        end
        pcs_pkg::ORDERED_START: begin
          if (set_0) kind = pcs_pkg::KIND_S;
          column = {8'h11, payload[63:40], pcs_pkg::START, payload[31:8], first_0};
        end
        default: begin
          for (int unsigned lane = 0; lane < 8; lane++) begin
            if (payload[7:0] == pcs_pkg::TERMINATE[8*lane+:8]) begin
              if (&(is_code | ~(8'hfe << lane))) kind = pcs_pkg::KIND_T;
              for (int unsigned other = 0; other < 8; other++) begin
                column[64+other] = other >= lane;
                if (other < lane) column[8*other+:8] = payload[8+8*other+:8];
                if (other == lane) column[8*other+:8] = pcs_pkg::END;
                if (other > lane) column[8*other+:8] = characters[8*other+:8];
              end
            end
          end
        end
      endcase
    end
  end

  logic [2:0] state_q, state_d, held_kind_q;
  logic [71:0] held_q;
  assign state_d = pcs_pkg::next_state(state_q, held_kind_q, kind == pcs_pkg::KIND_S || kind == pcs_pkg::KIND_C);
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= pcs_pkg::KIND_C;
      held_kind_q <= pcs_pkg::KIND_C;
      held_q      <= pcs_pkg::LOCAL_FAULT;
      column_o    <= pcs_pkg::LOCAL_FAULT;
    end else if (valid_i) begin
      state_q     <= state_d;
      held_kind_q <= kind;
      held_q      <= column;
      column_o    <= state_d == pcs_pkg::KIND_E ? pcs_pkg::ERROR_COLUMN : held_q;
    end
  end
endmodule
`default_nettype wire
