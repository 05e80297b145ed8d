// EDM's in-network scheduler (EDM §3.1): priority-based parallel iterative matching, three cycles an iteration.
//
// Cycle by cycle the same as `unrack_protocol::edm::Scheduler` when control takes no time on a link: rtl/cosim holds
// the two beside each other.
//
// - A demand (src, dst, bytes, and a tag that its grants have) joins its pair's queue, which is first in first out (§3.1.1
//   (5)). Per destination there is an ordered list of the sources at the head of such a queue, per source one of
//   destinations (§3.1.2), both with the key of that head: order of arrival (FCFS), or bytes left and then that (SRPT).
// - An iteration starts when the pipeline is free and there is a pair to match. In its first cycle every free
//   destination asks the first free source of its list; in the second every source that was asked takes the first of
//   those that asked in its list; in the third both are busy, what is left is counted down, and the lists have the new
//   keys. One demand is taken in each cycle: never in the third, when `ready_o` is low.
// - A port is busy for the blocks of its chunk (§3.1.1 (7)). An iteration matches ports that will be free before the
//   grants of the next one, and a grant says how many cycles it is to be held until both are: `grant_hold_o`.
`default_nettype none

module pim_scheduler #(
    parameter int unsigned PORTS        = 8,
    // Demands of a pair at once: X of §3.1.2.
    parameter int unsigned ACTIVE       = 3,
    // Bytes that a grant allows at most, and blocks that frame a chunk.
    parameter int unsigned CHUNK        = 256,
    parameter int unsigned FRAMING      = 2,
    // Bits of a demand's size in bytes, and of its tag.
    parameter int unsigned SIZE         = 16,
    parameter int unsigned TAG          = 1,
    parameter int unsigned SRPT         = 1,
    // Bits of the order of arrival. It wraps: see ORDER in rtl/README.md.
    parameter int unsigned ORDER        = 32,
    parameter int unsigned PORT         = $clog2(PORTS)
) (
    input  wire logic                         clk_i,
    input  wire logic                         rst_ni,
    input  wire logic                         demand_i,
    input  wire logic [PORT-1:0]              src_i,
    input  wire logic [PORT-1:0]              dst_i,
    input  wire logic [SIZE-1:0]              size_i,
    input  wire logic [TAG-1:0]               tag_i,
    output      logic                         ready_o,
    // By source, in the third cycle of an iteration.
    output      logic [PORTS-1:0]             grant_o,
    output      logic [PORTS-1:0][PORT-1:0]   grant_dst_o,
    output      logic [PORTS-1:0][SIZE-1:0]   grant_size_o,
    output      logic [PORTS-1:0]             grant_first_o,
    output      logic [PORTS-1:0]             grant_last_o,
    output      logic [PORTS-1:0][TAG-1:0]    grant_tag_o,
    // Cycles from the end of this one until the grant may go.
    output      logic [PORTS-1:0][7:0]        grant_hold_o
);
  localparam int unsigned KEY = SRPT != 0 ? SIZE + ORDER : ORDER;
  localparam int unsigned ITERATION = 3;
  logic [ORDER-1:0] arrived_q;

  // Cycles until a port is free.
  logic [PORTS-1:0][7:0] src_left_q;
  logic [PORTS-1:0][7:0] dst_left_q;

  // The cycle of the iteration: 0 when it may start.
  logic [1:0] phase_q;

  function automatic logic [KEY-1:0] key_of(input logic [SIZE-1:0] size, input logic [ORDER-1:0] order);
    key_of = KEY'({size, order});
  endfunction

  // Ports that an iteration that starts now may match: free before the grants of the next one.
  logic [PORTS-1:0] src_free;
  logic [PORTS-1:0] dst_free;
  always_comb begin
    for (int unsigned p = 0; p < PORTS; p++) begin
      src_free[p] = src_left_q[p] < 8'(2 * ITERATION);
      dst_free[p] = dst_left_q[p] < 8'(2 * ITERATION);
    end
  end

  // First cycle: what each destination asks.
  logic [PORTS-1:0] asks;
  logic [PORTS-1:0][PORT-1:0] asked_src;
  logic [PORTS-1:0] asks_q;
  logic [PORTS-1:0][PORT-1:0] asked_src_q;
  // Second cycle: what each source grants.
  logic [PORTS-1:0][PORTS-1:0] asked_by;
  logic [PORTS-1:0] takes;
  logic [PORTS-1:0][PORT-1:0] taken_dst;
  logic [PORTS-1:0] takes_q;
  logic [PORTS-1:0][PORT-1:0] taken_dst_q;

  // Third cycle: the pair that each source is matched with, and what it is granted.
  logic settles;
  logic [PORTS-1:0][SIZE-1:0] head_size;
  logic [PORTS-1:0][SIZE-1:0] next_size;
  logic [PORTS-1:0][ORDER-1:0] next_order;
  logic [PORTS-1:0] stays;
  logic [PORTS-1:0][7:0] busy;
  // By source: whether its queue for the destination of the demand is empty, and has room.
  logic [PORTS-1:0] is_head, has_room;
  logic takes_demand;
`ifdef FORMAL
  logic [PORTS-1:0][PORTS-1:0] waits;
  logic [PORTS-1:0][PORTS-1:0][SIZE+$clog2(ACTIVE+1)-1:0] kept;
