// The stack of a switch (§3.2.2): what a port brings is classified by its type; notifications and requests go to the
// scheduler; data goes over the circuit that its grant set up. Cycle by cycle that of crates/sim/phy/src/stack/switch.rs.
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
  logic [PORTS-1:0] forward_valid;
  logic [PORTS-1:0][PORT-1:0] forward_dst;
  logic [PORTS-1:0][65:0] forward;
  // By the port that it leaves: which port's it takes.
  logic [PORTS-1:0][PORTS-1:0] takes_of;

  // The request that is an answer's first grant, by the port that brought it: {is an RMWREQ, bytes or opcode, address,
  // operands}.
  localparam int unsigned REQUEST = 1 + 16 + 64 + 128;
  logic [PORTS-1:0][REQUEST-1:0] request;

  logic [PORTS-1:0] overflows;
  always_ff @(posedge clk_i) overflow_o <= rst_ni && (overflow_o || |overflows);

  for (genvar p = 0; p < PORTS; p++) begin : g_port
    logic [PORTS-1:0] taken;
    for (genvar o = 0; o < PORTS; o++) begin : g_taken
      assign taken[o] = takes_of[o][p];
    end
    switch_port #(
        .PORTS  (PORTS),
        .TAG    (TAG),
        .DEMANDS(DEMANDS),
        .QUEUE  (QUEUE),
        .GRANTS (GRANTS)
    ) i_port (
        .clk_i,
        .rst_ni,
        .self_i         (PORT'(p)),
        .memory_valid_i (memory_valid_i[p]),
        .memory_i       (memory_i[p]),
        .wrong_i        (wrong_i[p]),
        .disabled_o     (disabled_o[p]),
        .memory_valid_o (memory_valid_o[p]),
        .memory_o       (memory_o[p]),
        .memory_take_i  (memory_take_i[p]),
        .overflow_o     (overflows[p]),
        .demand_valid_o (demand_valid[p]),
        .demand_o       (demand[p]),
        .demand_take_i  (demand_take[p]),
        .grant_i        (grant[p]),
        .grant_dst_i    (grant_dst[p]),
        .grant_tag_i    (grant_tag[p]),
        .grant_first_i  (grant_first[p]),
        .grant_size_i   (grant_size[p]),
        .grant_hold_i   (grant_hold[p]),
        .grants_i       (grant),
        .grants_dst_i   (grant_dst),
        .grants_tag_i   (grant_tag),
        .request_o      (request[p]),
        .request_i      (request),
        .forward_valid_o(forward_valid[p]),
        .forward_dst_o  (forward_dst[p]),
        .forward_o      (forward[p]),
        .forward_valid_i(forward_valid),
        .forward_dst_i  (forward_dst),
        .forward_i      (forward),
        .takes_o        (takes_of[p]),
        .taken_i        (taken)
    );
  end

  // Demands enter one a cycle, the ports' in turn.
  logic ready, enters;
  logic [PORT-1:0] turn_q, next;
  round_robin #(
      .REQUESTS(PORTS)
  ) i_turn (
      .requests_i(demand_valid),
      .last_i    (turn_q),
      .any_o     (enters),
      .next_o    (next)
  );
  always_comb begin
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
