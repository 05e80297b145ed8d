// Memory blocks back to what they say, in the cycle in which they come (crates/sim/phy/src/edm/assemble.rs).
//
// A body is words of eight bytes of which each block but the first brings the last six of one and the first two of the
// next. A word is told in the cycle that completes it, before the check of its message: whoever takes it must be able
// to drop it until `ends_o`.
`default_nettype none

module message_parser (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic        valid_i,
    input  wire logic [65:0] block_i,
    // A block was lost.
    input  wire logic        broken_i,
    // Of what this cycle is about.
    output      logic [1:0]  kind_o,
    output      logic        last_o,
    output      logic [8:0]  node_o,
    output      logic [7:0]  id_o,
    output      logic [15:0] size_o,
    // Good /N/, /G/; a whole RREQ with its address, a whole RMWREQ with its operands too.
    output      logic        notification_o,
    output      logic        grant_o,
    output      logic        request_o,
    output      logic        modify_o,
    output      logic [63:0] address_o,
    output      logic [127:0] operands_o,
    // A message begins, goes on, and ends as it should, all at once if it is one block.
    output      logic        begins_o,
    output      logic        goes_on_o,
    output      logic        ends_o,
    output      logic        word_valid_o,
    output      logic        word_first_o,
    output      logic [63:0] word_o,
    output      logic [3:0]  word_bytes_o,
    output      logic        malformed_o
);
  logic [63:0] payload;
  logic is_data, is_ms, is_mt, is_mst, is_n, is_g;
  assign payload = block_i[65:2];
  assign is_data = valid_i && block_i[1:0] == pcs_pkg::DATA;
  assign is_ms   = valid_i && edm_pkg::is_control(block_i[9:0], edm_pkg::MS);
  assign is_mt   = valid_i && edm_pkg::is_control(block_i[9:0], edm_pkg::MT);
  assign is_mst  = valid_i && edm_pkg::is_control(block_i[9:0], edm_pkg::MST);
  assign is_n    = valid_i && edm_pkg::is_control(block_i[9:0], edm_pkg::N);
  assign is_g    = valid_i && edm_pkg::is_control(block_i[9:0], edm_pkg::G);

  // The message under way.
  logic open_q, last_q, first_q;
  logic [1:0] kind_q;
  logic [8:0] node_q;
  logic [7:0] id_q, check_q;
  logic [15:0] size_q, carry_q;
  // Data blocks that it still has, and bytes of its last word.
  logic [13:0] data_left_q;
  // Its first word, and the last that is whole.
  logic [63:0] first_word_q, word_q;
  logic [2:0] tail_q;

  logic of_open;
  logic [7:0] check;
  logic holds;
  assign of_open = is_data || is_mt;
  assign check   = edm_pkg::check(of_open ? check_q : 8'hff, payload);
  assign holds   = check == '0;

  // What the block itself says.
  logic [1:0] kind;
  logic [15:0] size;
  logic [16:0] body;
  logic [13:0] words;
  assign kind = payload[9:8];
  always_comb begin
    if (!is_mst) size = payload[43:28];
    else if (kind == edm_pkg::READ) size = 16'(payload[35:28]) + 16'd1;
    else size = 16'(payload[29:28]);
    case (kind)
      edm_pkg::READ:   body = 17'd8;
      edm_pkg::WRITE:  body = 17'(size) + 17'd8;
      edm_pkg::MODIFY: body = edm_pkg::is_compare_swap(size) ? 17'd24 : 17'd16;
      default:         body = 17'(size);
    endcase
  end
  assign words = 14'((body + 17'd7) >> 3);

  // What is wrong with it.
  logic start_holds, control_holds, short_holds, tail_holds, end_holds;
  logic [23:0] beyond;
  logic [63:0] word;
  assign word        = is_mt ? {payload[55:8], carry_q} : {payload[47:0], carry_q};
  assign start_holds = payload[47:44] == '0
                       && (kind == edm_pkg::MODIFY ? payload[10] && size <= 16'd2 : size != '0)
                       && (kind != edm_pkg::READ || payload[10]);
  assign control_holds = holds && kind[0] && !payload[10] && payload[55:44] == '0 && size != '0;
  assign beyond = payload[55:32] >> {payload[29:28], 3'h0};
  assign short_holds = holds && (kind == edm_pkg::READ ? payload[10]
                       : kind == edm_pkg::RESPONSE && payload[31:30] == '0 && beyond == '0);
  assign tail_holds = tail_q == '0 || (word >> {tail_q, 3'h0}) == '0;
  assign end_holds  = open_q && data_left_q == '0 && holds && tail_holds;
  assign malformed_o = (is_ms && (!start_holds || open_q)) || ((is_n || is_g) && !control_holds)
                       || (is_mst && !short_holds) || (is_mt && !end_holds)
                       || (is_data && (!open_q || data_left_q == '0)) || (broken_i && open_q);

  assign kind_o         = of_open ? kind_q : kind;
  assign last_o         = of_open ? last_q : payload[10];
  assign node_o         = of_open ? node_q : payload[19:11];
  assign id_o           = of_open ? id_q : payload[27:20];
  assign size_o         = of_open ? size_q : size;
  assign notification_o = is_n && control_holds;
  assign grant_o        = is_g && control_holds;
  assign begins_o       = (is_ms && start_holds) || (is_mst && short_holds);
  assign goes_on_o      = is_data && open_q && data_left_q != '0;
  assign ends_o         = (is_mt && end_holds) || (is_mst && short_holds);
  assign request_o      = ends_o && kind_o == edm_pkg::READ;
  assign modify_o       = ends_o && kind_o == edm_pkg::MODIFY;
  assign operands_o     = edm_pkg::is_compare_swap(size_q) ? {word, word_q} : {64'h0, word};
  always_comb begin
    if (is_mst) address_o = {38'h0, payload[55:36], 6'h0};
    else address_o = modify_o ? first_word_q : word;
  end

  assign word_valid_o = goes_on_o || (is_mt && open_q) || (is_mst && short_holds && size != '0);
  assign word_first_o = is_mst || first_q;
  assign word_o       = is_mst ? {40'h0, payload[55:32]} : word;
  always_comb begin
    if (is_mst) word_bytes_o = {2'h0, payload[29:28]};
    else word_bytes_o = is_mt && tail_q != '0 ? {1'b0, tail_q} : 4'd8;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      open_q <= 1'b0;
    end else if (is_ms) begin
      open_q <= start_holds;
    end else if (is_mt || (is_data && data_left_q == '0) || broken_i) begin
      open_q <= 1'b0;
    end
    if (is_ms) begin
      kind_q      <= kind;
      last_q      <= payload[10];
      node_q      <= payload[19:11];
      id_q        <= payload[27:20];
      size_q      <= size;
      data_left_q <= words - 14'd1;
      tail_q      <= body[2:0];
      carry_q     <= payload[63:48];
      first_q     <= 1'b1;
      check_q     <= check;
    end else if (is_data) begin
      data_left_q <= data_left_q - 14'd1;
      carry_q     <= payload[63:48];
      first_q     <= 1'b0;
      check_q     <= check;
      word_q      <= word;
      if (first_q) first_word_q <= word;
    end
  end
endmodule
`default_nettype wire
