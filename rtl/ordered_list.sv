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

  for (genvar g = 0; g < PLACES; g++) begin : g_gone
    assign match[g] = delete_i & valid_q[g] & (name_q[g] == delete_name_i);
    assign gone[g]  = |match[g:0];
  end

  always_comb begin
    for (int unsigned p = 0; p < PLACES; p++) begin
      if (!gone[p]) begin
        valid_c[p] = valid_q[p];
        name_c[p]  = name_q[p];
        key_c[p]   = key_q[p];
      end else if (p + 1 < PLACES) begin
        valid_c[p] = valid_q[(p+1)%PLACES];
        name_c[p]  = name_q[(p+1)%PLACES];
        key_c[p]   = key_q[(p+1)%PLACES];
      end else begin
        valid_c[p] = 1'b0;
        name_c[p]  = '0;
        key_c[p]   = '0;
      end
      before_c[p] = valid_c[p] & (key_c[p] < insert_key_i);
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < PLACES; p++) begin
      if (!rst_ni) begin
        valid_q[p] <= 1'b0;
      end else if (!insert_i || before_c[p]) begin
        valid_q[p] <= valid_c[p];
        name_q[p]  <= name_c[p];
        key_q[p]   <= key_c[p];
      end else if (p == 0 || before_c[(p+PLACES-1)%PLACES]) begin
        valid_q[p] <= 1'b1;
        name_q[p]  <= insert_name_i;
        key_q[p]   <= insert_key_i;
      end else begin
        valid_q[p] <= valid_c[(p+PLACES-1)%PLACES];
        name_q[p]  <= name_c[(p+PLACES-1)%PLACES];
        key_q[p]   <= key_c[(p+PLACES-1)%PLACES];
      end
    end
  end

  // The first eligible: a priority encoder.
  always_comb begin
    found_o = 1'b0;
    name_o  = '0;
    key_o   = '0;
    for (int p = PLACES - 1; p >= 0; p--) begin
      if (valid_q[p] && eligible_i[name_q[p]]) begin
        found_o = 1'b1;
        name_o  = name_q[p];
        key_o   = key_q[p];
      end
    end
  end

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
