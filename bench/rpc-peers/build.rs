//! Compiles the interface that the Cap'n Proto peer calls. Needs `capnp` (Debian: capnproto; `make bench` installs it).

fn main() {
    println!("cargo::rerun-if-changed=echo.capnp");
    if let Err(why) = capnpc::CompilerCommand::new().file("echo.capnp").run() {
        println!("cargo::error=cannot compile echo.capnp: {why}; is `capnp` installed (Debian: capnproto)?");
    }
}
