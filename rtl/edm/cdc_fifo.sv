// First in, first out, from one clock to another: pointers in Gray code through two registers. With one clock on both
// sides what is pushed can be taken five cycles later, so that crossing takes four (§3.2.1, §3.2.2): pointer, two
// synchronizing registers and the read.
`default_nettype none

module cdc_fifo #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 8
) (
    input  wire logic             write_clk_i,
    input  wire logic             write_rst_ni,
    input  wire logic             push_i,
    input  wire logic [WIDTH-1:0] data_i,
    // It has no room, as far as this side knows: what is pushed is lost.
    output      logic             full_o,
    input  wire logic             read_clk_i,
    input  wire logic             read_rst_ni,
    output      logic             valid_o,
    output      logic [WIDTH-1:0] data_o,
    input  wire logic             take_i
);
  localparam int unsigned ADDRESS = $clog2(DEPTH);

  logic [WIDTH-1:0] memory_q[DEPTH];

  // The writer: its place, and the reader's as it was.
  logic [ADDRESS:0] write_q, write_d, write_gray_q;
  logic [1:0][ADDRESS:0] reader_q;
  logic pushes;
  assign pushes  = push_i && !full_o;
  assign write_d = write_q + (ADDRESS + 1)'(pushes);
  // Two bits differ from the reader's: a whole round ahead.
  assign full_o  = write_gray_q == {~reader_q[1][ADDRESS:ADDRESS-1], reader_q[1][ADDRESS-2:0]};

  logic [ADDRESS:0] read_q, read_d, read_gray_q;
  always_ff @(posedge write_clk_i) begin
    if (pushes) memory_q[write_q[ADDRESS-1:0]] <= data_i;
    if (!write_rst_ni) begin
      write_q      <= '0;
      write_gray_q <= '0;
      reader_q     <= '0;
    end else begin
      write_q      <= write_d;
      write_gray_q <= write_d ^ (write_d >> 1);
      reader_q     <= {reader_q[0], read_gray_q};
    end
  end

  // The reader: its place, and the writer's as it was.
  logic [1:0][ADDRESS:0] writer_q;
  logic empty_q, reads;
  logic [ADDRESS:0] read_gray_d;
  assign reads       = !empty_q && (!valid_o || take_i);
  assign read_d      = read_q + (ADDRESS + 1)'(reads);
  assign read_gray_d = read_d ^ (read_d >> 1);
  always_ff @(posedge read_clk_i) begin
    if (reads) data_o <= memory_q[read_q[ADDRESS-1:0]];
    if (!read_rst_ni) begin
      read_q      <= '0;
      read_gray_q <= '0;
      writer_q    <= '0;
      empty_q     <= 1'b1;
      valid_o     <= 1'b0;
    end else begin
      read_q      <= read_d;
      read_gray_q <= read_gray_d;
      writer_q    <= {writer_q[0], write_gray_q};
      empty_q     <= read_gray_d == writer_q[1];
      valid_o     <= reads || (valid_o && !take_i);
    end
  end
endmodule
`default_nettype wire
