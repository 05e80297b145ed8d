// Memory blocks and a frame's blocks on one line, a block a cycle (§3.2.3); crates/sim/phy/src/edm/mux.rs says how a
// receiver tells them apart.
//
// Where memory goes first, the frame's block waits in a buffer of four, and the encoder is held up: it learns that four
// cycles later. An idle block between frames is not held up but replaced.
`default_nettype none

module preemption_mux (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    // Memory finishes its message first; else both take turns. Constant while anything is under way.
    input  wire logic        strict_i,
    // The encoder gives a block in every cycle in which it is not held up.
    output      logic        frame_take_o,
    input  wire logic [65:0] frame_i,
    input  wire logic        memory_valid_i,
    input  wire logic [65:0] memory_i,
    output      logic        memory_take_o,
    output      logic [65:0] block_o
);
  localparam int unsigned BACK_PRESSURE = 4;

  // Bit n: in n cycles from now the encoder gives no block.
  logic [BACK_PRESSURE-1:0] held_up_q;
  assign frame_take_o = !held_up_q[0];

  logic [BACK_PRESSURE-1:0][65:0] buffer_q;
  logic [2:0] count_q;
  logic [65:0] head;
  assign head = count_q == '0 ? frame_i : buffer_q[0];

  logic frame_open_q, message_open_q, memory_last_q;
  logic replaceable, after_memory, is_memorys, holds, pops;
  assign replaceable  = head == pcs_pkg::IDLE_BLOCK && !frame_open_q;
  assign after_memory = !strict_i && memory_last_q;
  assign is_memorys   = frame_open_q && message_open_q ? !after_memory
                                                       : memory_valid_i && !(after_memory && !replaceable);
  assign memory_take_o = is_memorys && memory_valid_i;
  assign holds = is_memorys && !replaceable;
  assign pops  = !holds;

  // The buffer after this cycle: the encoder's block behind, the head gone if it was sent or replaced.
  logic [BACK_PRESSURE:0][65:0] all;
  logic [2:0] count_all;
  always_comb begin
    all = {66'h0, buffer_q};
    for (int unsigned place = 0; place <= BACK_PRESSURE; place++) begin
      if (count_q == 3'(place)) all[place] = frame_i;
    end
    count_all = count_q + 3'(frame_take_o);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_up_q      <= '0;
      count_q        <= '0;
      frame_open_q   <= 1'b0;
      message_open_q <= 1'b0;
      memory_last_q  <= 1'b0;
      block_o        <= pcs_pkg::IDLE_BLOCK;
    end else begin
      held_up_q     <= {holds, held_up_q[BACK_PRESSURE-1:1]};
      count_q       <= count_all - 3'(pops);
      memory_last_q <= is_memorys;
      if (!is_memorys) frame_open_q <= pcs_pkg::opens_frame(head, frame_open_q);
      if (memory_take_o) message_open_q <= edm_pkg::opens_message(memory_i[9:0], message_open_q);
      if (is_memorys) block_o <= memory_valid_i ? memory_i : pcs_pkg::IDLE_BLOCK;
      else block_o <= head;
    end
    buffer_q <= pops ? all[BACK_PRESSURE:1] : all[BACK_PRESSURE-1:0];
  end
endmodule
`default_nettype wire
