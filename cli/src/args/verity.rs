//! Commands that hash the blocks and pieces of files: `verity` and `torrent`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gantry_digest::Algorithm;

use super::positive_size;
use crate::dm_verity::{self, HashFunction};

/// Create and verify dm-verity hash trees, and compute fs-verity digests
///
/// Hashes the blocks of a file on all processors, in their SIMD lanes. Formats, options and output are those
/// of veritysetup and fsverity.
#[derive(Args)]
pub(crate) struct Verity {
    #[command(subcommand)]
    pub(crate) command: VerityCommand,
}

#[derive(Subcommand)]
pub(crate) enum VerityCommand {
    Digest(VerityDigest),
    Format(VerityFormat),
    Verify(VerityVerify),
}

/// Print the fs-verity digests of files
///
/// Prints the same as `fsverity digest`: the digest that Linux reports for a file with fs-verity enabled (FS_IOC_MEASURE_VERITY).
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry verity digest app.apk
  gantry verity digest --hash-alg sha512 --salt 00ff --compact app.apk")]
pub(crate) struct VerityDigest {
    /// Hash function: sha256 or sha512
    #[arg(long, value_name = "HASH", default_value = "sha256", value_parser = fsverity_hash)]
    pub(crate) hash_alg: Algorithm,
    /// Bytes per block of the tree: a power of two from 1024 to 65536
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = fsverity_block)]
    pub(crate) block_size: usize,
    /// Salt in hexadecimal digits, at most 32 bytes [default: none]
    #[arg(long, value_name = "HEX", default_value = "", value_parser = hex_bytes::<32>, hide_default_value = true)]
    pub(crate) salt: Bytes,
    /// Print only the digest
    #[arg(long)]
    pub(crate) compact: bool,
    /// Instead of the digest, print the bytes that a built-in signature signs: "FSVerity", the hash function, and the digest with its
    /// length
    #[arg(long)]
    pub(crate) for_builtin_sig: bool,
    /// Also write the Merkle tree to this file, as Linux stores it; only for a single FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) out_merkle_tree: Option<PathBuf>,
    /// Files to hash
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Layout of a dm-verity hash tree that has no superblock.
#[derive(Args)]
pub(crate) struct TreeOptions {
    /// Hash function: md5, sha1, sha224 to sha512, sha3-224 to sha3-512, blake2b-512, blake2s-256, ripemd160 (or rmd160) or sm3
    #[arg(long, value_name = "FUNCTION", default_value = "sha256", value_parser = verity_hash)]
    pub(crate) hash: HashFunction,
    /// Format of the tree: 1, or 0 for Chrome OS
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=1))]
    pub(crate) format: u32,
    /// Bytes per block of the data: a power of two from 512 to 524288
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = verity_block)]
    pub(crate) data_block_size: usize,
    /// Bytes per block of the tree: a power of two from 512 to 524288
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = verity_block)]
    pub(crate) hash_block_size: usize,
    /// Number of data blocks [default: all of DATA, which must be whole blocks]
    #[arg(long, value_name = "N")]
    pub(crate) data_blocks: Option<u64>,
    /// Offset in HASH, in bytes, of the superblock, or of the tree if there is none
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) hash_offset: u64,
    /// The tree has no superblock: format writes none, and verify takes the layout of the tree from options
    #[arg(long)]
    pub(crate) no_superblock: bool,
}

/// Create a dm-verity hash tree
///
/// Writes the hash tree of DATA to HASH, and prints the contents of its superblock and the root hash. Keep the root hash where it
/// cannot be changed. With --hash-offset, DATA and HASH may be the same file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry verity format root.squashfs root.verity
  gantry verity format --salt - --root-hash-file root.hash root.squashfs root.verity")]
pub(crate) struct VerityFormat {
    #[command(flatten)]
    pub(crate) tree: TreeOptions,
    /// Salt in hexadecimal digits, at most 256 bytes; - for none [default: 32 random bytes]
    #[arg(long, value_name = "HEX", value_parser = hex_bytes::<256>)]
    pub(crate) salt: Option<Bytes>,
    /// UUID in the superblock [default: random]
    #[arg(long, value_parser = uuid, conflicts_with = "no_superblock")]
    pub(crate) uuid: Option<Uuid>,
    /// Also write the root hash to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) root_hash_file: Option<PathBuf>,
    /// File or block device with the data
    pub(crate) data: PathBuf,
    /// File or block device to write the tree to
    #[arg(value_name = "HASH")]
    pub(crate) hash_file: PathBuf,
}

/// Verify data with a dm-verity hash tree
///
/// Verifies from the root hash down to the data, and reports the first block that does not match. The layout of the tree comes from
/// the superblock. Options about the layout take effect only with --no-superblock. The exception is --hash-offset, which locates the
/// superblock.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry verity verify root.squashfs root.verity 4228c823...10dca77e
  gantry verity verify --root-hash-file root.hash root.squashfs root.verity

Exit status: 0 if every block matches, 1 if one does not or a file cannot be read, 2 for a mistake
on the command line.")]
pub(crate) struct VerityVerify {
    #[command(flatten)]
    pub(crate) tree: TreeOptions,
    /// Salt in hexadecimal digits, at most 256 bytes, of a tree without superblock [default: none]
    #[arg(long, value_name = "HEX", value_parser = hex_bytes::<256>, requires = "no_superblock")]
    pub(crate) salt: Option<Bytes>,
    /// Read the root hash from this file
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub(crate) root_hash_file: Option<PathBuf>,
    /// File or block device with the data
    pub(crate) data: PathBuf,
    /// File or block device with the tree
    #[arg(value_name = "HASH")]
    pub(crate) hash_file: PathBuf,
    /// Root hash in hexadecimal digits; required without --root-hash-file
    #[arg(value_name = "ROOT", required_unless_present = "root_hash_file", value_parser = hex_bytes::<64>)]
    pub(crate) root: Option<Bytes>,
}

