//! Links the unwinder into the command, where the C compiler has it as an archive: to load libgcc_s is a tenth of what it takes to hash a
//! small file. Strips the release: Cargo does not where a package has an optimisation of its own in the profile.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var(name).unwrap_or_default();
    let is_native = variable("TARGET") == variable("HOST") && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    // A compiler that has none says the name alone.
    let asked = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let is_there = asked.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute());
    if is_native && is_there {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
    if variable("PROFILE") == "release" {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
