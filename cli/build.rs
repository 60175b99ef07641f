//! Links the unwinder into the command, where the C compiler has it as an archive: to load libgcc_s is a tenth of what it takes to hash a
//! small file. Packs the relocations, a twenty-fifth of the file, where the C library can unpack them (glibc 2.36).

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
    if is_native && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library that the program is linked with, and that runs it.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