`endif
  assign settles = phase_q == 2'd2;
  for (genvar s = 0; s < PORTS; s++) begin : g_settle
    logic [PORT-1:0] d;
    logic [7:0] hold;
    logic started, has_next;
    logic [SIZE-1:0] left, second_size;
    logic [ORDER-1:0] order, second_order;
    source_queues #(
        .PORTS (PORTS),
        .ACTIVE(ACTIVE),
        .SIZE  (SIZE),
        .ORDER (ORDER),
        .TAG   (TAG)
    ) i_queues (
        .clk_i,
        .rst_ni,
        .push_i         (takes_demand && src_i == PORT'(s)),
        .push_dst_i     (dst_i),
        .push_size_i    (size_i),
        .push_order_i   (arrived_q),
        .push_tag_i     (tag_i),
        .push_is_head_o (is_head[s]),
        .push_has_room_o(has_room[s]),
        .dst_i          (d),
        .size_o         (head_size[s]),
        .order_o        (order),
        .tag_o          (grant_tag_o[s]),
        .started_o      (started),
        .has_next_o     (has_next),
        .next_size_o    (second_size),
        .next_order_o   (second_order),
        .grant_i        (grant_o[s]),
        .last_i         (grant_last_o[s]),
        .left_i         (left)
`ifdef FORMAL
        ,
        .waits_o        (waits[s]),
        .kept_o         (kept[s])
`endif
    );
    assign d    = taken_dst_q[s];
    assign hold = src_left_q[s] > dst_left_q[d] ? src_left_q[s] : dst_left_q[d];
    assign left = head_size[s] - SIZE'(CHUNK);
    assign grant_o[s]       = settles & takes_q[s];
    assign grant_dst_o[s]   = d;
    assign grant_last_o[s]  = head_size[s] <= SIZE'(CHUNK);
    assign grant_size_o[s]  = grant_last_o[s] ? head_size[s] : SIZE'(CHUNK);
    // One more cycle ends the iteration; what is left then is how long the grant is held.
    assign grant_hold_o[s]  = hold > 8'd1 ? hold - 8'd1 : 8'd0;
    assign grant_first_o[s] = !started;
    assign busy[s]          = grant_hold_o[s] + 8'((grant_size_o[s] + SIZE'(7)) >> 3) + 8'(FRAMING);
    assign stays[s]         = !grant_last_o[s] || has_next;
    assign next_size[s]     = grant_last_o[s] ? second_size : left;
    assign next_order[s]    = grant_last_o[s] ? second_order : order;
  end

`ifdef FORMAL
  logic [PORTS-1:0][PORTS-1:0] in_dst, in_src;
