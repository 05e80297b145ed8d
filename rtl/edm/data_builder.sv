// Granted data as blocks (§3.2.1), in three cycles: what is next of the message, the data buffer or memory, and the
// block. One message follows the other without a gap.
//
// A body is words of eight bytes, of which a write's first is its address. Block n has the last six bytes of word n - 1
// and the first two of word n.
`default_nettype none

module data_builder (
    input  wire logic         clk_i,
    input  wire logic         rst_ni,
    input  wire logic [8:0]   self_i,
    // The grant at the head of its queue: {was modified, is an answer, id, address there, address here, bytes, last}. The
    // answer to an RMWREQ has no address: its place is there instead.
    input  wire logic         grant_valid_i,
    input  wire logic [154:0] grant_i,
    output      logic         grant_take_o,
    // Data is there in the cycle after, and stays until it is read again.
    output      logic         read_o,
    output      logic         read_is_answer_o,
    output      logic         read_was_modified_o,
    output      logic [63:0]  read_address_o,
    input  wire logic [63:0]  read_data_i,
    output      logic         valid_o,
    output      logic [65:0]  block_o,
    input  wire logic         take_i
);
  // What is next.
  logic was_modified, was_modified_q, is_answer, last;
  logic [7:0] id;
  logic [15:0] bytes;
  logic [63:0] there, here;
  assign {was_modified, is_answer, id, there, here, bytes, last} = grant_i;

  logic is_short;
  logic [13:0] words, at_q;
  logic ends;
  assign is_short = is_answer && bytes <= 16'd3;
  assign words    = 14'((17'(bytes) + 17'd7) >> 3) + 14'(!is_answer);
  assign ends     = is_short || at_q == words;

  logic address_valid_q, address_moves, build_moves, state_moves;
  assign state_moves  = grant_valid_i && (!address_valid_q || address_moves);
  assign grant_take_o = state_moves && ends;

  // Data buffer or memory: word `at` of the body is wanted.
  typedef struct packed {
    logic is_answer;
    logic is_short;
    logic is_first;
    logic is_end;
    // It is the last word.
    logic is_tail;
    logic last;
    logic [7:0] id;
    logic [15:0] bytes;
  } step_t;
  step_t state, address_q, build_q;
  logic [13:0] word_q;
  logic [63:0] there_q, here_q;
  assign state = {is_answer, is_short, at_q == '0, at_q == words, at_q + 14'd1 == words, last, id, bytes};

  assign read_is_answer_o = address_q.is_answer;
  assign read_was_modified_o = was_modified_q;
  assign read_address_o = here_q + {47'h0, word_q, 3'h0} - (address_q.is_answer ? 64'd0 : 64'd8);
  assign address_moves = address_valid_q && (!build_valid_q || build_moves);
  assign read_o = address_moves && (address_q.is_short ? address_q.bytes != '0
                  : !address_q.is_end && (address_q.is_answer || !address_q.is_first));

  // Block.
  logic build_valid_q;
  logic [63:0] first_q, word;
  logic [47:0] rest_q;
  logic [7:0] check_q;
  logic [2:0] tail;
  assign tail = build_q.bytes[2:0];
  always_comb begin
    word = read_data_i;
    if (build_q.is_first && !build_q.is_answer) word = first_q;
    else if (build_q.is_tail && tail != '0) word = read_data_i & ~(64'hffff_ffff_ffff_ffff << {tail, 3'h0});
  end

  logic [65:0] block;
  logic [27:0] head;
  logic [63:0] start;
  logic [1:0] kind;
  assign kind  = build_q.is_answer ? edm_pkg::RESPONSE : edm_pkg::WRITE;
  assign head  = {build_q.id, self_i, build_q.last, kind, build_q.is_short ? edm_pkg::MST : edm_pkg::MS};
  assign start = {word[15:0], 4'h0, build_q.bytes, head};
  always_comb begin
    if (build_q.is_short) begin
      block = edm_pkg::closed(8'hff, {word[23:0] & ~(24'hff_ffff << {tail, 3'h0}), 2'h0, build_q.bytes[1:0], head});
    end else if (build_q.is_first) begin
      block = {start, pcs_pkg::CONTROL};
    end else if (build_q.is_end) begin
      block = edm_pkg::closed(check_q, {rest_q, edm_pkg::MT});
    end else begin
      block = {word[15:0], rest_q, pcs_pkg::DATA};
    end
  end
  assign build_moves = build_valid_q && (!valid_o || take_i);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      at_q            <= '0;
      address_valid_q <= 1'b0;
      build_valid_q   <= 1'b0;
      valid_o         <= 1'b0;
    end else begin
      if (state_moves) at_q <= ends ? '0 : at_q + 14'd1;
      address_valid_q <= state_moves || (address_valid_q && !address_moves);
      build_valid_q   <= address_moves || (build_valid_q && !build_moves);
      valid_o         <= build_moves || (valid_o && !take_i);
    end
    if (state_moves) begin
      address_q <= state;
      was_modified_q <= was_modified;
      word_q    <= at_q;
      there_q   <= there;
      here_q    <= here;
    end
    if (address_moves) begin
      build_q <= address_q;
      first_q <= there_q;
    end
    if (build_moves) begin
      block_o <= block;
      rest_q  <= word[63:16];
      check_q <= edm_pkg::check(build_q.is_first ? 8'hff : check_q, block[65:2]);
    end
  end
endmodule
`default_nettype wire
