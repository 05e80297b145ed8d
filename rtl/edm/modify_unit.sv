// What an RMWREQ does to a word of memory, in one step (§3.2.1): read in the cycle after it came, applied in the next, and
// written in the third. Its answer is kept until it is sent.
//
// A word is written before the next RMWREQ reads: one has three blocks at least.
`default_nettype none

module modify_unit #(
    // Bits that tell answers apart.
    parameter int unsigned PLACE = 4
) (
    input  wire logic             clk_i,
    input  wire logic             rst_ni,
    // One came.
    input  wire logic             valid_i,
    input  wire logic [1:0]       opcode_i,
    input  wire logic [63:0]      address_i,
    input  wire logic [127:0]     operands_i,
    input  wire logic [PLACE-1:0] place_i,
    // Memory: the word in the cycle after.
    output      logic             read_o,
    output      logic [63:0]      read_address_o,
    input  wire logic [63:0]      read_data_i,
    output      logic             write_o,
    output      logic [63:0]      write_address_o,
    output      logic [63:0]      write_data_o,
    // An answer, in the cycle after, until the next is wanted.
    input  wire logic             answer_i,
    input  wire logic [PLACE-1:0] answer_place_i,
    output      logic [63:0]      answer_o
);
  logic [1:0][1:0] opcode_q;
  logic [1:0][63:0] address_q;
  logic [1:0][127:0] operands_q;
  logic [1:0][PLACE-1:0] place_q;
  logic has_word_q;
  assign read_address_o = address_q[0];

  logic [63:0] first, second, word, answer;
  assign {second, first} = operands_q[1];
  always_comb begin
    case (opcode_q[1])
      edm_pkg::COMPARE_SWAP: word = read_data_i == first ? second : read_data_i;
      edm_pkg::FETCH_ADD:    word = read_data_i + first;
      default:               word = first;
    endcase
    answer = opcode_q[1] == edm_pkg::COMPARE_SWAP ? 64'(read_data_i == first) : read_data_i;
  end

  logic [63:0] answer_q[1<<PLACE];
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      read_o     <= 1'b0;
      has_word_q <= 1'b0;
      write_o    <= 1'b0;
    end else begin
      read_o     <= valid_i;
      has_word_q <= read_o;
      write_o    <= has_word_q;
    end
    opcode_q        <= {opcode_q[0], opcode_i};
    address_q       <= {address_q[0], address_i};
    operands_q      <= {operands_q[0], operands_i};
    place_q         <= {place_q[0], place_i};
    write_address_o <= address_q[1];
    write_data_o    <= word;
    if (has_word_q) answer_q[place_q[1]] <= answer;
    if (answer_i) answer_o <= answer_q[answer_place_i];
  end
endmodule
`default_nettype wire
