// The stack of a switch (§3.2.2): what a port brings is classified by its type; notifications and requests go to the
// scheduler; data goes over the circuit that its grant set up. Cycle by cycle that of crates/phy/src/stack/switch.rs.
//
// A port's data crosses from its receive to the transmit clock in one queue: where it goes, the order of its grants says.
`default_nettype none

module switch #(
    parameter int unsigned PORTS  = 4,
    // X of §3.1.2: of a pair, as many writes of the source and reads of the destination. At most 4.
    parameter int unsigned ACTIVE = 3,
    parameter int unsigned CHUNK  = 256,
    parameter int unsigned SRPT   = 1,
    // Blocks that may wait to leave, and grants that are not used up, by port.
    parameter int unsigned QUEUE  = 512,
    parameter int unsigned GRANTS = 64,
    parameter int unsigned PORT   = $clog2(PORTS)
) (
    input  wire logic                   clk_i,
    input  wire logic                   rst_ni,
    input  wire logic [PORTS-1:0]       memory_valid_i,
    input  wire logic [PORTS-1:0][65:0] memory_i,
    // The port brought something damaged: nothing that it brings is taken any more (§3.3).
    input  wire logic [PORTS-1:0]       wrong_i,
    output      logic [PORTS-1:0]       disabled_o,
    output      logic [PORTS-1:0]       memory_valid_o,
    output      logic [PORTS-1:0][65:0] memory_o,
    input  wire logic [PORTS-1:0]       memory_take_i,
    // A queue was full, and something was lost.
    output      logic                   overflow_o
);
  localparam int unsigned TAG = 9;
  localparam int unsigned DEMAND = 2 * PORT + 16 + TAG;
  localparam int unsigned DEMANDS = 1 << $clog2(2 * ACTIVE * PORTS);

  // What ports ask for.
  logic [PORTS-1:0] demand_valid, demand_take;
  logic [PORTS-1:0][DEMAND-1:0] demand;

  // What they are granted, by the port that is granted.
  logic [PORTS-1:0] grant, grant_first, grant_last;
  logic [PORTS-1:0][PORT-1:0] grant_dst;
  logic [PORTS-1:0][15:0] grant_size;
  logic [PORTS-1:0][TAG-1:0] grant_tag;
  logic [PORTS-1:0][7:0] grant_hold;

  // What waits to leave, by the port that brought it.
  logic [PORTS-1:0] forward_valid, forward_take;
  logic [PORTS-1:0][PORT-1:0] forward_dst;
  logic [PORTS-1:0][65:0] forward;
  // By the port that it leaves: which port's it takes.
  logic [PORTS-1:0][PORTS-1:0] takes_of;

  // The request that is an answer's first grant, by the port that brought it: {is an RMWREQ, bytes or opcode, address,
  // operands}.
  localparam int unsigned REQUEST = 1 + 16 + 64 + 128;
  logic [PORTS-1:0][REQUEST-1:0] request;
  logic [PORTS-1:0][PORT+1:0] request_at;

  logic [PORTS-1:0] overflows;
  always_ff @(posedge clk_i) overflow_o <= rst_ni && (overflow_o || |overflows);

  for (genvar p = 0; p < PORTS; p++) begin : g_port
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
        .block_i       (memory_i[p]),
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
    assign takes   = memory_valid_i[p] && !disabled_o[p] && !wrong_i[p];
    assign damaged = !disabled_o[p] && (wrong_i[p] || malformed);
    always_ff @(posedge clk_i) disabled_o[p] <= rst_ni && (disabled_o[p] || damaged);

    // Demands of this port: a notification asks for itself, a request for the node that it asks.
    logic asks, demands_full;
    logic [PORT-1:0] other;
    assign other = node[PORT-1:0];
    assign request_comes = reads || modifies;
    assign wanted = modifies ? edm_pkg::modify_answer(size) : size;
    assign asks = ((notification && kind == edm_pkg::WRITE) || request_comes)
                  && !damaged && node < 9'(PORTS) && other != PORT'(p);
    fifo #(
        .WIDTH(DEMAND),
        .DEPTH(DEMANDS)
    ) i_demands (
        .clk_i,
        .rst_ni,
        .push_i (asks),
        .data_i ({request_comes ? other : PORT'(p), request_comes ? PORT'(p) : other, wanted, request_comes, id}),
        .full_o (demands_full),
        .valid_o(demand_valid[p]),
        .data_o (demand[p]),
        .take_i (demand_take[p])
    );

    logic [REQUEST-1:0] request_q[4*PORTS];
    always_ff @(posedge clk_i) begin
      if (asks && request_comes) request_q[{other, id[1:0]}] <= {modifies, size, address, operands};
    end
    assign request[p] = request_q[request_at[p]];

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
        .push_i (grant[p]),
        .data_i ({grant_dst[p], grant_size[p]}),
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
    assign is_end       = memory_i[p][9:2] == edm_pkg::MT;
    assign abandons     = passing_q && (damaged || (begins && kind == edm_pkg::RESPONSE));
    assign forwards     = abandons || starts || (passing_q && (goes_on || (ends && is_end)));
    assign forwarded    = abandons ? {56'h0, edm_pkg::MT, pcs_pkg::CONTROL} : memory_i[p];
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
        .valid_o     (forward_valid[p]),
        .data_o      ({forward_dst[p], forward[p]}),
        .take_i      (forward_take[p])
    );
    always_comb begin
      forward_take[p] = 1'b0;
      for (int unsigned o = 0; o < PORTS; o++) forward_take[p] |= takes_of[o][p];
    end

    // The request RAM is read for the one port that is granted to this one.
    always_comb begin
      request_at[p] = '0;
      for (int unsigned s = 0; s < PORTS; s++) begin
        if (grant[s] && grant_dst[s] == PORT'(p)) request_at[p] = {PORT'(s), grant_tag[s][1:0]};
      end
    end

    // What this port is granted: a grant, or the request that stands for it (§3.1.1 (4)), when its time has come.
    logic is_request, held_q, control_full, goes;
    logic [edm_pkg::WHAT-1:0] made, made_q;
    logic is_modify;
    logic [REQUEST-2:0] asked;
    logic [7:0] hold_q;
    assign is_request = grant_tag[p][8] && grant_first[p];
    assign {is_modify, asked} = request[grant_dst[p]];
    assign made = is_request
        ? {edm_pkg::MS, is_modify ? edm_pkg::MODIFY : edm_pkg::READ, 9'(grant_dst[p]), grant_tag[p][7:0], asked}
        : {edm_pkg::G, grant_tag[p][8] ? edm_pkg::RESPONSE : edm_pkg::WRITE, 9'(grant_dst[p]), grant_tag[p][7:0],
           grant_size[p], 192'h0};
    assign goes = held_q ? hold_q == 8'd1 : grant[p] && grant_hold[p] == '0;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) held_q <= 1'b0;
      else if (held_q) held_q <= !goes;
      else held_q <= grant[p] && grant_hold[p] != '0;
      hold_q <= held_q ? hold_q - 8'd1 : grant_hold[p];
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
    always_comb begin
      from       = from_q;
      data_valid = forward_valid[from_q] && forward_dst[from_q] == PORT'(p);
      if (!locked_q) begin
        data_valid = 1'b0;
        for (int unsigned turn = PORTS; turn > 0; turn--) begin
          if (forward_valid[(32'(from_q) + turn) % PORTS] && forward_dst[(32'(from_q) + turn) % PORTS] == PORT'(p)) begin
            data_valid = 1'b1;
            from       = PORT'((32'(from_q) + turn) % PORTS);
          end
        end
      end
      for (int unsigned q = 0; q < PORTS; q++) takes_of[p][q] = data_take && from == PORT'(q);
    end
    assign data = forward[from];
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
        .valid_o        (memory_valid_o[p]),
        .block_o        (memory_o[p]),
        .take_i         (memory_take_i[p])
    );

    assign overflows[p] = (asks && demands_full) || (grant[p] && circuits_full) || (forwards && queue_full)
                          || (goes && control_full);
  end

  // Demands enter one a cycle, the ports' in turn.
  logic ready, enters;
  logic [PORT-1:0] turn_q, next;
  always_comb begin
    next   = turn_q;
    enters = 1'b0;
    for (int unsigned turn = PORTS; turn > 0; turn--) begin
      if (demand_valid[(32'(turn_q)+turn)%PORTS]) begin
        next   = PORT'((32'(turn_q) + turn) % PORTS);
        enters = 1'b1;
      end
    end
    demand_take       = '0;
    demand_take[next] = enters && ready;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) turn_q <= '0;
    else if (enters && ready) turn_q <= next;
  end

  logic [PORT-1:0] demand_src, demand_dst;
  logic [15:0] demand_size;
  logic [TAG-1:0] demand_tag;
  assign {demand_src, demand_dst, demand_size, demand_tag} = demand[next];
  pim_scheduler #(
      .PORTS (PORTS),
      .ACTIVE(2 * ACTIVE),
      .CHUNK (CHUNK),
      .TAG   (TAG),
      .SRPT  (SRPT)
  ) i_scheduler (
      .clk_i,
      .rst_ni,
      .demand_i     (enters),
      .src_i        (demand_src),
      .dst_i        (demand_dst),
      .size_i       (demand_size),
      .tag_i        (demand_tag),
      .ready_o      (ready),
      .grant_o      (grant),
      .grant_dst_o  (grant_dst),
      .grant_size_o (grant_size),
      .grant_first_o(grant_first),
      .grant_last_o (grant_last),
      .grant_tag_o  (grant_tag),
      .grant_hold_o (grant_hold)
  );

  logic unused;
  assign unused = |grant_last;
endmodule
`default_nettype wire
