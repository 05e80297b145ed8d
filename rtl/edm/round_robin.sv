// Whose turn it is: of those who ask, the next after the last, which comes last itself.
`default_nettype none

module round_robin #(
    parameter int unsigned REQUESTS = 4,
    parameter int unsigned NAME     = $clog2(REQUESTS)
) (
    input  wire logic [REQUESTS-1:0] requests_i,
    input  wire logic [NAME-1:0]     last_i,
    output      logic                any_o,
    // The last, if nobody asks.
    output      logic [NAME-1:0]     next_o
);
  // Those behind the last, if there are any; of them the first, before which there is none. As one bit of many and then as
  // its number, since a loop over numbers would be a chain of them.
  logic [REQUESTS-1:0] later, candidates, earlier, first;
  assign later[0] = 1'b0;
  for (genvar n = 1; n < REQUESTS; n++) begin : g_later
    assign later[n] = requests_i[n] && last_i < NAME'(n);
  end
  assign candidates = |later ? later : requests_i;
  always_comb begin
    earlier = candidates << 1;
    for (int unsigned step = 1; step < REQUESTS; step *= 2) earlier |= earlier << step;
  end
  assign first = candidates & ~earlier;
  assign any_o = |requests_i;

  logic [REQUESTS-1:0][NAME-1:0] names;
  logic [NAME-1:0] name;
  for (genvar n = 0; n < REQUESTS; n++) begin : g_names
    assign names[n] = NAME'(n);
  end
  one_hot_mux #(
      .COUNT(REQUESTS),
      .WIDTH(NAME)
  ) i_name (
      .select_i(first),
      .data_i  (names),
      .data_o  (name)
  );
  assign next_o = any_o ? name : last_i;
endmodule
`default_nettype wire
