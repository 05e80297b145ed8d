// A port of the scheduler: what waits of it as a source, its lists as a source and as a destination, and until when it is
// busy. Which port it is, is an input, so that all are one module for synthesis.
`default_nettype none

module scheduler_port #(
    parameter int unsigned PORTS     = 8,
    parameter int unsigned ACTIVE    = 3,
    parameter int unsigned CHUNK     = 256,
    parameter int unsigned FRAMING   = 2,
    parameter int unsigned SIZE      = 16,
    parameter int unsigned TAG       = 1,
    parameter int unsigned SRPT      = 1,
    parameter int unsigned ORDER     = 32,
    parameter int unsigned ITERATION = 3,
    parameter int unsigned PORT      = $clog2(PORTS),
    parameter int unsigned KEY       = SRPT != 0 ? SIZE + ORDER : ORDER
) (
    input  wire logic                       clk_i,
    input  wire logic                       rst_ni,
    input  wire logic [PORT-1:0]            self_i,
    // The demand that is taken, and when it came; whether the port's queue for its destination is empty, and has room; and
    // whether its source's is.
    input  wire logic                       demand_i,
    input  wire logic [PORT-1:0]            src_i,
    input  wire logic [PORT-1:0]            dst_i,
    input  wire logic [SIZE-1:0]            size_i,
    input  wire logic [ORDER-1:0]           order_i,
    input  wire logic [TAG-1:0]             tag_i,
    output      logic                       is_head_o,
    output      logic                       has_room_o,
    input  wire logic                       demand_is_head_i,
    // Whether an iteration that starts now may match it as a source; by port; and cycles until it is free as a destination.
    output      logic                       src_free_o,
    input  wire logic [PORTS-1:0]           src_free_i,
    output      logic [7:0]                 dst_left_o,
    input  wire logic [PORTS-1:0][7:0]      dst_left_i,
    // First cycle: whom it asks as a destination. By port: who asks whom, a cycle later.
    output      logic                       asks_o,
    output      logic [PORT-1:0]            asked_src_o,
    input  wire logic [PORTS-1:0]           asks_i,
    input  wire logic [PORTS-1:0][PORT-1:0] asked_src_i,
    // The second cycle of an iteration; and the third: what is granted to the port as a source.
    input  wire logic                       matches_i,
    input  wire logic                       settles_i,
    output      logic                       grant_o,
    output      logic [PORT-1:0]            grant_dst_o,
    output      logic [SIZE-1:0]            grant_size_o,
    output      logic                       grant_first_o,
    output      logic                       grant_last_o,
    output      logic [TAG-1:0]             grant_tag_o,
    output      logic [7:0]                 grant_hold_o,
    // Whether something is left for that destination, its key, and for how long both ports are busy; by source.
    output      logic                       stays_o,
    output      logic [KEY-1:0]             key_o,
    output      logic [7:0]                 busy_o,
    input  wire logic [PORTS-1:0]           grant_i,
    input  wire logic [PORTS-1:0][PORT-1:0] grant_dst_i,
    input  wire logic [PORTS-1:0]           stays_i,
    input  wire logic [PORTS-1:0][KEY-1:0]  key_i,
    input  wire logic [PORTS-1:0][7:0]      busy_i
`ifdef FORMAL
    ,
    // As a source and as a destination: cycles until it is free, and who is in its lists. By destination: what waits.
    output      logic [7:0]                 src_left_o,
    output      logic [PORTS-1:0]           in_src_o,
    output      logic [PORTS-1:0]           in_dst_o,
    output      logic [PORTS-1:0]           waits_o,
    output      logic [PORTS-1:0][SIZE+$clog2(ACTIVE+1)-1:0] kept_o
`endif
);
  // Cycles until it is free.
  logic [7:0] src_left_q, dst_left_q;
  logic dst_free;
  // Free before the grants of the iteration after the one that starts now.
  assign src_free_o = src_left_q < 8'(2 * ITERATION);
  assign dst_free   = dst_left_q < 8'(2 * ITERATION);
  assign dst_left_o = dst_left_q;

  // What orders the lists.
  function automatic logic [KEY-1:0] key_of(input logic [SIZE-1:0] size, input logic [ORDER-1:0] order);
    key_of = KEY'({size, order});
  endfunction
  logic [KEY-1:0] demand_key;
  assign demand_key = key_of(size_i, order_i);

  // What it is granted as a source.
  logic takes, takes_q, started, has_next;
  logic [PORT-1:0] taken_dst, taken_dst_q;
  logic [SIZE-1:0] head_size, left, second_size;
  logic [ORDER-1:0] order, second_order;
  logic [7:0] hold;
  source_queues #(
      .PORTS (PORTS),
      .ACTIVE(ACTIVE),
      .SIZE  (SIZE),
      .ORDER (ORDER),
      .TAG   (TAG)
  ) i_queues (
      .clk_i,
      .rst_ni,
      .push_i         (demand_i && src_i == self_i),
      .push_dst_i     (dst_i),
      .push_size_i    (size_i),
      .push_order_i   (order_i),
      .push_tag_i     (tag_i),
      .push_is_head_o (is_head_o),
      .push_has_room_o(has_room_o),
      .dst_i          (taken_dst_q),
      .size_o         (head_size),
      .order_o        (order),
      .tag_o          (grant_tag_o),
      .started_o      (started),
      .has_next_o     (has_next),
      .next_size_o    (second_size),
      .next_order_o   (second_order),
      .grant_i        (grant_o),
      .last_i         (grant_last_o),
      .left_i         (left)
`ifdef FORMAL
      ,
      .waits_o,
      .kept_o
