// A list in order of its keys: insert and delete in one cycle, and the first that is eligible in none (PIFO, PIEO).
//
// Entries move to their places in parallel: each compares its key with the new one's, and takes what is its own, its
// neighbour's, or the new one. Delete and insert may be in one cycle; then the deletion comes first.
//
// An entry's name is unique and below 2^NAME. The list never overflows: there are as many places as names.
`default_nettype none

module ordered_list #(
    parameter int unsigned PLACES = 8,
    parameter int unsigned NAME   = 3,
    parameter int unsigned KEY    = 32
) (
    input  wire logic              clk_i,
    input  wire logic              rst_ni,
    input  wire logic              delete_i,
    input  wire logic [NAME-1:0]   delete_name_i,
    input  wire logic              insert_i,
    input  wire logic [NAME-1:0]   insert_name_i,
    input  wire logic [KEY-1:0]    insert_key_i,
    // By name: who may be found.
    input  wire logic [PLACES-1:0] eligible_i,
    output      logic              found_o,
    output      logic [NAME-1:0]   name_o,
    output      logic [KEY-1:0]    key_o
`ifdef FORMAL
    ,
    // By name: who is there.
    output      logic [PLACES-1:0] there_o
`endif
);
  logic [PLACES-1:0] valid_q;
  logic [PLACES-1:0][NAME-1:0] name_q;
  logic [PLACES-1:0][KEY-1:0] key_q;

  // After the deletion: from its place on, everybody's place is the one before.
  logic [PLACES-1:0] match;
  logic [PLACES-1:0] gone;
  logic [PLACES-1:0] valid_c;
  logic [PLACES-1:0][NAME-1:0] name_c;
  logic [PLACES-1:0][KEY-1:0] key_c;
  // Whose key is below the new one's: all before its place.
  logic [PLACES-1:0] before_c;
  logic [PLACES-1:0] eligible;

  for (genvar p = 0; p < PLACES; p++) begin : g_place
    list_place #(
        .PLACES(PLACES),
        .NAME  (NAME),
        .KEY   (KEY)
    ) i_place (
        .clk_i,
        .rst_ni,
        .delete_i,
        .delete_name_i,
        .match_o      (match[p]),
        .gone_i       (gone[p]),
        .next_valid_i (p + 1 < PLACES && valid_q[(p+1)%PLACES]),
        .next_name_i  (name_q[(p+1)%PLACES]),
        .next_key_i   (key_q[(p+1)%PLACES]),
        .after_valid_o(valid_c[p]),
        .after_name_o (name_c[p]),
        .after_key_o  (key_c[p]),
        .before_o     (before_c[p]),
        .insert_i,
        .insert_name_i,
        .insert_key_i,
        .last_before_i(p == 0 || before_c[(p+PLACES-1)%PLACES]),
        .last_valid_i (valid_c[(p+PLACES-1)%PLACES]),
        .last_name_i  (name_c[(p+PLACES-1)%PLACES]),
        .last_key_i   (key_c[(p+PLACES-1)%PLACES]),
        .eligible_i,
        .eligible_o   (eligible[p]),
        .valid_o      (valid_q[p]),
        .name_o       (name_q[p]),
        .key_o        (key_q[p])
    );
  end

  // Whether a bit of this place or one before is set, for all places in as many steps as their number has bits.
  function automatic logic [PLACES-1:0] from_first(input logic [PLACES-1:0] bits);
    from_first = bits;
    for (int unsigned step = 1; step < PLACES; step *= 2) from_first |= from_first << step;
  endfunction
  assign gone = from_first(match);

  // The first eligible: a priority encoder.
  logic [PLACES-1:0] seen, first;
  assign seen    = from_first(eligible);
  assign first   = seen & ~(seen << 1);
  assign found_o = seen[PLACES-1];
  logic [PLACES-1:0][NAME+KEY-1:0] entry;
  for (genvar p = 0; p < PLACES; p++) begin : g_entry
    assign entry[p] = {name_q[p], key_q[p]};
  end
  one_hot_mux #(
      .COUNT(PLACES),
      .WIDTH(NAME + KEY)
  ) i_found (
      .select_i(first),
      .data_i  (entry),
      .data_o  ({name_o, key_o})
  );

`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  always_comb if (!past_q) assume (!rst_ni);

  // What its user keeps to, and what is proved of that user: a name that is there is inserted only in the cycle of its
  // deletion.
  logic is_kept;
  always_comb begin
    there_o = '0;
    for (int unsigned p = 0; p < PLACES; p++) begin
      if (valid_q[p]) there_o[name_q[p]] = 1'b1;
    end
    is_kept = !insert_i || !there_o[insert_name_i] || (delete_i && delete_name_i == insert_name_i);
    if (rst_ni && past_q) begin
`ifdef ALONE
      assume (is_kept);
`else
      assert (is_kept);
`endif
    end
  end

  always_ff @(posedge clk_i) begin
    if (past_q && rst_ni) begin
      for (int unsigned p = 0; p + 1 < PLACES; p++) begin
        // No holes, in order, and no name twice.
        assert (valid_q[p] || !valid_q[p+1]);
        assert (!valid_q[p+1] || key_q[p] <= key_q[p+1]);
      end
      for (int unsigned p = 0; p < PLACES; p++) begin
        for (int unsigned r = 0; r < p; r++) begin
          assert (!valid_q[p] || !valid_q[r] || name_q[p] != name_q[r]);
        end
        // Nobody eligible goes before who is found.
        assert (!(valid_q[p] && eligible_i[name_q[p]]) || (found_o && key_o <= key_q[p]));
      end
    end
  end
`endif
endmodule
`default_nettype wire
