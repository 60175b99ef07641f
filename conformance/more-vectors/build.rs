//! Packs the files of `long/` and Wycheproof's sets into one zlib stream. Each set is a line `= NAME`, then text in the format that
//! `gantry-conformance` reads.

#[path = "build/wycheproof.rs"]
mod wycheproof;

use std::path::{Path, PathBuf};
use std::{env, fs};

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::deflate::{CompressionLevel, core::CompressionStrategy};

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=long");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let sets = read_files(Path::new("long")).into_iter().chain(wycheproof::sets());
    let text: Vec<String> = sets.map(|(name, set)| format!("= {name}\n{set}\n")).collect();
    fs::write(out.join("packed"), pack(text.concat().as_bytes())).expect("the folder can be written");
}

/// Reads the files of the folder, sorted by path.
fn read_files(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).expect("the vectors are part of the crate");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    let set = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).expect("vectors are text"));
    paths.into_iter().map(set).collect()
}

/// Compresses a text to a zlib stream. The strategy `Filtered` prefers Huffman codes to matches, which suits random
/// hexadecimal digits: the result is an eighth smaller.
fn pack(text: &[u8]) -> Vec<u8> {
    let level = CompressionLevel::UberCompression as i32;
    let flags = create_comp_flags_from_zip_params(level, 15, CompressionStrategy::Filtered as i32);
    let mut packed = vec![0; text.len() + 1024];
    let done = compress(&mut CompressorOxide::new(flags), text, &mut packed, TDEFLFlush::Finish);
    assert_eq!((done.0, done.1), (TDEFLStatus::Done, text.len()), "there is room for all of it");
    packed.truncate(done.2);
    packed
}