`endif

  // A demand that is the first of its pair goes into both lists.
  assign ready_o = !settles;
  // Senders keep to ACTIVE; what one that does not asks for is lost.
  assign takes_demand = demand_i & ready_o & has_room[src_i];

  for (genvar g = 0; g < PORTS; g++) begin : g_port
    // The list of destination g, of sources.
    logic dst_delete, dst_insert;
    logic [PORT-1:0] dst_name, dst_new;
    logic [KEY-1:0] dst_key;
    /* verilator lint_off UNUSEDSIGNAL */
    logic [KEY-1:0] dst_first, src_first;
    /* verilator lint_on UNUSEDSIGNAL */
    always_comb begin
      dst_delete = 1'b0;
      dst_name   = '0;
      dst_insert = takes_demand & is_head[src_i] & (dst_i == PORT'(g));
      dst_new    = src_i;
      dst_key    = key_of(size_i, arrived_q);
      for (int unsigned s = 0; s < PORTS; s++) begin
        if (grant_o[s] && grant_dst_o[s] == PORT'(g)) begin
          dst_delete = 1'b1;
          dst_name   = PORT'(s);
          dst_insert = stays[s];
          dst_new    = PORT'(s);
          dst_key    = key_of(next_size[s], next_order[s]);
        end
      end
    end
    ordered_list #(
        .PLACES(PORTS),
        .NAME  (PORT),
        .KEY   (KEY)
    ) i_of_dst (
        .clk_i,
        .rst_ni,
        .delete_i     (dst_delete),
        .delete_name_i(dst_name),
        .insert_i     (dst_insert),
        .insert_name_i(dst_new),
        .insert_key_i (dst_key),
        .eligible_i   (src_free & {PORTS{dst_free[g]}}),
        .found_o      (asks[g]),
        .name_o       (asked_src[g]),
        .key_o        (dst_first)
`ifdef FORMAL
        ,
        .there_o      (in_dst[g])
`endif
    );

    // The list of source g, of destinations: the sorted array of §3.1.2.
    logic src_insert;
    logic [PORT-1:0] src_new;
    logic [KEY-1:0] src_key;
    always_comb begin
      src_insert = takes_demand & is_head[g] & (src_i == PORT'(g));
      src_new    = dst_i;
      src_key    = key_of(size_i, arrived_q);
      if (grant_o[g]) begin
        src_insert = stays[g];
        src_new    = grant_dst_o[g];
        src_key    = key_of(next_size[g], next_order[g]);
      end
      for (int unsigned d = 0; d < PORTS; d++) begin
        asked_by[g][d] = asks_q[d] & (asked_src_q[d] == PORT'(g));
      end
    end
    ordered_list #(
        .PLACES(PORTS),
        .NAME  (PORT),
        .KEY   (KEY)
    ) i_of_src (
        .clk_i,
        .rst_ni,
        .delete_i     (grant_o[g]),
        .delete_name_i(grant_dst_o[g]),
        .insert_i     (src_insert),
        .insert_name_i(src_new),
        .insert_key_i (src_key),
        .eligible_i   (asked_by[g]),
        .found_o      (takes[g]),
        .name_o       (taken_dst[g]),
        .key_o        (src_first)
`ifdef FORMAL
        ,
        .there_o      (in_src[g])
