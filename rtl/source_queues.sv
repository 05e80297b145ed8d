// What waits of one source: for each destination a queue, first in first out (§3.1.1 (5)), in one memory.
//
// What is read is there in the same cycle. A demand and a grant are never in one cycle.
`default_nettype none

module source_queues #(
    parameter int unsigned PORTS  = 8,
    parameter int unsigned ACTIVE = 3,
    parameter int unsigned SIZE   = 16,
    parameter int unsigned ORDER  = 32,
    parameter int unsigned TAG    = 1,
    parameter int unsigned PORT   = $clog2(PORTS)
) (
    input  wire logic             clk_i,
    input  wire logic             rst_ni,
    // A demand, behind those for its destination; and whether there is one, and room.
    input  wire logic             push_i,
    input  wire logic [PORT-1:0]  push_dst_i,
    input  wire logic [SIZE-1:0]  push_size_i,
    input  wire logic [ORDER-1:0] push_order_i,
    input  wire logic [TAG-1:0]   push_tag_i,
    output      logic             push_is_head_o,
    output      logic             push_has_room_o,
    // The first for this destination, and what is behind it.
    input  wire logic [PORT-1:0]  dst_i,
    output      logic [SIZE-1:0]  size_o,
    output      logic [ORDER-1:0] order_o,
    output      logic [TAG-1:0]   tag_o,
    // A part of it was granted.
    output      logic             started_o,
    output      logic             has_next_o,
    output      logic [SIZE-1:0]  next_size_o,
    output      logic [ORDER-1:0] next_order_o,
    // Of the first a part is granted, and so much is left; or all.
    input  wire logic             grant_i,
    input  wire logic             last_i,
    input  wire logic [SIZE-1:0]  left_i
`ifdef FORMAL
    ,
    // By destination: whether something waits, and bytes.
    output      logic [PORTS-1:0] waits_o,
    output      logic [PORTS-1:0][SIZE+$clog2(ACTIVE+1)-1:0] kept_o
`endif
);
  localparam int unsigned PLACE = $clog2(ACTIVE + 1);

  // Rings of 2^PLACE places, and where they begin: that need not be known at first.
  logic [SIZE+ORDER+TAG-1:0] entries_q[PORTS<<PLACE];
  logic [PLACE-1:0] first_q[PORTS];
  logic [PORTS-1:0][PLACE-1:0] count_q;
  logic [PORTS-1:0] started_q;

  logic [PLACE-1:0] first, second, behind;
  assign first  = first_q[dst_i];
  assign second = first + PLACE'(1);
  assign behind = first_q[push_dst_i] + count_q[push_dst_i];

  /* verilator lint_off UNUSEDSIGNAL */
  logic [TAG-1:0] next_tag;
  /* verilator lint_on UNUSEDSIGNAL */
  assign {size_o, order_o, tag_o}              = entries_q[{dst_i, first}];
  assign {next_size_o, next_order_o, next_tag} = entries_q[{dst_i, second}];
  assign started_o       = started_q[dst_i];
  assign has_next_o      = count_q[dst_i] > PLACE'(1);
  assign push_is_head_o  = count_q[push_dst_i] == '0;
  assign push_has_room_o = count_q[push_dst_i] != PLACE'(ACTIVE);

  always_ff @(posedge clk_i) begin
    if (grant_i && !last_i) entries_q[{dst_i, first}] <= {left_i, order_o, tag_o};
    else if (push_i) entries_q[{push_dst_i, behind}] <= {push_size_i, push_order_i, push_tag_i};
    if (grant_i && last_i) first_q[dst_i] <= second;
    if (!rst_ni) begin
      count_q   <= '0;
      started_q <= '0;
    end else if (grant_i) begin
      started_q[dst_i] <= !last_i;
      if (last_i) count_q[dst_i] <= count_q[dst_i] - PLACE'(1);
    end else if (push_i) begin
      count_q[push_dst_i] <= count_q[push_dst_i] + PLACE'(1);
    end
  end

`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  logic [SIZE-1:0] size;
  always_comb begin
    kept_o = '0;
    size   = '0;
    for (int unsigned d = 0; d < PORTS; d++) begin
      waits_o[d] = count_q[d] != '0;
      if (past_q && rst_ni) assert (count_q[d] <= PLACE'(ACTIVE));
      for (int unsigned a = 0; a < ACTIVE; a++) begin
        size = entries_q[{PORT'(d), PLACE'(first_q[d] + PLACE'(a))}][ORDER+TAG+:SIZE];
        if (count_q[d] > PLACE'(a)) begin
          kept_o[d] += (SIZE + PLACE)'(size);
          if (past_q && rst_ni) assert (size != '0);
        end
      end
    end
  end
`endif
endmodule
`default_nettype wire
