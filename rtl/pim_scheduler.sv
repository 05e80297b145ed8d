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

  // The cycle of the iteration: 0 when it may start.
  logic [1:0] phase_q;
  logic settles;
  assign settles = phase_q == 2'd2;

  // By source: whether its queue for the destination of the demand is empty, and has room.
  logic [PORTS-1:0] is_head, has_room;
  logic demand_is_head;
  assign demand_is_head = is_head[src_i];
  // A demand that is the first of its pair goes into both lists.
  logic takes_demand;
  assign ready_o = !settles;
  // Senders keep to ACTIVE; what one that does not asks for is lost.
  assign takes_demand = demand_i & ready_o & has_room[src_i];

  // What ports say of themselves to all: see scheduler_port.sv.
  logic [PORTS-1:0] src_free;
  logic [PORTS-1:0][7:0] dst_left;
  logic [PORTS-1:0] asks, asks_q, stays;
  logic [PORTS-1:0][PORT-1:0] asked_src, asked_src_q;
  logic [PORTS-1:0][KEY-1:0] key;
  logic [PORTS-1:0][7:0] busy;
`ifdef FORMAL
  logic [PORTS-1:0][7:0] src_left;
  logic [PORTS-1:0][PORTS-1:0] in_dst, in_src, waits;
  logic [PORTS-1:0][PORTS-1:0][SIZE+$clog2(ACTIVE+1)-1:0] kept;
`endif
  for (genvar p = 0; p < PORTS; p++) begin : g_port
    scheduler_port #(
        .PORTS    (PORTS),
        .ACTIVE   (ACTIVE),
        .CHUNK    (CHUNK),
        .FRAMING  (FRAMING),
        .SIZE     (SIZE),
        .TAG      (TAG),
        .SRPT     (SRPT),
        .ORDER    (ORDER),
        .ITERATION(ITERATION)
    ) i_port (
        .clk_i,
        .rst_ni,
        .self_i          (PORT'(p)),
        .demand_i        (takes_demand),
        .src_i,
        .dst_i,
        .size_i,
        .order_i         (arrived_q),
        .tag_i,
        .is_head_o       (is_head[p]),
        .has_room_o      (has_room[p]),
        .demand_is_head_i(demand_is_head),
        .src_free_o      (src_free[p]),
        .src_free_i      (src_free),
        .dst_left_o      (dst_left[p]),
        .dst_left_i      (dst_left),
        .asks_o          (asks[p]),
        .asked_src_o     (asked_src[p]),
        .asks_i          (asks_q),
        .asked_src_i     (asked_src_q),
        .matches_i       (phase_q == 2'd1),
        .settles_i       (settles),
        .grant_o         (grant_o[p]),
        .grant_dst_o     (grant_dst_o[p]),
        .grant_size_o    (grant_size_o[p]),
        .grant_first_o   (grant_first_o[p]),
        .grant_last_o    (grant_last_o[p]),
        .grant_tag_o     (grant_tag_o[p]),
        .grant_hold_o    (grant_hold_o[p]),
        .stays_o         (stays[p]),
        .key_o           (key[p]),
        .busy_o          (busy[p]),
        .grant_i         (grant_o),
        .grant_dst_i     (grant_dst_o),
        .stays_i         (stays),
        .key_i           (key),
        .busy_i          (busy)
`ifdef FORMAL
        ,
        .src_left_o      (src_left[p]),
        .in_src_o        (in_src[p]),
        .in_dst_o        (in_dst[p]),
        .waits_o         (waits[p]),
        .kept_o          (kept[p])
`endif
    );
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      phase_q   <= 2'd0;
      arrived_q <= '0;
      asks_q    <= '0;
    end else begin
      case (phase_q)
        2'd0: begin
          asks_q  <= asks;
          phase_q <= |asks ? 2'd1 : 2'd0;
        end
        2'd1:    phase_q <= 2'd2;
        default: phase_q <= 2'd0;
      endcase
      if (takes_demand) arrived_q <= arrived_q + ORDER'(1);
    end
    asked_src_q <= asked_src;
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
        assert (src_left[s] == src_circuit_q[s] && dst_left[s] == dst_circuit_q[s]);
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