/// Create a .torrent, verify files with one, and print the BitTorrent v2 roots of files
///
/// Hashes on all processors, in their SIMD lanes. Does not use the network.
#[derive(Args)]
pub(crate) struct Torrent {
    #[command(subcommand)]
    pub(crate) command: TorrentCommand,
}

#[derive(Subcommand)]
pub(crate) enum TorrentCommand {
    Create(TorrentCreate),
    Root(TorrentRoot),
    Verify(TorrentVerify),
}

/// Create a .torrent of a file or folder
///
/// Writes a torrent of BitTorrent v1 (BEP 3), v2 (BEP 52), or both, and prints its info hashes, the same as libtorrent's.
/// Follows symbolic links, and leaves out empty folders. The torrent has no date, so the same files make the same torrent.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry torrent create album                     album.torrent, for clients of v1 and v2
  gantry torrent create --format v1 --piece-size 1M --announce https://example.org/announce album")]
pub(crate) struct TorrentCreate {
    /// Version of BitTorrent
    #[arg(long, value_name = "VERSION", default_value = "hybrid")]
    pub(crate) format: TorrentVersion,
    /// Bytes per piece: a power of two from 16K to 128M [default: 16K to 16M, by the length of the data]
    #[arg(long, value_name = "BYTES", value_parser = torrent_piece)]
    pub(crate) piece_size: Option<usize>,
    /// URL of a tracker; may be repeated
    #[arg(long, value_name = "URL")]
    pub(crate) announce: Vec<String>,
    /// Tell clients to find peers through the trackers only
    #[arg(long)]
    pub(crate) private: bool,
    /// Torrent to write, which must not exist yet [default: NAME.torrent in the current folder]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// File or folder
    pub(crate) path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TorrentVersion {
    /// BEP 3
    V1,
    /// BEP 52
    V2,
    /// Both
    Hybrid,
}

/// Print the BitTorrent v2 roots of files
///
/// A root is the root hash of a SHA-256 tree over blocks of 16 KiB (BEP 52, `pieces root`). Equal files have the same root in every
/// torrent.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry torrent root *.iso")]
pub(crate) struct TorrentRoot {
    /// Files to hash
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Verify files with a .torrent
///
/// Hashes every piece of BitTorrent v1 (BEP 3), v2 (BEP 52), or both, and reports each one that does not match.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry torrent verify debian.torrent            files beside the torrent
  gantry torrent verify debian.torrent /srv/iso   files below /srv/iso

Exit status: 0 if every piece matches, 1 if one does not or a file cannot be read, 2 for a mistake
on the command line.")]
pub(crate) struct TorrentVerify {
    /// Torrent file
    pub(crate) torrent: PathBuf,
    /// The content, or the folder that contains it [default: the folder of the .torrent file]
    pub(crate) folder: Option<PathBuf>,
}

/// Bytes, parsed from hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// The bytes of a UUID in the order of its text form.
#[derive(Clone, Copy)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

/// Parses at most `MAX` bytes in hexadecimal digits, or `-` for none.
fn hex_bytes<const MAX: usize>(text: &str) -> Result<Bytes, String> {
    let bytes = if text == "-" { Some(Vec::new()) } else { crate::hex::from_hex(text.as_bytes()) };
    match bytes {
        Some(bytes) if bytes.len() <= MAX => Ok(Bytes(bytes)),
        Some(_) => Err(format!("more than {MAX} bytes")),
        None => Err("not hexadecimal digits, two for each byte".to_owned()),
    }
}

fn uuid(text: &str) -> Result<Uuid, String> {
    let wrong = || "not a UUID, such as 01234567-89ab-cdef-0123-456789abcdef".to_owned();
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let digits: String = text.split('-').collect();
    let bytes = crate::hex::from_hex(digits.as_bytes()).filter(|_| parts == [8, 4, 4, 4, 12]);
    bytes.and_then(|bytes| bytes.try_into().ok()).map(Uuid).ok_or_else(wrong)
}

fn fsverity_hash(text: &str) -> Result<Algorithm, String> {
    let algorithm = [Algorithm::Sha256, Algorithm::Sha512].into_iter().find(|algorithm| algorithm.as_str() == text);
    algorithm.ok_or_else(|| "not sha256 or sha512".to_owned())
}

fn verity_hash(text: &str) -> Result<HashFunction, String> {
    dm_verity::function_of_name(text.as_bytes()).ok_or_else(|| format!("not one of {}", dm_verity::function_names()))
}

fn fsverity_block(text: &str) -> Result<usize, String> {
    let bytes = positive_size(text)?;
    let fits = bytes.is_power_of_two() && (1024..=65536).contains(&bytes);
    if fits { Ok(bytes) } else { Err("not a power of two from 1024 to 65536".to_owned()) }
}

fn torrent_piece(text: &str) -> Result<usize, String> {
    let bytes = positive_size(text)?;
    let fits = bytes.is_power_of_two() && (16 << 10..=128 << 20).contains(&bytes);
    if fits { Ok(bytes) } else { Err("not a power of two from 16K to 128M".to_owned()) }
}

fn verity_block(text: &str) -> Result<usize, String> {
    let bytes = positive_size(text)?;
    if dm_verity::is_block_size(bytes) { Ok(bytes) } else { Err("not a power of two from 512 to 524288".to_owned()) }
}
