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
  assign any_o = |requests_i;
  always_comb begin
    next_o = last_i;
    for (int unsigned n = REQUESTS; n > 0; n--) if (requests_i[n-1]) next_o = NAME'(n - 1);
    for (int unsigned n = REQUESTS; n > 0; n--) begin
      if (requests_i[n-1] && NAME'(n - 1) > last_i) next_o = NAME'(n - 1);
    end
  end
endmodule
`default_nettype wire