`endif
    );
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      phase_q   <= 2'd0;
      arrived_q <= '0;
      asks_q    <= '0;
      takes_q   <= '0;
    end else begin
      case (phase_q)
        2'd0: begin
          asks_q  <= asks;
          phase_q <= |asks ? 2'd1 : 2'd0;
        end
        2'd1: begin
          takes_q <= takes;
          phase_q <= 2'd2;
        end
        default: phase_q <= 2'd0;
      endcase
      if (takes_demand) arrived_q <= arrived_q + ORDER'(1);
    end
    asked_src_q <= asked_src;
    taken_dst_q <= taken_dst;
  end

  // Ports: a cycle passes, or a grant makes them busy from its own time on.
  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < PORTS; p++) begin
      if (!rst_ni) begin
        src_left_q[p] <= '0;
        dst_left_q[p] <= '0;
      end else begin
        if (src_left_q[p] != '0) src_left_q[p] <= src_left_q[p] - 8'd1;
        if (dst_left_q[p] != '0) dst_left_q[p] <= dst_left_q[p] - 8'd1;
      end
    end
    for (int unsigned s = 0; s < PORTS; s++) begin
      if (rst_ni && grant_o[s]) begin
        src_left_q[s] <= busy[s];
        dst_left_q[grant_dst_o[s]] <= busy[s];
      end
    end
  end

`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  always_comb if (!past_q) assume (!rst_ni);
  always_comb begin
    if (demand_i) assume (size_i != '0 && src_i != dst_i);
  end
  // What the grants themselves say, apart from the scheduler's own counts: cycles until a port's circuits end, and bytes
  // that a pair asked for and was not granted.
  logic [PORTS-1:0][7:0] src_circuit_q, dst_circuit_q;
  localparam int unsigned OWED = SIZE + $clog2(ACTIVE + 1);
  logic [PORTS-1:0][PORTS-1:0][OWED-1:0] owed_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < PORTS; p++) begin
      src_circuit_q[p] <= rst_ni && src_circuit_q[p] != '0 ? src_circuit_q[p] - 8'd1 : '0;
      dst_circuit_q[p] <= rst_ni && dst_circuit_q[p] != '0 ? dst_circuit_q[p] - 8'd1 : '0;
    end
    for (int unsigned s = 0; s < PORTS; s++) begin
      if (rst_ni && grant_o[s]) begin
        src_circuit_q[s] <= grant_hold_o[s] + 8'(FRAMING) + 8'((32'(grant_size_o[s]) + 7) / 8);
        dst_circuit_q[grant_dst_o[s]] <= grant_hold_o[s] + 8'(FRAMING) + 8'((32'(grant_size_o[s]) + 7) / 8);
      end
      for (int unsigned d = 0; d < PORTS; d++) begin
        owed_q[d][s] <= !rst_ni ? '0 : owed_q[d][s]
            + (demand_i && ready_o && has_room[s] && dst_i == PORT'(d) && src_i == PORT'(s) ? OWED'(size_i) : '0)
            - (grant_o[s] && grant_dst_o[s] == PORT'(d) ? OWED'(grant_size_o[s]) : '0);
      end
    end
  end

  // A port is never in two circuits: no destination is granted to two sources, and who is granted is free when the grant
  // has been held. A pair is granted what it asked for, a chunk at most, and nothing else.
  always_comb begin
    if (past_q && rst_ni) begin
      assert (phase_q != 2'd3);
      for (int unsigned s = 0; s < PORTS; s++) begin
        for (int unsigned t = 0; t < s; t++) begin
          assert (!(grant_o[s] && grant_o[t] && grant_dst_o[s] == grant_dst_o[t]));
        end
        assert (!grant_o[s] || src_circuit_q[s] <= grant_hold_o[s] + 8'd1);
        assert (!grant_o[s] || dst_circuit_q[grant_dst_o[s]] <= grant_hold_o[s] + 8'd1);
        assert (src_left_q[s] == src_circuit_q[s] && dst_left_q[s] == dst_circuit_q[s]);
        // So that the sum with a chunk fits its eight bits.
        assert (!grant_o[s] || grant_hold_o[s] < 8'(ITERATION));
        assert (!grant_o[s] || waits[s][grant_dst_o[s]]);
        assert (!grant_o[s] || (grant_size_o[s] != '0 && grant_size_o[s] <= SIZE'(CHUNK)));
        for (int unsigned d = 0; d < PORTS; d++) begin
          // Both lists have those pairs that have a demand.
          assert (in_dst[d][s] == waits[s][d]);
          assert (in_src[s][d] == waits[s][d]);
          assert (owed_q[d][s] == kept[s][d]);
        end
      end
    end
  end
`endif
endmodule
`default_nettype wire
