// Two queues to one line (crates/sim/phy/src/stack/outbox.rs). A block on its own goes ahead of data, also between the
// blocks of a message; one that begins a message waits until none is open.
`default_nettype none

module outbox (
    input  wire logic        clk_i,
    input  wire logic        rst_ni,
    input  wire logic        control_valid_i,
    input  wire logic [65:0] control_i,
    output      logic        control_take_o,
    input  wire logic        data_valid_i,
    input  wire logic [65:0] data_i,
    output      logic        data_take_o,
    output      logic        valid_o,
    output      logic [65:0] block_o,
    input  wire logic        take_i
);
  // Which queue has begun a message on the line.
  logic control_open_q, data_open_q;
  logic is_alone, control_goes, data_goes;
  assign is_alone = control_i[1:0] == pcs_pkg::CONTROL && control_i[9:2] != edm_pkg::MS && control_i[9:2] != edm_pkg::MT;
  assign control_goes = control_valid_i && (!data_open_q || is_alone);
  assign data_goes = data_valid_i && !control_goes && !control_open_q;

  assign valid_o        = control_goes || data_goes;
  assign block_o        = control_goes ? control_i : data_i;
  assign control_take_o = control_goes && take_i;
  assign data_take_o    = data_goes && take_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      control_open_q <= 1'b0;
      data_open_q    <= 1'b0;
    end else begin
      if (control_take_o) control_open_q <= edm_pkg::opens_message(control_i[9:0], control_open_q);
      if (data_take_o) data_open_q <= edm_pkg::opens_message(data_i[9:0], data_open_q);
    end
  end
endmodule
`default_nettype wire
