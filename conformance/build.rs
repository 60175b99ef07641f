//! Compresses each file in `vectors/` and packs it into the crate.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::deflate::{CompressionLevel, core::CompressionStrategy};

fn main() {
    println!("cargo::rerun-if-changed=vectors");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let files = read_files(Path::new("vectors"));
    // `vectors.rs` includes this list: name, algorithms, contents.
    let mut list = "&[\n".to_owned();
    for (number, (name, text)) in files.iter().enumerate() {
        fs::write(out.join(number.to_string()), pack(text.as_bytes())).expect("the folder can be written");
        writeln!(list, "({name:?}, &{:?}, include_bytes!(\"{number}\")),", algorithms(text))
            .expect("writing to a string does not fail");
    }
    fs::write(out.join("files.rs"), list + "]").expect("the folder can be written");
}

/// Reads the files of a folder, sorted by path.
fn read_files(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).expect("the vectors are part of the crate");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    let file = |path: PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("vectors are text"))
    };
    paths.into_iter().map(file).collect()
}

/// Returns the algorithms named in the section titles of a text.
fn algorithms(text: &str) -> Vec<&str> {
    let titles = text.lines().filter_map(|line| line.strip_prefix('['));
    let mut names: Vec<&str> = titles.filter_map(|title| title.split([' ', ']']).next()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Compresses a text to a DEFLATE stream. The strategy `Filtered` prefers Huffman codes to matches, which suits random
/// hexadecimal digits: the result is an eighth smaller.
fn pack(text: &[u8]) -> Vec<u8> {
    let level = CompressionLevel::UberCompression as i32;
    let flags = create_comp_flags_from_zip_params(level, -15, CompressionStrategy::Filtered as i32);
    let mut packed = vec![0; text.len() + 1024];
    let done = compress(&mut CompressorOxide::new(flags), text, &mut packed, TDEFLFlush::Finish);
    assert_eq!((done.0, done.1), (TDEFLStatus::Done, text.len()), "there is room for all of it");
    packed.truncate(done.2);
    packed
}
