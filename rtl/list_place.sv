// A place of an ordered list: its entry, and what becomes of it when another goes or comes.
`default_nettype none

module list_place #(
    parameter int unsigned PLACES = 8,
    parameter int unsigned NAME   = 3,
    parameter int unsigned KEY    = 32
) (
    input  wire logic              clk_i,
    input  wire logic              rst_ni,
    // Whether the entry is the one that goes.
    input  wire logic              delete_i,
    input  wire logic [NAME-1:0]   delete_name_i,
    output      logic              match_o,
    // It goes, or one before it: the next place's entry moves here.
    input  wire logic              gone_i,
    input  wire logic              next_valid_i,
    input  wire logic [NAME-1:0]   next_name_i,
    input  wire logic [KEY-1:0]    next_key_i,
    // After that: who is here, and whether before the one that comes.
    output      logic              after_valid_o,
    output      logic [NAME-1:0]   after_name_o,
    output      logic [KEY-1:0]    after_key_o,
    output      logic              before_o,
    // One comes: here, if the place before has one that is before it, else what the place before has.
    input  wire logic              insert_i,
    input  wire logic [NAME-1:0]   insert_name_i,
    input  wire logic [KEY-1:0]    insert_key_i,
    input  wire logic              last_before_i,
    input  wire logic              last_valid_i,
    input  wire logic [NAME-1:0]   last_name_i,
    input  wire logic [KEY-1:0]    last_key_i,
    // By name: who may be found.
    input  wire logic [PLACES-1:0] eligible_i,
    output      logic              eligible_o,
    output      logic              valid_o,
    output      logic [NAME-1:0]   name_o,
    output      logic [KEY-1:0]    key_o
);
  assign match_o    = delete_i && valid_o && name_o == delete_name_i;
  assign eligible_o = valid_o && eligible_i[name_o];

  assign {after_valid_o, after_name_o, after_key_o} =
      gone_i ? {next_valid_i, next_name_i, next_key_i} : {valid_o, name_o, key_o};
  assign before_o = after_valid_o && after_key_o < insert_key_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_o <= 1'b0;
    else valid_o <= insert_i && !before_o ? last_before_i || last_valid_i : after_valid_o;
    if (!insert_i || before_o) {name_o, key_o} <= {after_name_o, after_key_o};
    else if (last_before_i) {name_o, key_o} <= {insert_name_i, insert_key_i};
    else {name_o, key_o} <= {last_name_i, last_key_i};
  end
endmodule
`default_nettype wire
