//! Keeps the module in memory once it is loaded: unloading it would remove the code of thread-local destructors.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
