// The receiving end of the pre-emption multiplexer (§3.2, §3.2.3): memory blocks out, frames put together again.
//
// A frame's blocks are kept until its last one is there, and then given to the decoder in consecutive cycles; in all
// others it gets idle. Blocks between frames that are not idle go on when no frame does. Two banks of memory, since a
// frame may come with an idle block before it that keeps it apart from the last one.
`default_nettype none

module reassembly #(
    // Blocks of the longest frame: start, contents with FCS, end. DEPTH holds one that is given and one that comes.
    parameter int unsigned MOST  = 1131,
    parameter int unsigned DEPTH = 4096
) (
    input  wire logic        clk_i,
    // Held low while there is no block lock.
    input  wire logic        rst_ni,
    input  wire logic        strict_i,
    input  wire logic        valid_i,
    input  wire logic [65:0] block_i,
    // Memory's block of the cycle before.
    output      logic        memory_valid_o,
    output      logic [65:0] memory_o,
    // A block was lost: an open message is spoiled.
    output      logic        broken_o,
    output      logic        decoder_valid_o,
    output      logic [65:0] decoder_o,
    // What no sender sends, each for a cycle (§3.3: the link is to be disabled): a bad header, an unknown type, data or
    // an end where nothing is open, a frame that does not end.
    output      logic [3:0]  wrong_o
);
  localparam int unsigned ADDRESS = $clog2(DEPTH);

  logic [7:0] kind;
  logic is_data, is_ctl, is_memory_type, is_known;
  assign kind           = block_i[9:2];
  assign is_data        = block_i[1:0] == pcs_pkg::DATA;
  assign is_ctl         = block_i[1:0] == pcs_pkg::CONTROL;
  assign is_memory_type = edm_pkg::is_edm(kind);
  assign is_known = kind == pcs_pkg::CONTROLS || kind == pcs_pkg::ORDERED_4 || kind == pcs_pkg::ORDERED_0 || kind == pcs_pkg::ORDERED_0_4
                    || pcs_pkg::is_start(kind) || pcs_pkg::is_terminate(kind);

  logic frame_open_q, message_open_q, memory_last_q, gap_q;
  logic frame_open_d, message_open_d, memory_last_d, gap_d;
  logic to_memory, data_is_memorys, keeps, keeps_idle, ends, spoils, passes, loses, too_long;
  logic [3:0] wrong;
  always_comb begin
    if (frame_open_q && message_open_q) data_is_memorys = strict_i || !memory_last_q;
    else data_is_memorys = message_open_q && !frame_open_q;
  end

  // Blocks that are kept, and of these how many the open frame has.
  logic [ADDRESS-1:0] write_q, read_q, whole_q;
  logic [ADDRESS-1:0] unfinished;
  logic anything_kept;
  assign unfinished    = write_q - whole_q;
  assign anything_kept = write_q != read_q;
  assign too_long      = unfinished > ADDRESS'(MOST);

  always_comb begin
    frame_open_d   = frame_open_q;
    message_open_d = message_open_q;
    memory_last_d  = memory_last_q;
    gap_d          = gap_q;
    to_memory      = 1'b0;
    keeps          = 1'b0;
    keeps_idle     = 1'b0;
    ends           = 1'b0;
    spoils         = 1'b0;
    passes         = 1'b0;
    loses          = 1'b0;
    wrong          = '0;
    if (is_data) begin
      memory_last_d = data_is_memorys;
      if (data_is_memorys) begin
        to_memory = 1'b1;
        gap_d     = 1'b1;
      end else if (frame_open_q) begin
        keeps = 1'b1;
      end else begin
        wrong[2] = 1'b1;
        gap_d    = 1'b1;
      end
    end else if (!is_ctl) begin
      wrong[0] = 1'b1;
      loses    = 1'b1;
    end else if (is_memory_type) begin
      to_memory      = 1'b1;
      message_open_d = edm_pkg::opens_message(block_i[9:0], message_open_q);
      memory_last_d  = 1'b1;
      gap_d          = 1'b1;
    end else if (!is_known) begin
      wrong[1] = 1'b1;
      loses    = 1'b1;
    end else if (frame_open_q && message_open_q && block_i == pcs_pkg::IDLE_BLOCK) begin
      memory_last_d = 1'b1;  // it fills memory's turn
    end else begin
      memory_last_d = 1'b0;
      frame_open_d  = pcs_pkg::opens_frame(block_i, frame_open_q);
      if (pcs_pkg::is_start(kind)) begin
        keeps = 1'b1;
        if (frame_open_q) begin
          spoils = 1'b1;
          gap_d  = 1'b1;
        end else begin
          keeps_idle = gap_q && anything_kept;
          gap_d      = 1'b0;
        end
      end else if (frame_open_q && pcs_pkg::is_terminate(kind)) begin
        keeps = 1'b1;
        ends  = !too_long;
        gap_d = 1'b0;
      end else if (frame_open_q && block_i == pcs_pkg::ERROR_BLOCK) begin
        keeps = 1'b1;
      end else if (frame_open_q) begin
        spoils = 1'b1;
        gap_d  = 1'b1;
      end else if (pcs_pkg::is_terminate(kind)) begin
        wrong[2] = 1'b1;
      end else begin
        passes = 1'b1;
        gap_d  = 1'b1;
      end
    end
    if (loses) begin
      message_open_d = 1'b0;
      if (frame_open_q) begin
        spoils       = 1'b1;
        frame_open_d = 1'b0;
        gap_d        = 1'b1;
      end
    end
    if (keeps && too_long && !pcs_pkg::is_start(kind)) begin
      keeps        = 1'b0;
      spoils       = 1'b1;
      frame_open_d = 1'b0;
      gap_d        = !pcs_pkg::is_terminate(kind) || is_data;
    end
    wrong[3] = spoils;
  end

  // A whole frame's block goes as soon as there is one; the one that ends it counts at once.
  logic [ADDRESS-1:0] first, whole_d;
  logic gives;
  assign first   = spoils ? whole_q : write_q;
  assign whole_d = ends ? write_q + ADDRESS'(1) : whole_q;
  assign gives   = whole_d != read_q;

  // The banks have even and odd places.
  logic [1:0][65:0] bank_q;
  logic gave_q, gave_odd_q, gave_valid_q;
  logic [65:0] passing_q;
  for (genvar bank = 0; bank < 2; bank++) begin : g_bank
    logic [65:0] memory_q[DEPTH/2];
    logic writes;
    logic [65:0] written;
    logic [ADDRESS-2:0] place;
    always_comb begin
      writes  = 1'b0;
      place   = first[ADDRESS-1:1];
      written = block_i;
      if (valid_i && keeps && first[0] == bank[0]) begin
        writes = 1'b1;
        if (keeps_idle) written = pcs_pkg::IDLE_BLOCK;
      end
      if (valid_i && keeps && keeps_idle && first[0] != bank[0]) begin
        writes = 1'b1;
        place  = first[ADDRESS-1:1] + (ADDRESS - 1)'(first[0]);
      end
    end
    always_ff @(posedge clk_i) begin
      if (writes) memory_q[place] <= written;
      if (valid_i && gives) bank_q[bank] <= memory_q[read_q[ADDRESS-1:1]];
    end
  end

  assign decoder_o = gave_q ? bank_q[gave_odd_q] : passing_q;
  assign decoder_valid_o = gave_valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      frame_open_q   <= 1'b0;
      message_open_q <= 1'b0;
      memory_last_q  <= 1'b0;
      gap_q          <= 1'b0;
      write_q        <= '0;
      read_q         <= '0;
      whole_q        <= '0;
      gave_q         <= 1'b0;
      gave_odd_q     <= 1'b0;
      gave_valid_q   <= 1'b0;
      passing_q      <= pcs_pkg::IDLE_BLOCK;
      memory_valid_o <= 1'b0;
      broken_o       <= 1'b0;
      wrong_o        <= '0;
    end else begin
      memory_valid_o <= valid_i && to_memory;
      broken_o       <= valid_i && loses && message_open_q;
      wrong_o        <= valid_i ? wrong : '0;
      gave_valid_q   <= valid_i;
      if (valid_i) begin
        frame_open_q   <= frame_open_d;
        message_open_q <= message_open_d;
        memory_last_q  <= memory_last_d;
        gap_q          <= gap_d;
        write_q        <= keeps ? first + (keeps_idle ? ADDRESS'(2) : ADDRESS'(1)) : first;
        whole_q        <= whole_d;
        read_q         <= read_q + ADDRESS'(gives);
        gave_q         <= gives;
        gave_odd_q     <= read_q[0];
        passing_q      <= passes ? block_i : pcs_pkg::IDLE_BLOCK;
      end
    end
    memory_o <= block_i;
  end
endmodule
`default_nettype wire
