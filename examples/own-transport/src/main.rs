//! The `unrack` command with one more transport: `fabric.protocol = "go-back-n"`.

mod fabric;
mod go_back;

fn main() -> std::process::ExitCode {
    unrack_sim::register::<fabric::GoBackN>();
    unrack_cli::main()
}
