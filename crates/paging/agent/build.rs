//! Links the agent with nothing but itself, and fails if anything is missing.

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
