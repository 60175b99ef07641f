//! What S3 says about an object that was uploaded in parts: the digest of the digests of its parts, and how many there are. The ETag is
//! that of MD5 in hexadecimal digits; composite checksums (x-amz-checksum-sha256) are in Base64 (Amazon S3 User Guide, "Checking object
//! integrity").

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gantry_digest::Algorithm;

use super::console::Console;
use super::{needs_escape, options::Options, write_name};
use crate::hex::hex;
use crate::output::Failure;
use crate::verity::digest_of;
use crate::verity::pieces::digests;
use crate::verity::source::Source;

/// Most bytes of a part (Amazon S3, "multipart upload limits": 5 GiB).
const LONGEST: u64 = 5 << 30;
/// Most parts of an object there.
const MOST_PARTS: u64 = 10_000;
const MIB: u64 = 1 << 20;

/// Sizes of parts that programs use, in MiB: aws-cli and boto3 8, s3cmd 15, SDKs and rclone 5, MinIO 16 and 128, others powers of two.
const USUAL: [u64; 20] = [8, 5, 15, 16, 10, 20, 25, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000, 1024, 2048, 4096];
/// If there are no more multiples of a MiB that make as many parts, each is tried.
const FEW: u64 = 40;

/// Files by parts, or the search for the size of parts. Answers whether all went well.
pub(super) fn run(options: &Options, algorithm: &str, threads: usize, console: &mut Console) -> bool {
    let algorithm = match algorithm {
        "md5" => Algorithm::Md5,
        "sha1" => Algorithm::Sha1,
        "sha256" => Algorithm::Sha256,
        other => {
            console.error(format!("S3 has no values of parts by {other}; it has md5, sha1 and sha256").as_bytes());
            return false;
        }
    };
    let mut good = true;
    for operand in &options.operands {
        let result = source(operand).and_then(|source| match &options.etag {
            None => value(&source, algorithm, options.parts.unwrap_or(8 * MIB), threads).map(Some),
            Some(etag) => search(&source, algorithm, etag, threads),
        });
        match (result, &options.etag) {
            (Ok(Some(found)), None) => print(console, options, operand, &format!("{found}  "), ""),
            (Ok(Some(size)), Some(_)) => print(console, options, operand, "", &format!(": OK, {size}")),
            (Ok(None), _) => {
                good = false;
                print(console, options, operand, "", ": FAILED");
            }
            (Err(failure), _) => {
                good = false;
                console.error(failure.to_string().as_bytes());
            }
        }
    }
    good
}

/// A file: a pipe cannot be read at several places.
fn source(operand: &OsStr) -> Result<Source, Failure> {
    if operand == "-" {
        return Err(Failure::Failed("parts are those of files, not of standard input".to_owned()));
    }
    Source::open(Path::new(operand))
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

/// The value of a file in parts of so many bytes. A file without bytes is one part.
fn value(source: &Source, algorithm: Algorithm, part: u64, threads: usize) -> Result<String, Failure> {
    let mut parts = digests(source, algorithm, part, threads)?;
    if parts.is_empty() {
        parts = digest_of(algorithm, &[]);
    }
    let count = parts.len() / algorithm.digest_size();
    let digest = digest_of(algorithm, &[&parts]);
    Ok(format!("{}-{count}", text(algorithm, &digest)))
}

fn text(algorithm: Algorithm, digest: &[u8]) -> String {
    if algorithm == Algorithm::Md5 { hex(digest) } else { base64(digest) }
}

/// How a file was uploaded that has this value: in words, or `None` if no size that is tried gives it.
fn search(source: &Source, algorithm: Algorithm, etag: &str, threads: usize) -> Result<Option<String>, Failure> {
    let wrong = || {
        Failure::Failed(format!(
            "'{etag}' is no value of S3 for {algorithm}: a digest, and - and the number of its parts"
        ))
    };
    let etag = etag.trim_matches('"');
    let (digest, count) = match etag.rsplit_once('-') {
        None => (etag, None),
        Some((digest, count)) => (digest, Some(count.parse::<u64>().map_err(|_| wrong())?)),
    };
    let is_hex = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_base64 = digest.len() == algorithm.digest_size().div_ceil(3) * 4;
    if !(if algorithm == Algorithm::Md5 { is_hex(digest) } else { is_base64 }) {
        return Err(wrong());
    }
    let lower = if algorithm == Algorithm::Md5 { etag.to_ascii_lowercase() } else { etag.to_owned() };
    let Some(count) = count else {
        let whole = digests(source, algorithm, source.length.max(1), 1)?;
        let whole = if whole.is_empty() { digest_of(algorithm, &[]) } else { whole };
        return Ok((text(algorithm, &whole) == lower).then(|| "in one piece".to_owned()));
    };
    if !(1..=MOST_PARTS).contains(&count) {
        return Err(wrong());
    }
    for part in candidates(source.length, count) {
        if value(source, algorithm, part, threads)? == lower {
            return Ok(Some(format!("parts of {part} bytes")));
        }
    }
    Ok(None)
}

/// Sizes that make so many parts of so many bytes, the likely ones first.
fn candidates(length: u64, count: u64) -> Vec<u64> {
    let fits = |part: &u64| (1..=LONGEST).contains(part) && length.div_ceil(*part).max(1) == count;
    let (least, most) = (length.div_ceil(count).max(1), if count == 1 { LONGEST } else { length.div_ceil(count - 1) });
    let multiples = least.div_ceil(MIB)..=most.min(LONGEST) / MIB;
    // Of one part any size is as good as another.
    let all = if count > 1 && multiples.clone().count() as u64 <= FEW { Some(multiples) } else { None };
    // Programs that divide a file by the number of parts round up to bytes, kB, or MiB.
    let divided = [least, least.next_multiple_of(1024), least.next_multiple_of(MIB)];
    let usual = USUAL.iter().map(|size| size * MIB);
    let mut found: Vec<u64> = Vec::new();
    for part in usual.chain(divided).chain(all.into_iter().flatten().map(|size| size * MIB)).filter(fits) {
        if !found.contains(&part) {
            found.push(part);
        }
    }
    found.truncate(if count == 1 { 1 } else { usize::MAX });
    found
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= group.len() { char::from(DIGITS[place]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_its_standard() {
        // RFC 4648, section 10.
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn every_candidate_makes_as_many_parts_and_the_usual_ones_are_among_them() {
        for (length, count, expected) in [
            (100 * MIB, 13, 8 * MIB),
            (100 * MIB, 7, 15 * MIB),
            (100 * MIB + 1, 21, 5 * MIB),
            (10_000_000_000, 1193, 8_388_608),
            (1000, 1, 8 * MIB),
            (999_999, 3, 333_333),
            (70 * MIB, 10, 7 * MIB),
            (0, 1, 8 * MIB),
        ] {
            let found = candidates(length, count);
            assert!(found.contains(&expected), "{length} in {count}: {found:?}");
            assert!(found.iter().all(|part| length.div_ceil(*part).max(1) == count), "{length} in {count}: {found:?}");
            assert!(found.len() < 100);
        }
        assert!(candidates(10, 100).is_empty());
        assert!(candidates(u64::MAX, 10_000).is_empty());
    }
}
