# The interface that the Cap'n Proto peer calls.
@0xb5f1c0a98b3f5e27;

interface Echo {
  echo @0 (bytes :Data) -> (bytes :Data);
}
