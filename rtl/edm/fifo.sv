// First in, first out, in one clock: what is pushed can be taken a cycle later.
`default_nettype none

module fifo #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 8
) (
    input  wire logic             clk_i,
    input  wire logic             rst_ni,
    input  wire logic             push_i,
    input  wire logic [WIDTH-1:0] data_i,
    output      logic             full_o,
    output      logic             valid_o,
    output      logic [WIDTH-1:0] data_o,
    input  wire logic             take_i
);
  localparam int unsigned ADDRESS = $clog2(DEPTH);

  logic [WIDTH-1:0] memory_q[DEPTH];
  logic [ADDRESS:0] write_q, read_q;
  assign valid_o = write_q != read_q;
  assign full_o  = write_q == {~read_q[ADDRESS], read_q[ADDRESS-1:0]};
  assign data_o  = memory_q[read_q[ADDRESS-1:0]];

  always_ff @(posedge clk_i) begin
    if (push_i && !full_o) memory_q[write_q[ADDRESS-1:0]] <= data_i;
    if (!rst_ni) begin
      write_q <= '0;
      read_q  <= '0;
    end else begin
      write_q <= write_q + (ADDRESS + 1)'(push_i && !full_o);
      read_q  <= read_q + (ADDRESS + 1)'(take_i && valid_o);
    end
  end
endmodule
`default_nettype wire
