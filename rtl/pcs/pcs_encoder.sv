// Columns to blocks (figures 49-7 and 49-16). What cannot follow, or has no block, becomes an error block.
`default_nettype none

module pcs_encoder (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    // The block was taken: the next one is that of this column, {control, data}.
    input  wire logic        take_i,
    input  wire logic [71:0] column_i,
    output      logic [65:0] block_o
);
  logic [63:0] data;
  logic [7:0] control;
  assign {control, data} = column_i;

  // By lane: the code of a control character, which has its place in all blocks, and whether there is one.
  logic [55:0] codes;
  logic [7:0] has_code;
  for (genvar lane = 0; lane < 8; lane++) begin : g_code
    assign {has_code[lane], codes[7*lane+:7]} = pcs_pkg::code_of(data[8*lane+:8]);
  end

  // The code of an ordered set's first character, in lanes 0 and 4.
  logic set_0, set_4;
  assign set_0 = data[7:0] == pcs_pkg::SEQUENCE || data[7:0] == pcs_pkg::SIGNAL;
  assign set_4 = data[39:32] == pcs_pkg::SEQUENCE || data[39:32] == pcs_pkg::SIGNAL;
  logic [3:0] code_0, code_4;
  assign code_0 = data[7:0] == pcs_pkg::SIGNAL ? 4'hf : 4'h0;
  assign code_4 = data[39:32] == pcs_pkg::SIGNAL ? 4'hf : 4'h0;

  logic [2:0] kind;
  logic [63:0] payload;
  always_comb begin
    kind    = pcs_pkg::KIND_E;
    payload = '0;
    case (control)
      8'h00: begin
        kind    = pcs_pkg::KIND_D;
        payload = data;
      end
      8'h01: begin
        if (data[7:0] == pcs_pkg::START) kind = pcs_pkg::KIND_S;
        payload = {data[63:8], pcs_pkg::START_0};
      end
      8'h11: begin
        if (data[39:32] == pcs_pkg::START) begin
          if (set_0) kind = pcs_pkg::KIND_S;
          payload = {data[63:40], 4'h0, code_0, data[31:8], pcs_pkg::ORDERED_START};
        end else begin
          if (set_0 && set_4) kind = pcs_pkg::KIND_C;
          payload = {data[63:40], code_4, code_0, data[31:8], pcs_pkg::ORDERED_0_4};
        end
      end
      8'h1f: begin
        if (data[39:32] == pcs_pkg::START) begin
          if (&has_code[3:0]) kind = pcs_pkg::KIND_S;
          payload = {data[63:40], 4'h0, codes[27:0], pcs_pkg::START_4};
        end else begin
          if (&has_code[3:0] && set_4) kind = pcs_pkg::KIND_C;
          payload = {data[63:40], code_4, codes[27:0], pcs_pkg::ORDERED_4};
        end
      end
      8'hf1: begin
        if (&has_code[7:4] && set_0) kind = pcs_pkg::KIND_C;
        payload = {codes[55:28], code_0, data[31:8], pcs_pkg::ORDERED_0};
      end
      default: begin
        if (control == 8'hff && &has_code) begin
          kind    = pcs_pkg::KIND_C;
          payload = {codes, pcs_pkg::CONTROLS};
        end
        for (int unsigned lane = 0; lane < 8; lane++) begin
          if (control == 8'hff << lane && data[8*lane+:8] == pcs_pkg::END) begin
            if (&(has_code | ~(8'hfe << lane))) kind = pcs_pkg::KIND_T;
            payload[7:0] = pcs_pkg::TERMINATE[8*lane+:8];
            for (int unsigned other = 0; other < 8; other++) begin
              if (other < lane) payload[8+8*other+:8] = data[8*other+:8];
              if (other > lane) payload[8+7*other+:7] = codes[7*other+:7];
            end
          end
        end
      end
    endcase
  end

  // INIT of figure 49-16 is C: the same may follow.
  logic [2:0] state_q, state_d;
  assign state_d = pcs_pkg::next_state(state_q, kind, 1'b1);
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= pcs_pkg::KIND_C;
      block_o <= pcs_pkg::IDLE_BLOCK;
    end else if (take_i) begin
      state_q <= state_d;
      block_o <= state_d == pcs_pkg::KIND_E ? pcs_pkg::ERROR_BLOCK : {payload, kind == pcs_pkg::KIND_D ? pcs_pkg::DATA : pcs_pkg::CONTROL};
    end
  end
endmodule
`default_nettype wire
