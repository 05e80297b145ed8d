//! The `unrack` command with one more transport, `fabric.protocol = "go-back-n"`, and one more topology,
//! `network.topology.kind = "dragonfly"`.

mod dragonfly;
mod fabric;
mod go_back;

fn main() -> std::process::ExitCode {
    unrack_sim::register::<fabric::GoBackN>();
    unrack_sim::register_topology::<dragonfly::Dragonfly>();
    unrack_cli::main()
}
