// A port of the switch: what it brings, what it is granted, and what leaves it. Which port it is, is an input, so that all
// are one module for synthesis. Together they are crates/sim/phy/src/stack/switch.rs, cycle by cycle.
//
// Data crosses from the receive to the transmit clock in one queue: where it goes, the order of its grants says.
`default_nettype none

module switch_port #(
    parameter int unsigned PORTS   = 4,
    parameter int unsigned TAG     = 9,
    parameter int unsigned DEMANDS = 32,
    parameter int unsigned QUEUE   = 512,
    parameter int unsigned GRANTS  = 64,
    parameter int unsigned PORT    = $clog2(PORTS),
    parameter int unsigned DEMAND  = 2 * PORT + 16 + TAG,
    // {is an RMWREQ, bytes or opcode, address, operands}
    parameter int unsigned REQUEST = 1 + 16 + 64 + 128
) (
    input  wire logic                          clk_i,
    input  wire logic                          rst_ni,
    input  wire logic [PORT-1:0]               self_i,
    input  wire logic                          memory_valid_i,
    input  wire logic [65:0]                   memory_i,
    input  wire logic                          wrong_i,
    output      logic                          disabled_o,
    output      logic                          memory_valid_o,
    output      logic [65:0]                   memory_o,
    input  wire logic                          memory_take_i,
    output      logic                          overflow_o,
    // What it asks for.
    output      logic                          demand_valid_o,
    output      logic [DEMAND-1:0]             demand_o,
    input  wire logic                          demand_take_i,
    // What it is granted, and what all are.
    input  wire logic                          grant_i,
    input  wire logic [PORT-1:0]               grant_dst_i,
    input  wire logic [TAG-1:0]                grant_tag_i,
    input  wire logic                          grant_first_i,
    input  wire logic [15:0]                   grant_size_i,
    input  wire logic [7:0]                    grant_hold_i,
    input  wire logic [PORTS-1:0]              grants_i,
    input  wire logic [PORTS-1:0][PORT-1:0]    grants_dst_i,
    input  wire logic [PORTS-1:0][TAG-1:0]     grants_tag_i,
    // The request that is an answer's first grant, from the port that brought it.
    output      logic [REQUEST-1:0]            request_o,
    input  wire logic [PORTS-1:0][REQUEST-1:0] request_i,
    // What waits to leave, from the port that brought it; which of them this one takes, and which ports take this one's.
    output      logic                          forward_valid_o,
    output      logic [PORT-1:0]               forward_dst_o,
    output      logic [65:0]                   forward_o,
    input  wire logic [PORTS-1:0]              forward_valid_i,
    input  wire logic [PORTS-1:0][PORT-1:0]    forward_dst_i,
    input  wire logic [PORTS-1:0][65:0]        forward_i,
    output      logic [PORTS-1:0]              takes_o,
    input  wire logic [PORTS-1:0]              taken_i
);
  // What the port brings.
  logic [1:0] kind;
  logic notification, reads, modifies, request_comes, begins, goes_on, ends, malformed, takes;
  logic [8:0] node;
  logic [7:0] id;
  logic [15:0] size, wanted;
  logic [63:0] address;
  logic [127:0] operands;
  /* verilator lint_off PINCONNECTEMPTY */
  message_parser i_parser (
      .clk_i,
      .rst_ni,
      .valid_i       (takes),
      .block_i       (memory_i),
      .broken_i      (1'b0),
      .kind_o        (kind),
      .last_o        (),
      .node_o        (node),
      .id_o          (id),
      .size_o        (size),
      .notification_o(notification),
      .grant_o       (),
      .request_o     (reads),
      .modify_o      (modifies),
      .address_o     (address),
      .operands_o    (operands),
      .begins_o      (begins),
      .goes_on_o     (goes_on),
      .ends_o        (ends),
      .word_valid_o  (),
      .word_first_o  (),
      .word_o        (),
      .word_bytes_o  (),
      .malformed_o   (malformed)
  );
  /* verilator lint_on PINCONNECTEMPTY */
  logic damaged;
  assign takes   = memory_valid_i && !disabled_o && !wrong_i;
  assign damaged = !disabled_o && (wrong_i || malformed);
  always_ff @(posedge clk_i) disabled_o <= rst_ni && (disabled_o || damaged);

  // Demands of this port: a notification asks for itself, a request for the node that it asks.
  logic asks, demands_full;
  logic [PORT-1:0] other;
  assign other = node[PORT-1:0];
  assign request_comes = reads || modifies;
  assign wanted = modifies ? edm_pkg::modify_answer(size) : size;
  assign asks = ((notification && kind == edm_pkg::WRITE) || request_comes)
                && !damaged && node < 9'(PORTS) && other != self_i;
  fifo #(
      .WIDTH(DEMAND),
      .DEPTH(DEMANDS)
  ) i_demands (
      .clk_i,
      .rst_ni,
      .push_i (asks),
      .data_i ({request_comes ? other : self_i, request_comes ? self_i : other, wanted, request_comes, id}),
      .full_o (demands_full),
      .valid_o(demand_valid_o),
      .data_o (demand_o),
      .take_i (demand_take_i)
  );

  // Requests are kept in a RAM, which is read for the one port that is granted to this one.
  logic [PORTS-1:0] grants_us;
  logic [PORTS-1:0][PORT+1:0] requests_of;
  logic [PORT+1:0] request_at;
  for (genvar s = 0; s < PORTS; s++) begin : g_requests_of
    assign grants_us[s]   = grants_i[s] && grants_dst_i[s] == self_i;
    assign requests_of[s] = {PORT'(s), grants_tag_i[s][1:0]};
  end
  one_hot_mux #(
      .COUNT(PORTS),
      .WIDTH(PORT + 2)
  ) i_request_at (
      .select_i(grants_us),
      .data_i  (requests_of),
      .data_o  (request_at)
  );
  logic [REQUEST-1:0] request_q[4*PORTS];
  always_ff @(posedge clk_i) begin
    if (asks && request_comes) request_q[{other, id[1:0]}] <= {modifies, size, address, operands};
  end
  assign request_o = request_q[request_at];

  // The circuits of this port, the first of which data uses up.
  logic circuit_valid, circuit_take, circuits_full;
  logic [PORT-1:0] circuit_dst;
  logic [15:0] circuit_bytes, used_q, left;
  fifo #(
      .WIDTH(PORT + 16),
      .DEPTH(GRANTS)
  ) i_circuits (
      .clk_i,
      .rst_ni,
      .push_i (grant_i),
      .data_i ({grant_dst_i, grant_size_i}),
      .full_o (circuits_full),
      .valid_o(circuit_valid),
      .data_o ({circuit_dst, circuit_bytes}),
      .take_i (circuit_take)
  );

  // Data over its circuit. What breaks off ends with a check that cannot hold.
  logic passing_q, starts, is_end, abandons, forwards, queue_full;
  logic [PORT-1:0] passing_dst_q;
  logic [65:0] forwarded;
  assign left         = circuit_bytes - used_q;
  assign starts       = begins && !damaged && kind[0] && !passing_q && circuit_valid && size <= left;
  assign circuit_take = starts && size == left;
  assign is_end       = memory_i[9:2] == edm_pkg::MT;
  assign abandons     = passing_q && (damaged || (begins && kind == edm_pkg::RESPONSE));
  assign forwards     = abandons || starts || (passing_q && (goes_on || (ends && is_end)));
  assign forwarded    = abandons ? {56'h0, edm_pkg::MT, pcs_pkg::CONTROL} : memory_i;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      passing_q <= 1'b0;
      used_q    <= '0;
    end else begin
      if (abandons) passing_q <= 1'b0;
      else if (starts) passing_q <= !ends;
      else if (ends && is_end) passing_q <= 1'b0;
      if (starts) used_q <= circuit_take ? '0 : used_q + size;
    end
    if (starts) passing_dst_q <= circuit_dst;
  end
  cdc_fifo #(
      .WIDTH(PORT + 66),
      .DEPTH(QUEUE)
  ) i_forward (
      .write_clk_i (clk_i),
      .write_rst_ni(rst_ni),
      .push_i      (forwards),
      .data_i      ({starts ? circuit_dst : passing_dst_q, forwarded}),
      .full_o      (queue_full),
      .read_clk_i  (clk_i),
      .read_rst_ni (rst_ni),
      .valid_o     (forward_valid_o),
      .data_o      ({forward_dst_o, forward_o}),
      .take_i      (|taken_i)
  );

  // What this port is granted: a grant, or the request that stands for it (§3.1.1 (4)), when its time has come.
  logic is_request, held_q, control_full, goes;
  logic [edm_pkg::WHAT-1:0] made, made_q;
  logic is_modify;
  logic [REQUEST-2:0] asked;
  logic [7:0] hold_q;
  assign is_request = grant_tag_i[8] && grant_first_i;
  assign {is_modify, asked} = request_i[grant_dst_i];
  assign made = is_request
      ? {edm_pkg::MS, is_modify ? edm_pkg::MODIFY : edm_pkg::READ, 9'(grant_dst_i), grant_tag_i[7:0], asked}
      : {edm_pkg::G, grant_tag_i[8] ? edm_pkg::RESPONSE : edm_pkg::WRITE, 9'(grant_dst_i), grant_tag_i[7:0],
         grant_size_i, 192'h0};
  assign goes = held_q ? hold_q == 8'd1 : grant_i && grant_hold_i == '0;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) held_q <= 1'b0;
    else if (held_q) held_q <= !goes;
    else held_q <= grant_i && grant_hold_i != '0;
    hold_q <= held_q ? hold_q - 8'd1 : grant_hold_i;
    if (!held_q) made_q <= made;
  end

  logic made_valid, made_take, control_valid, control_take, data_valid, data_take;
  logic [edm_pkg::WHAT-1:0] made_next;
  logic [65:0] control, data;
  fifo #(
      .WIDTH(edm_pkg::WHAT),
      .DEPTH(GRANTS)
  ) i_made (
      .clk_i,
      .rst_ni,
      .push_i (goes),
      .data_i (held_q ? made_q : made),
      .full_o (control_full),
      .valid_o(made_valid),
      .data_o (made_next),
      .take_i (made_take)
  );
  control_builder i_control (
      .clk_i,
      .rst_ni,
      .valid_i(made_valid),
      .what_i (made_next),
      .take_o (made_take),
      .valid_o(control_valid),
      .block_o(control),
      .take_i (control_take)
  );

  // Whose data leaves: a message to its end, then the next port in turn that has some.
  logic locked_q;
  logic [PORT-1:0] from_q, from;
  logic [PORTS-1:0] to_us;
  for (genvar q = 0; q < PORTS; q++) begin : g_to_us
    assign to_us[q]   = forward_valid_i[q] && forward_dst_i[q] == self_i;
    assign takes_o[q] = data_take && from == PORT'(q);
  end
  logic [PORT-1:0] next;
  logic any;
  round_robin #(
      .REQUESTS(PORTS)
  ) i_turn (
      .requests_i(to_us),
      .last_i    (from_q),
      .any_o     (any),
      .next_o    (next)
  );
  assign from       = locked_q ? from_q : next;
  assign data_valid = locked_q ? to_us[from_q] : any;
  assign data = forward_i[from];
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      locked_q <= 1'b0;
      from_q   <= '0;
    end else if (data_take) begin
      locked_q <= edm_pkg::opens_message(data[9:0], locked_q);
      from_q   <= from;
    end
  end
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

  assign overflow_o = (asks && demands_full) || (grant_i && circuits_full) || (forwards && queue_full)
                        || (goes && control_full);
endmodule
`default_nettype wire
