//! The `unrack` command.

fn main() -> std::process::ExitCode {
    unrack_cli::main()
}
