//! Links the agent without any other library, and fails if a symbol is missing.

fn main() {
    for option in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,defs",
        "-Wl,-Bsymbolic",
        "-Wl,-z,norelro",
        "-Wl,--build-id=none",
        "-Wl,-z,max-page-size=4096",
    ] {
        println!("cargo::rustc-cdylib-link-arg={option}");
    }
}
