# The interface that the Cap'n Proto peer calls. `capnp compile -orust:src echo.capnp` made src/echo_capnp.rs.
@0xb5f1c0a98b3f5e27;

interface Echo {
  echo @0 (bytes :Data) -> (bytes :Data);
}
