//! The module stays in memory once it is loaded: a program that unloads it would pull the code from under thread-local
//! destructors.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
