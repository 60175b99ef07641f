//! S3's checksums of objects (Amazon S3 User Guide, "Checking object integrity"). An object in one piece has the checksum of its content.
//! An object that was uploaded in parts has the checksum of the parts' checksums, and the number of parts. A CRC may cover the content even
//! if the object was uploaded in parts. ETags are MD5 in hexadecimal digits; other checksums (x-amz-checksum-sha256) are in Base64.

mod checksum;
mod stream;

use std::ffi::OsStr;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use super::console::Console;
use super::{needs_escape, write_name};
use crate::args::sum::{Options, PartSize};
use crate::hashing::source::Source;
use crate::io::sys;
use crate::output::Failure;
use checksum::Checksum;

/// Most bytes of a part (Amazon S3, "multipart upload limits": 5 GiB).
const MAX_PART_SIZE: u64 = 5 << 30;
/// Most parts of an object.
const MAX_PARTS: u64 = 10_000;
const MIB: u64 = 1 << 20;

const MB: u64 = 1_000_000;

/// Common part sizes in MiB and in MB: aws-cli and boto3 8, s3cmd 15, SDKs and rclone 5, MinIO 16 and 128, others powers
/// of two and round numbers.
const COMMON_PART_SIZES: [u64; 20] =
    [8, 5, 15, 16, 10, 20, 25, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000, 1024, 2048, 4096];
/// Part sizes for uploads of unknown length: 160 GiB and 5 TiB in [`MAX_PARTS`] parts.
const STREAM_PART_SIZES: [u64; 2] = [17_179_870, 549_755_814];
/// Multiples of each of these units are tried as part sizes, if at most [`MAX_MULTIPLES`] multiples give the right number of parts.
const PART_SIZE_UNITS: [u64; 5] = [MIB, MB, 1024, 1000, 1];
const MAX_MULTIPLES: u64 = 40;

/// The result of the search for the part size of an upload.
enum SearchResult {
    /// The part size, in words.
    Size(String),
    /// The file differs.
    Damaged,
    /// No tried size fits; these sizes are possible.
    Unknown(RangeInclusive<u64>),
}

/// An operand.
enum Input {
    File(Source),
    /// A pipe, which can be read once, and its name.
    Pipe(File, String),
}

/// Prints the checksums of files, or searches for the part size. Returns true if every file succeeded.
///
/// # Errors
/// Describes a function that S3 does not have.
pub(super) fn run(options: &Options, threads: usize, console: &mut Console) -> Result<bool, String> {
    // MD5 is the function of ETags.
    let name = options.algorithms.first().map_or("md5".into(), |name| name.to_string_lossy());
    let checksum = Checksum::from_name(&name)?;
    if matches!(options.parts, Some(PartSize::Bytes(_))) && !checksum.is_composite() {
        return Err(format!("S3 has {name} of whole objects only, which `--parts whole` prints"));
    }
    let mut all_succeeded = true;
    for operand in &options.operands {
        let words = Input::open(operand).and_then(|input| match &options.etag {
            None => {
                let found = checksum_of(input, checksum, options.parts.unwrap_or(PartSize::Whole), threads)?;
                Ok((format!("{found}  "), String::new(), true))
            }
            Some(etag) => Ok(match search(input, checksum, etag, threads)? {
                SearchResult::Size(size) => (String::new(), format!(": OK, {size}"), true),
                SearchResult::Damaged => (String::new(), ": FAILED".to_owned(), false),
                SearchResult::Unknown(possible) => {
                    let (least, most) = possible.into_inner();
                    let words = format!(": no part size that was tried fits; possible are {least} to {most} bytes");
                    (String::new(), words, false)
                }
            }),
        });
        match words {
            Ok((before, behind, fits)) => {
                all_succeeded &= fits;
                print(console, options, operand, &before, &behind);
            }
            Err(failure) => {
                all_succeeded = false;
                console.error(failure.to_string().as_bytes());
            }
        }
    }
    Ok(all_succeeded)
}

