//! Sets the name by which programs find the library at run time. The name changes whenever programs have to be built again.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunrack_rpc.so.0");
}
