// Nodes and a switch on lines, as vectors: crates/sim/phy/tests/cosim/rack.rs has the fields. Every end has a whole PCS; a
// line takes no time. What is read from memory or a data buffer is a function of its address; only RMWREQs change memory,
// which has 64 words for them.
`default_nettype none

module rack_bench #(
    parameter int unsigned NODES = 4,
    parameter int unsigned SRPT  = 1
) (
    input  wire logic                 clk_i,
    input  wire logic                 rst_ni,
    input  wire logic [NODES*368-1:0] in_i,
    output      logic [NODES*400-1:0] out_o
);
  // Where those words are.
  localparam logic [63:0] MODIFIED = 64'h2000;

  function automatic logic [63:0] contents(input logic [63:0] address);
    for (int unsigned at = 0; at < 8; at++) begin
      contents[8*at+:8] = 8'((address + 64'(at)) * 64'd167 ^ ((address + 64'(at)) >> 8));
    end
  endfunction
  function automatic logic [71:0] bytes_of(input logic [65:0] block);
    bytes_of = {6'h0, block[1:0], block[65:2]};
  endfunction

  logic [NODES-1:0] to_switch_valid, from_switch_valid, from_switch_take, damaged, disabled;
  logic [NODES-1:0][65:0] to_switch, from_switch;
  logic overflow;
  switch #(
      .PORTS(NODES),
      .SRPT (SRPT)
  ) i_switch (
      .clk_i,
      .rst_ni,
      .memory_valid_i(to_switch_valid),
      .memory_i      (to_switch),
      .wrong_i       (damaged),
      .disabled_o    (disabled),
      .memory_valid_o(from_switch_valid),
      .memory_o      (from_switch),
      .memory_take_i (from_switch_take),
      .overflow_o    (overflow)
  );

  for (genvar n = 0; n < NODES; n++) begin : g_node
    // {timeout, operands, column down, column up, wrong bit, address, bytes, dst, flags}, in whole bytes. Flags: there is
    // a request, it is a write, lines are strict, a bit of the line up is wrong, it is an RMWREQ, its opcode (two), and an
    // old grant comes.
    logic [367:0] in;
    logic strict;
    logic [65:0] wrong_bit;
    assign in        = in_i[368*n+:368];
    assign strict    = in[2];
    assign wrong_bit = 66'(in[3]) << in[72+:7];

    logic up_valid, up_take, up_column_take, down_column_take, broken_up, broken_down;
    logic [65:0] up_memory, up_block, up_line, down_block, down_line, down_memory;
    logic [3:0] wrong_up, wrong_down;
    logic down_valid;

    line_tx i_up_tx (
        .clk_i,
        .rst_ni,
        .strict_i      (strict),
        .column_take_o (up_column_take),
        .column_i      (in[80+:72]),
        .memory_valid_i(up_valid),
        .memory_i      (up_memory),
        .memory_take_o (up_take),
        .block_o       (up_block),
        .line_o        (up_line)
    );
    line_tx i_down_tx (
        .clk_i,
        .rst_ni,
        .strict_i      (strict),
        .column_take_o (down_column_take),
        .column_i      (in[152+:72]),
        .memory_valid_i(from_switch_valid[n]),
        .memory_i      (from_switch[n]),
        .memory_take_o (from_switch_take[n]),
        .block_o       (down_block),
        .line_o        (down_line)
    );
    /* verilator lint_off PINCONNECTEMPTY */
    line_rx i_up_rx (
        .clk_i,
        .rst_ni,
        .strict_i       (strict),
        .line_i         (up_line ^ wrong_bit),
        .locked_o       (),
        .block_valid_o  (),
        .block_o        (),
        .memory_valid_o (to_switch_valid[n]),
        .memory_o       (to_switch[n]),
        .broken_o       (broken_up),
        .wrong_o        (wrong_up),
        .decoder_valid_o(),
        .decoder_o      (),
        .column_o       ()
    );
    line_rx i_down_rx (
        .clk_i,
        .rst_ni,
        .strict_i       (strict),
        .line_i         (down_line),
        .locked_o       (),
        .block_valid_o  (),
        .block_o        (),
        .memory_valid_o (down_valid),
        .memory_o       (down_memory),
        .broken_o       (broken_down),
        .wrong_o        (wrong_down),
        .decoder_valid_o(),
        .decoder_o      (),
        .column_o       ()
    );
    assign damaged[n] = broken_up || wrong_up != '0;

    // A grant of the message that had the place of the last one granted: nobody takes it. It comes when nothing else does.
    logic granted_q, old_comes;
    logic [55:0] grant_q;
    logic [65:0] old;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) granted_q <= 1'b0;
      else if (down_valid && edm_pkg::is_control(down_memory[9:0], edm_pkg::G)) granted_q <= 1'b1;
      if (edm_pkg::is_control(down_memory[9:0], edm_pkg::G)) grant_q <= down_memory[57:2];
    end
    assign old_comes = in[7] && granted_q && !down_valid;
    assign old       = edm_pkg::closed(8'hff, {grant_q[55:28], grant_q[27:20] - 8'd4, grant_q[19:0]});

    logic ready, begins, word, ends, bad, is_write, last, read, ends_with_null, modifies;
    logic [63:0] modify_read_address, modify_word_q, modify_address, modify_word;
    logic [63:0] read_address, read_data_q, address, data;
    logic [7:0] id;
    logic [8:0] node;
    logic [3:0] bytes;
    host #(
        .NODES(NODES)
    ) i_host (
        .clk_i,
        .rst_ni,
        .self_i            (9'(n)),
        .timeout_i         (in[352+:16]),
        .request_valid_i   (in[0]),
        .request_ready_o   (ready),
        .request_is_write_i(in[1]),
        .request_is_modify_i(in[4]),
        .request_opcode_i  (in[6:5]),
        .request_operands_i(in[224+:128]),
        .request_dst_i     ({1'b0, in[8+:8]}),
        .request_address_i ({24'h0, in[32+:40]}),
        .request_bytes_i   (in[16+:16]),
        .request_local_i   ({24'h0, in[32+:40]}),
        .request_id_o      (),
        .null_o            (ends_with_null),
        .null_node_o       (),
        .null_id_o         (),
        .read_o            (read),
        .read_is_answer_o  (),
        .read_address_o    (read_address),
        .read_data_i       (read_data_q),
        .modify_read_o     (),
        .modify_read_address_o(modify_read_address),
        .modify_data_i     (modify_word_q),
        .modify_write_o    (modifies),
        .modify_address_o  (modify_address),
        .modify_data_o     (modify_word),
        .deliver_begins_o  (begins),
        .deliver_word_o    (word),
        .deliver_ends_o    (ends),
        .deliver_bad_o     (bad),
        .deliver_is_write_o(is_write),
        .deliver_last_o    (last),
        .deliver_node_o    (node),
        .deliver_id_o      (id),
        .deliver_address_o (address),
        .deliver_data_o    (data),
        .deliver_bytes_o   (bytes),
        .memory_valid_i    (down_valid || old_comes),
        .memory_i          (old_comes ? old : down_memory),
        .broken_i          (broken_down),
        .memory_valid_o    (up_valid),
        .memory_o          (up_memory),
        .memory_take_i     (up_take)
    );
    /* verilator lint_on PINCONNECTEMPTY */
    always_ff @(posedge clk_i) if (read) read_data_q <= contents(read_address);

    logic [63:0] words_q[64];
    always_ff @(posedge clk_i) begin
      modify_word_q <= words_q[modify_read_address[8:3]];
      if (!rst_ni) begin
        for (int unsigned at = 0; at < 64; at++) words_q[at] <= '0;
      end else if (modifies && modify_address[63:9] == MODIFIED[63:9]) begin
        words_q[modify_address[8:3]] <= modify_word;
      end
    end

    assign out_o[400*n+:400] = {
        modify_word, modify_address[39:0], 6'h0, ends_with_null, modifies,
        address[39:0], data, bytes_of(down_block), bytes_of(up_block), 7'h0, node, id,
        bytes, disabled[n], |wrong_down, overflow, last,
        is_write, bad, ends, word, begins, ready, down_column_take, up_column_take
    };
    logic unused;
    assign unused = ^{address[63:40], in[79], modify_read_address[63:9], modify_read_address[2:0],
                      modify_address[63:40]};
  end
endmodule
`default_nettype wire