impl Input {
    fn open(operand: &OsStr) -> Result<Self, Failure> {
        let path = Path::new(operand);
        let name = if operand == "-" { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if operand == "-" { sys::stdin() } else { File::open(path) };
        let kind = opened.and_then(|file| Ok((file.metadata()?.file_type(), file)));
        let (kind, file) = kind.map_err(|error| Failure::at(&name, &error))?;
        if operand != "-" && (kind.is_file() || kind.is_block_device()) {
            return Source::open(path).map(Self::File);
        }
        Ok(Self::Pipe(file, name))
    }
}

fn print(console: &mut Console, options: &Options, operand: &OsStr, before: &str, behind: &str) {
    let name = operand.as_bytes();
    let escape = !options.zero && needs_escape(name);
    let line = console.line();
    if escape {
        line.push(b'\\');
    }
    line.extend(before.as_bytes());
    write_name(line, name, escape);
    line.extend(behind.as_bytes());
    console.end_line();
}

/// Returns the checksum of a file.
fn checksum_of(input: Input, checksum: Checksum, part: PartSize, threads: usize) -> Result<String, Failure> {
    Ok(match (input, part) {
        (Input::File(source), PartSize::Whole) => checksum.text(&checksum.of_whole(&source, threads)?),
        (Input::File(source), PartSize::Bytes(part)) => of_parts(checksum, &checksum.of_parts(&source, part, threads)?),
        (Input::Pipe(pipe, name), part) => {
            let (size, most) = match part {
                PartSize::Whole => (u64::MAX, 1),
                PartSize::Bytes(size) => (size, u64::MAX),
            };
            let (parts, _) = stream::parts(pipe, &name, checksum, &[size], most)?;
            let values = parts.first().map_or(&[][..], |parts| &parts.values[..]);
            if part == PartSize::Whole { checksum.text(values) } else { of_parts(checksum, values) }
        }
    })
}

/// Returns the checksum of an object whose parts have these values.
fn of_parts(checksum: Checksum, values: &[u8]) -> String {
    format!("{}-{}", checksum.text(&checksum.of(values)), values.len() / checksum.size())
}

/// Searches for the part size with which a file of this checksum was uploaded.
fn search(input: Input, checksum: Checksum, etag: &str, threads: usize) -> Result<SearchResult, Failure> {
    let wrong = || {
        Failure::Failed(format!(
            "'{etag}' is not an S3 checksum of {}: a digest, then - and the number of parts",
            checksum.name()
        ))
    };
    let etag = etag.trim_matches('"');
    let (digest, count) = match etag.rsplit_once('-') {
        None => (etag, None),
        Some((digest, count)) => (digest, Some(count.parse::<u64>().map_err(|_| wrong())?)),
    };
    let is_hex = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_base64 = digest.len() == checksum.size().div_ceil(3) * 4;
    if !(if checksum.is_hex() { is_hex(digest) } else { is_base64 }) {
        return Err(wrong());
    }
    let etag = if checksum.is_hex() { etag.to_ascii_lowercase() } else { etag.to_owned() };
    let Some(count) = count else {
        let fits = checksum_of(input, checksum, PartSize::Whole, threads)? == etag;
        return Ok(if fits { SearchResult::Size("in one piece".to_owned()) } else { SearchResult::Damaged });
    };
    if !(1..=MAX_PARTS).contains(&count) {
        return Err(wrong());
    }
    let fitting = |part: u64| Ok(SearchResult::Size(format!("parts of {part} bytes")));
    let (possible, tried) = match input {
        Input::File(source) => {
            let possible = possible_part_sizes(source.length, count);
            let mut candidates = candidates(&possible);
            // With one part, every size gives the same checksum.
            candidates.truncate(if count == 1 { 1 } else { usize::MAX });
            for &part in &candidates {
                if of_parts(checksum, &checksum.of_parts(&source, part, threads)?) == etag {
                    return fitting(part);
                }
            }
            (possible, candidates.len())
        }
        Input::Pipe(pipe, name) => {
            let sizes: Vec<u64> = if count == 1 { vec![MAX_PART_SIZE] } else { common_part_sizes().collect() };
            let (all, length) = stream::parts(pipe, &name, checksum, &sizes, count)?;
            if let Some(parts) = all.iter().find(|parts| of_parts(checksum, &parts.values) == etag) {
                return fitting(parts.size);
            }
            let possible = possible_part_sizes(length, count);
            let tried = sizes.iter().filter(|size| possible.contains(size)).count();
            (possible, tried)
        }
    };
    let sizes = if possible.is_empty() { 0 } else { possible.end() - possible.start() + 1 };
    let all = count == 1 || tried as u64 == sizes;
    Ok(if all { SearchResult::Damaged } else { SearchResult::Unknown(possible) })
}

/// Returns the part sizes that divide `length` bytes into `count` parts.
fn possible_part_sizes(length: u64, count: u64) -> RangeInclusive<u64> {
    let most = if count == 1 { MAX_PART_SIZE } else { length.div_ceil(count - 1).saturating_sub(1).min(MAX_PART_SIZE) };
    length.div_ceil(count).max(1)..=most
}

/// Returns the part sizes that programs use, except sizes that depend on the file's length.
fn common_part_sizes() -> impl Iterator<Item = u64> {
    [MIB, MB].into_iter().flat_map(|unit| COMMON_PART_SIZES.map(|size| size * unit)).chain(STREAM_PART_SIZES)
}

/// Returns possible part sizes to try, likely ones first.
fn candidates(possible: &RangeInclusive<u64>) -> Vec<u64> {
    let (least, most) = possible.clone().into_inner();
    // Programs that divide a file by a number of parts round up to bytes, KiB or MiB.
    let divided = [least, least.next_multiple_of(1024), least.next_multiple_of(MIB)];
    let multiples = PART_SIZE_UNITS.into_iter().flat_map(|unit| {
        let (first, last) = (least.div_ceil(unit), most / unit);
        let few = last.checked_sub(first).is_some_and(|more| more < MAX_MULTIPLES);
        if few { (first..=last).map(|size| size * unit).collect() } else { Vec::new() }
    });
    let mut found: Vec<u64> = Vec::new();
    for part in common_part_sizes().chain(divided).chain(multiples).filter(|part| possible.contains(part)) {
        if !found.contains(&part) {
            found.push(part);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_make_the_right_number_of_parts_and_include_common_sizes() {
        for (length, count, expected) in [
            (100 * MIB, 13, 8 * MIB),
            (100 * MIB, 7, 15 * MIB),
            (100 * MIB + 1, 21, 5 * MIB),
            (10_000_000_000, 1193, 8_388_608),
            (1000, 1, 8 * MIB),
            (999_999, 3, 333_333),
            (70 * MIB, 10, 7 * MIB),
            (0, 1, 8 * MIB),
            (100_000_000, 13, 8 * MB),
            (100 * MIB, 7, 16 * MB),
            (100 * MIB, 7, 15_000_000),
            (160 << 30, 10_000, 17_179_870),
            (200 * MIB, 13, 17_179_870),
        ] {
            let found = candidates(&possible_part_sizes(length, count));
            assert!(found.contains(&expected), "{length} in {count}: {found:?}");
            assert!(found.iter().all(|part| length.div_ceil(*part).max(1) == count), "{length} in {count}: {found:?}");
            assert!(found.len() < 250);
        }
        assert!(candidates(&possible_part_sizes(10, 100)).is_empty());
        assert!(candidates(&possible_part_sizes(u64::MAX, 10_000)).is_empty());
    }

    #[test]
    fn a_size_is_possible_if_it_gives_that_number_of_parts() {
        for length in 0..60 {
            for count in 1..70 {
                let sizes: Vec<u64> =
                    (1..=60_u64).filter(|part| u64::div_ceil(length, *part).max(1) == count).collect();
                let possible = possible_part_sizes(length, count);
                assert_eq!(possible.take_while(|part| *part <= 60).collect::<Vec<_>>(), sizes, "{length} in {count}");
            }
        }
    }
}
