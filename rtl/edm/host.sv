// The stack of a node (§3.2.1): of one that asks and of one that has memory. Cycle by cycle that of
// crates/sim/phy/src/stack/host.rs, without batching.
//
// What is received is in one clock, what is sent in another; grants cross from the first to the second with what the
// state tables say of their message, since its place is free for another as soon as all of it is granted. The ports of
// requests belong to the first.
`default_nettype none

module host #(
    parameter int unsigned NODES  = 4,
    // X: messages of one destination that are announced and not granted, or asked and not answered (§3.1.2). At most 4.
    parameter int unsigned ACTIVE = 3,
    // Bytes that a request allows of its answer.
    parameter int unsigned CHUNK  = 256,
    parameter int unsigned NODE   = $clog2(NODES)
) (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic [8:0]  self_i,
    // Cycles after which a read or RMWREQ ends with NULL (§3.3); 0: never. Longer than an answer may take: see
    // rtl/README.md.
    input  wire logic [15:0] timeout_i,
    // The application: a read of, a write to, or an RMWREQ of `address` of `dst`. A write's data is at `local` in its
    // buffer. The operands of an RMWREQ, the first in the low word, are with its opcode.
    input  wire logic        request_valid_i,
    output      logic        request_ready_o,
    input  wire logic        request_is_write_i,
    input  wire logic        request_is_modify_i,
    input  wire logic [1:0]  request_opcode_i,
    input  wire logic [127:0] request_operands_i,
    input  wire logic [8:0]  request_dst_i,
    input  wire logic [63:0] request_address_i,
    input  wire logic [15:0] request_bytes_i,
    input  wire logic [63:0] request_local_i,
    output      logic [7:0]  request_id_o,
    // What it asked for ends with NULL.
    output      logic        null_o,
    output      logic [8:0]  null_node_o,
    output      logic [7:0]  null_id_o,
    // The data buffer, or for an answer the memory controller: data in the cycle after, until the next read.
    output      logic        read_o,
    output      logic        read_is_answer_o,
    output      logic [63:0] read_address_o,
    input  wire logic [63:0] read_data_i,
    // The memory controller, for an RMWREQ: the word in the cycle after, and what it becomes.
    output      logic        modify_read_o,
    output      logic [63:0] modify_read_address_o,
    input  wire logic [63:0] modify_data_i,
    output      logic        modify_write_o,
    output      logic [63:0] modify_address_o,
    output      logic [63:0] modify_data_o,
    // What came, three cycles after its blocks. Words of a write have their address, words of an answer their number of
    // bytes before. They count when `ends` says that the message is good; a new one, or `bad`, drops them.
    output      logic        deliver_begins_o,
    output      logic        deliver_word_o,
    output      logic        deliver_ends_o,
    output      logic        deliver_bad_o,
    output      logic        deliver_is_write_o,
    output      logic        deliver_last_o,
    output      logic [8:0]  deliver_node_o,
    output      logic [7:0]  deliver_id_o,
    output      logic [63:0] deliver_address_o,
    output      logic [63:0] deliver_data_o,
    output      logic [3:0]  deliver_bytes_o,
    // The line.
    input  wire logic        memory_valid_i,
    input  wire logic [65:0] memory_i,
    input  wire logic        broken_i,
    output      logic        memory_valid_o,
    output      logic [65:0] memory_o,
    input  wire logic        memory_take_i
);
  // What comes, and what it says.
  logic [1:0] kind;
  logic last, notification, grant, request, modify, begins, goes_on, ends, word_valid, word_first, malformed;
  logic [8:0] node;
  logic [7:0] id;
  logic [15:0] size;
  logic [63:0] address, word;
  logic [127:0] operands;
  logic [3:0] word_bytes;
  message_parser i_parser (
      .clk_i,
      .rst_ni,
      .valid_i       (memory_valid_i),
      .block_i       (memory_i),
      .broken_i,
      .kind_o        (kind),
      .last_o        (last),
      .node_o        (node),
      .id_o          (id),
      .size_o        (size),
      .notification_o(notification),
      .grant_o       (grant),
      .request_o     (request),
      .modify_o      (modify),
      .address_o     (address),
      .operands_o    (operands),
      .begins_o      (begins),
      .goes_on_o     (goes_on),
      .ends_o        (ends),
      .word_valid_o  (word_valid),
      .word_first_o  (word_first),
      .word_o        (word),
      .word_bytes_o  (word_bytes),
      .malformed_o   (malformed)
  );

  // The message state tables, by node and place. An id is how often its place was used, and the place.
  logic [NODES-1:0][3:0] own_used_q, own_is_write_q, answer_used_q;
  logic [NODES-1:0][3:0][5:0] own_uses_q, answer_uses_q;
  // Bytes that were granted, and that are left.
  logic [NODES-1:0][3:0][15:0] own_sent_q, own_left_q, answer_sent_q, answer_left_q;
  // {address there, address here}, and the address of what is answered.
  logic [127:0] own_address_q[4*NODES];
  logic [63:0] answer_address_q[4*NODES];

  // A request takes the first place that is free.
  logic [NODE-1:0] dst;
  logic [1:0] place;
  logic has_place, accepts, queue_full;
  assign dst = request_dst_i[NODE-1:0];
  always_comb begin
    has_place = 1'b0;
    place     = '0;
    for (int unsigned p = ACTIVE; p > 0; p--) begin
      if (!own_used_q[dst][2'(p-1)]) begin
        has_place = 1'b1;
        place     = 2'(p - 1);
      end
    end
  end
  assign request_ready_o = has_place && !queue_full && request_dst_i < 9'(NODES);
  assign request_id_o    = {own_uses_q[dst][place], place};
  assign accepts         = request_valid_i && request_ready_o;

  // What is not answered in time: of one request at most, since one is accepted a cycle.
  logic [15:0] clock_q;
  logic [NODES-1:0][3:0][15:0] deadline_q;
  logic [NODES-1:0][3:0] late;
  always_comb begin
    null_o      = 1'b0;
    null_node_o = '0;
    null_id_o   = '0;
    for (int unsigned n = 0; n < NODES; n++) begin
      for (int unsigned p = 0; p < 4; p++) begin
        late[n][p] = timeout_i != '0 && own_used_q[n][p] && !own_is_write_q[n][p] && deadline_q[n][p] == clock_q;
        if (late[n][p]) begin
          null_o      = 1'b1;
          null_node_o = 9'(n);
          null_id_o   = {own_uses_q[n][p], 2'(p)};
        end
      end
    end
  end
  always_ff @(posedge clk_i) begin
    clock_q <= rst_ni ? clock_q + 16'd1 : '0;
    if (accepts) deadline_q[dst][place] <= clock_q + timeout_i;
  end

  // A grant, or a request, which is the grant of its answer's first chunk (§3.1.1 (4)).
  logic [NODE-1:0] at;
  logic is_known, asked, own_granted, answer_granted, own_awaits, own_answered;
  assign at             = node[NODE-1:0];
  assign is_known       = node < 9'(NODES);
  assign own_granted    = grant && is_known && kind == edm_pkg::WRITE && own_used_q[at][id[1:0]]
                          && own_is_write_q[at][id[1:0]] && own_uses_q[at][id[1:0]] == id[7:2];
  assign answer_granted = grant && is_known && kind == edm_pkg::RESPONSE && answer_used_q[at][id[1:0]]
                          && answer_uses_q[at][id[1:0]] == id[7:2];
  assign own_awaits     = is_known && own_used_q[at][id[1:0]] && !own_is_write_q[at][id[1:0]]
                          && own_uses_q[at][id[1:0]] == id[7:2] && !late[at][id[1:0]];
  assign own_answered   = ends && kind == edm_pkg::RESPONSE && last && own_awaits;
  assign asked          = (request || modify) && is_known;

  logic [15:0] sent, left, allowed, now_sent, now_left;
  always_comb begin
    sent    = own_granted ? own_sent_q[at][id[1:0]] : answer_sent_q[at][id[1:0]];
    left    = own_granted ? own_left_q[at][id[1:0]] : answer_left_q[at][id[1:0]];
    allowed = size;
    if (asked) begin
      sent    = '0;
      left    = modify ? edm_pkg::modify_answer(size) : size;
      allowed = 16'(CHUNK);
    end
    if (allowed > left) allowed = left;
    now_sent = sent + allowed;
    now_left = left - allowed;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      own_used_q    <= '0;
      answer_used_q <= '0;
      own_uses_q    <= '0;
    end else begin
      if (own_granted) begin
        own_sent_q[at][id[1:0]] <= now_sent;
        own_left_q[at][id[1:0]] <= now_left;
      end
      if ((own_granted && now_left == '0) || own_answered) begin
        own_used_q[at][id[1:0]] <= 1'b0;
        own_uses_q[at][id[1:0]] <= id[7:2] + 6'd1;
      end
      for (int unsigned n = 0; n < NODES; n++) begin
        for (int unsigned p = 0; p < 4; p++) begin
          if (late[n][p]) begin
            own_used_q[n][p] <= 1'b0;
            own_uses_q[n][p] <= own_uses_q[n][p] + 6'd1;
          end
        end
      end
      if (accepts) begin
        own_used_q[dst][place]     <= 1'b1;
        own_is_write_q[dst][place] <= request_is_write_i;
        own_sent_q[dst][place]     <= '0;
        own_left_q[dst][place]     <= request_bytes_i;
      end
      if (answer_granted || asked) begin
        answer_used_q[at][id[1:0]] <= now_left != '0;
        answer_uses_q[at][id[1:0]] <= id[7:2];
        answer_sent_q[at][id[1:0]] <= now_sent;
        answer_left_q[at][id[1:0]] <= now_left;
      end
    end
  end

  logic [127:0] addresses;
  always_ff @(posedge clk_i) begin
    if (accepts) own_address_q[{dst, place}] <= {request_address_i, request_local_i};
    if (asked) answer_address_q[{at, id[1:0]}] <= address;
  end
  always_comb begin
    addresses = own_address_q[{at, id[1:0]}];
    if (!own_granted) addresses = {64'h0, request ? address : answer_address_q[{at, id[1:0]}]};
    addresses = {addresses[127:64] + 64'(sent), addresses[63:0] + 64'(sent)};
    if (modify) addresses = 128'({at, id[1:0]});
  end

  // To the grant queue: a grant in the cycle after, a request, which goes to memory first, one later. If both are to
  // enter in one cycle, the grant waits: what it allows cannot begin before the answer's end.
  logic parsed_q, parsed_is_request_q, waits_q;
  logic [154:0] parsed_what_q, waits_what_q;
  logic grant_valid, grant_take;
  logic [154:0] granted;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      parsed_q <= 1'b0;
      waits_q  <= 1'b0;
    end else begin
      parsed_q <= own_granted || answer_granted || asked;
      waits_q  <= parsed_q && (parsed_is_request_q || waits_q);
    end
    parsed_is_request_q <= asked;
    parsed_what_q       <= {modify, !own_granted, id, addresses, allowed, now_left == '0};
    waits_what_q        <= parsed_what_q;
  end

  logic queue_is_full;
  cdc_fifo #(
      .WIDTH(155),
      .DEPTH(32)
  ) i_grants (
      .write_clk_i (clk_i),
      .write_rst_ni(rst_ni),
      .push_i      (waits_q || (parsed_q && !parsed_is_request_q)),
      .data_i      (waits_q ? waits_what_q : parsed_what_q),
      .full_o      (queue_is_full),
      .read_clk_i  (clk_i),
      .read_rst_ni (rst_ni),
      .valid_o     (grant_valid),
      .data_o      (granted),
      .take_i      (grant_take)
  );

  logic data_valid, data_take, control_valid, control_take, reads, reads_modified, modified_q;
  logic [65:0] data, control;
  logic [63:0] answer;
  assign read_o = reads && !reads_modified;
  always_ff @(posedge clk_i) if (reads) modified_q <= reads_modified;
  data_builder i_data (
      .clk_i,
      .rst_ni,
      .self_i,
      .grant_valid_i (grant_valid),
      .grant_i       (granted),
      .grant_take_o  (grant_take),
      .read_o        (reads),
      .read_is_answer_o,
      .read_was_modified_o(reads_modified),
      .read_address_o,
      .read_data_i   (modified_q ? answer : read_data_i),
      .valid_o       (data_valid),
      .block_o       (data),
      .take_i        (data_take)
  );

  modify_unit #(
      .PLACE(NODE + 2)
  ) i_modify (
      .clk_i,
      .rst_ni,
      .valid_i        (modify && is_known),
      .opcode_i       (size[1:0]),
      .address_i      (address),
      .operands_i     (operands),
      .place_i        ({at, id[1:0]}),
      .read_o         (modify_read_o),
      .read_address_o (modify_read_address_o),
      .read_data_i    (modify_data_i),
      .write_o        (modify_write_o),
      .write_address_o(modify_address_o),
      .write_data_o   (modify_data_o),
      .answer_i       (reads && reads_modified),
      .answer_place_i (read_address_o[NODE+1:0]),
      .answer_o       (answer)
  );

  // Notifications and requests: the message queue, and the block.
  logic message_valid, message_take;
  logic [edm_pkg::WHAT-1:0] message;
  logic [15:0] message_size;
  logic [7:0] message_type;
  logic [1:0] message_kind;
  assign message_type = request_is_write_i ? edm_pkg::N : edm_pkg::MS;
  always_comb begin
    message_kind = request_is_write_i ? edm_pkg::WRITE : edm_pkg::READ;
    message_size = request_bytes_i;
    if (request_is_modify_i) begin
      message_kind = edm_pkg::MODIFY;
      message_size = 16'(request_opcode_i);
    end
  end
  fifo #(
      .WIDTH(edm_pkg::WHAT),
      .DEPTH(1 << $clog2(ACTIVE * NODES))
  ) i_messages (
      .clk_i,
      .rst_ni,
      .push_i (accepts),
      .data_i ({message_type, message_kind, request_dst_i, request_id_o, message_size, request_address_i,
                request_operands_i}),
      .full_o (queue_full),
      .valid_o(message_valid),
      .data_o (message),
      .take_i (message_take)
  );
  control_builder i_control (
      .clk_i,
      .rst_ni,
      .valid_i(message_valid),
      .what_i (message),
      .take_o (message_take),
      .valid_o(control_valid),
      .block_o(control),
      .take_i (control_take)
  );
  outbox i_outbox (
      .clk_i,
      .rst_ni,
      .control_valid_i(control_valid),
      .control_i      (control),
      .control_take_o (control_take),
      .data_valid_i   (data_valid),
      .data_i         (data),
      .data_take_o    (data_take),
      .valid_o        (memory_valid_o),
      .block_o        (memory_o),
      .take_i         (memory_take_i)
  );

  // What came: parsed, its address, and out.
  typedef struct packed {
    logic begins;
    logic word;
    logic ends;
    logic bad;
    logic is_write;
    logic last;
    logic [8:0] node;
    logic [7:0] id;
    logic [63:0] address;
    logic [63:0] data;
    logic [3:0] bytes;
  } delivery_t;
  delivery_t parsed_d, parsed_delivery_q, addressed_d, addressed_q, out_q;
  logic is_data, word_is_address_q;
  logic [63:0] next_q;
  assign is_data = kind == edm_pkg::WRITE || kind == edm_pkg::RESPONSE;
  assign parsed_d = {
    begins && is_data, word_valid && is_data,
    ends && (kind == edm_pkg::WRITE || (kind == edm_pkg::RESPONSE && own_awaits)), malformed, kind == edm_pkg::WRITE, last, node, id, 64'h0,
    word, word_bytes
  };
  always_comb begin
    addressed_d         = parsed_delivery_q;
    addressed_d.word    = parsed_delivery_q.word && !word_is_address_q;
    addressed_d.address = next_q;
    if (parsed_delivery_q.begins) addressed_d.address = '0;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      parsed_delivery_q <= '0;
      addressed_q       <= '0;
      out_q             <= '0;
    end else begin
      parsed_delivery_q <= parsed_d;
      addressed_q       <= addressed_d;
      out_q             <= addressed_q;
    end
    word_is_address_q <= word_first && kind == edm_pkg::WRITE;
    if (parsed_delivery_q.word && word_is_address_q) next_q <= parsed_delivery_q.data;
    else if (parsed_delivery_q.word) next_q <= addressed_d.address + 64'd8;
    else if (parsed_delivery_q.begins) next_q <= '0;
  end
  assign {deliver_begins_o, deliver_word_o, deliver_ends_o, deliver_bad_o, deliver_is_write_o, deliver_last_o,
          deliver_node_o, deliver_id_o, deliver_address_o, deliver_data_o, deliver_bytes_o} = out_q;

  logic unused;
  assign unused = notification || goes_on || queue_is_full;
endmodule
`default_nettype wire