`endif
  );
  assign hold = src_left_q > dst_left_i[taken_dst_q] ? src_left_q : dst_left_i[taken_dst_q];
  assign left = head_size - SIZE'(CHUNK);
  assign grant_o       = settles_i & takes_q;
  assign grant_dst_o   = taken_dst_q;
  assign grant_last_o  = head_size <= SIZE'(CHUNK);
  assign grant_size_o  = grant_last_o ? head_size : SIZE'(CHUNK);
  // One more cycle ends the iteration; what is left then is how long the grant is held.
  assign grant_hold_o  = hold > 8'd1 ? hold - 8'd1 : 8'd0;
  assign grant_first_o = !started;
  assign busy_o        = grant_hold_o + 8'((grant_size_o + SIZE'(7)) >> 3) + 8'(FRAMING);
  assign stays_o       = !grant_last_o || has_next;
  assign key_o         = grant_last_o ? key_of(second_size, second_order) : key_of(left, order);

  // The list of sources, as a destination: a demand that is the first of its pair goes into both lists.
  logic dst_granted, dst_insert;
  logic [PORT-1:0] dst_name, dst_new;
  logic [KEY-1:0] dst_key;
  logic [7:0] dst_busy;
  /* verilator lint_off UNUSEDSIGNAL */
  logic [KEY-1:0] dst_first, src_first;
  /* verilator lint_on UNUSEDSIGNAL */
  // One source at most is granted it: that is what the proof is of.
  logic dst_stays;
  logic [KEY-1:0] dst_left_key;
  logic [PORTS-1:0] granted_by;
  logic [PORTS-1:0][PORT+8+1+KEY-1:0] of_source;
  for (genvar s = 0; s < PORTS; s++) begin : g_source
    assign granted_by[s] = grant_i[s] & (grant_dst_i[s] == self_i);
    assign of_source[s]  = {PORT'(s), busy_i[s], stays_i[s], key_i[s]};
  end
  assign dst_granted = |granted_by;
  one_hot_mux #(
      .COUNT(PORTS),
      .WIDTH(PORT + 8 + 1 + KEY)
  ) i_granted (
      .select_i(granted_by),
      .data_i  (of_source),
      .data_o  ({dst_name, dst_busy, dst_stays, dst_left_key})
  );
  always_comb begin
    dst_insert = demand_i & demand_is_head_i & (dst_i == self_i);
    dst_new    = src_i;
    dst_key    = demand_key;
    if (dst_granted) begin
      dst_insert = dst_stays;
      dst_new    = dst_name;
      dst_key    = dst_left_key;
    end
  end
  ordered_list #(
      .PLACES(PORTS),
      .NAME  (PORT),
      .KEY   (KEY)
  ) i_of_dst (
      .clk_i,
      .rst_ni,
      .delete_i     (dst_granted),
      .delete_name_i(dst_name),
      .insert_i     (dst_insert),
      .insert_name_i(dst_new),
      .insert_key_i (dst_key),
      .eligible_i   (src_free_i & {PORTS{dst_free}}),
      .found_o      (asks_o),
      .name_o       (asked_src_o),
      .key_o        (dst_first)
`ifdef FORMAL
      ,
      .there_o      (in_dst_o)
`endif
  );

  // The list of destinations, as a source: the sorted array of §3.1.2.
  logic src_insert;
  logic [PORT-1:0] src_new;
  logic [KEY-1:0] src_key;
  logic [PORTS-1:0] asked_by;
  always_comb begin
    src_insert = demand_i & demand_is_head_i & (src_i == self_i);
    src_new    = dst_i;
    src_key    = demand_key;
    if (grant_o) begin
      src_insert = stays_o;
      src_new    = grant_dst_o;
      src_key    = key_o;
    end
    for (int unsigned d = 0; d < PORTS; d++) asked_by[d] = asks_i[d] & (asked_src_i[d] == self_i);
  end
  ordered_list #(
      .PLACES(PORTS),
      .NAME  (PORT),
      .KEY   (KEY)
  ) i_of_src (
      .clk_i,
      .rst_ni,
      .delete_i     (grant_o),
      .delete_name_i(grant_dst_o),
      .insert_i     (src_insert),
      .insert_name_i(src_new),
      .insert_key_i (src_key),
      .eligible_i   (asked_by),
      .found_o      (takes),
      .name_o       (taken_dst),
      .key_o        (src_first)
`ifdef FORMAL
      ,
      .there_o      (in_src_o)
`endif
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) takes_q <= 1'b0;
    else if (matches_i) takes_q <= takes;
    taken_dst_q <= taken_dst;
  end

  // A cycle passes, or a grant makes it busy from its own time on.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      src_left_q <= '0;
      dst_left_q <= '0;
    end else begin
      if (grant_o) src_left_q <= busy_o;
      else if (src_left_q != '0) src_left_q <= src_left_q - 8'd1;
      if (dst_granted) dst_left_q <= dst_busy;
      else if (dst_left_q != '0) dst_left_q <= dst_left_q - 8'd1;
    end
  end
`ifdef FORMAL
  assign src_left_o = src_left_q;
`endif
endmodule
`default_nettype wire
