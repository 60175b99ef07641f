//! Commands that hash the blocks and the pieces of files: `verity` and `torrent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gantry_digest::Algorithm;

use super::positive_size;

/// Make and verify the hash trees of dm-verity, and the digests of fs-verity
///
/// The blocks of one file are hashed on all processors, and side by side on each: by the lanes, not by other devices. Formats, options and
/// output are those of veritysetup and fsverity.
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

/// Print the digests that fs-verity has for files
///
/// Prints what `fsverity digest` does: the digest by which Linux knows a file with fs-verity (FS_IOC_MEASURE_VERITY).
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry verity digest app.apk
  gantry verity digest --hash-alg sha512 --salt 00ff --compact app.apk")]
pub(crate) struct VerityDigest {
    /// sha256 or sha512
    #[arg(long, value_name = "HASH", default_value = "sha256", value_parser = fsverity_hash)]
    pub(crate) hash_alg: Algorithm,
    /// Bytes of a block of the tree: a power of two
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = fsverity_block)]
    pub(crate) block_size: usize,
    /// Salt in hexadecimal digits, 32 bytes at most
    #[arg(long, value_name = "HEX", default_value = "", value_parser = salt_of::<32>, hide_default_value = true)]
    pub(crate) salt: Bytes,
    /// Print the digest alone
    #[arg(long)]
    pub(crate) compact: bool,
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// What the hash tree of dm-verity is like, where no superblock says it.
#[derive(Args)]
pub(crate) struct Tree {
    /// Hash function
    #[arg(long, value_name = "HASH", default_value = "sha256", value_parser = verity_hash)]
    pub(crate) hash: Algorithm,
    /// 1, or 0 for the format of Chrome OS
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=1))]
    pub(crate) format: u32,
    /// Bytes of a block of the data: a power of two
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = verity_block)]
    pub(crate) data_block_size: usize,
    /// Bytes of a block of the tree: a power of two
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = verity_block)]
    pub(crate) hash_block_size: usize,
    /// How many blocks the data have, if they are not all of DATA
    #[arg(long, value_name = "N")]
    pub(crate) data_blocks: Option<u64>,
    /// Where in HASH the superblock is, or without one the tree
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) hash_offset: u64,
    /// There is no superblock
    #[arg(long)]
    pub(crate) no_superblock: bool,
}

/// Make the hash tree of dm-verity
///
/// Writes the tree over DATA to HASH, and prints what is in its superblock and the root hash: keep that where nobody changes it. With
/// --hash-offset both may be one file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry verity format root.squashfs root.verity
  gantry verity format --salt - --uuid 01234567-89ab-cdef-0123-456789abcdef root.squashfs root.verity")]
pub(crate) struct VerityFormat {
    #[command(flatten)]
    pub(crate) tree: Tree,
    /// Salt in hexadecimal digits, 256 bytes at most; - for none; 32 bytes by chance, unless said otherwise
    #[arg(long, value_name = "HEX", value_parser = salt_of::<256>)]
    pub(crate) salt: Option<Bytes>,
    /// UUID of the superblock; by chance, unless said otherwise
    #[arg(long, value_parser = uuid, conflicts_with = "no_superblock")]
    pub(crate) uuid: Option<Uuid>,
    /// Write the root hash to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) root_hash_file: Option<PathBuf>,
    /// The data: a file or a block device
    pub(crate) data: PathBuf,
    /// Where the tree goes
    #[arg(value_name = "HASH")]
    pub(crate) hash_file: PathBuf,
}

/// Verify data with a hash tree of dm-verity
///
/// Goes from the root hash down to the data, and names the first block that is not the one that was hashed. The superblock says what the tree
/// is like; options say it where there is none.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry verity verify root.squashfs root.verity 4228c823a9474578ce6ad2d28a66a25eb7ca20a73d9c4741136333c510dca77e
  gantry verity verify --root-hash-file root.hash root.squashfs root.verity

Exit status: 0 when every block is the one that was hashed, 1 when one is not or a file cannot be read, 2
for a mistake on the command line.")]
pub(crate) struct VerityVerify {
    #[command(flatten)]
    pub(crate) tree: Tree,
    /// Salt in hexadecimal digits, 256 bytes at most, or -
    #[arg(long, value_name = "HEX", value_parser = salt_of::<256>, requires = "no_superblock")]
    pub(crate) salt: Option<Bytes>,
    /// Read the root hash from this file
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub(crate) root_hash_file: Option<PathBuf>,
    /// The data: a file or a block device
    pub(crate) data: PathBuf,
    /// Where the tree is
    #[arg(value_name = "HASH")]
    pub(crate) hash_file: PathBuf,
    /// The root hash in hexadecimal digits
    #[arg(value_name = "ROOT", required_unless_present = "root_hash_file", value_parser = salt_of::<64>)]
    pub(crate) root: Option<Bytes>,
}

/// Verify files with a .torrent, and print the roots that BitTorrent v2 has for files
#[derive(Args)]
pub(crate) struct Torrent {
    #[command(subcommand)]
    pub(crate) command: TorrentCommand,
}

#[derive(Subcommand)]
pub(crate) enum TorrentCommand {
    Root(TorrentRoot),
    Verify(TorrentVerify),
}

/// Print the roots of files in BitTorrent v2
///
/// The root of SHA-256 over blocks of 16 KiB (BEP 52, `pieces root`), by which equal files in different torrents are known.
#[derive(Args)]
pub(crate) struct TorrentRoot {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Verify files with a .torrent
///
/// Hashes every piece of BitTorrent v1 (BEP 3), v2 (BEP 52), or both, and names the first that is not the one of the torrent.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry torrent verify debian.torrent            files beside the torrent
  gantry torrent verify debian.torrent /srv/iso   files below /srv/iso

Exit status: 0 when every piece is that of the torrent, 1 when one is not or a file cannot be read, 2 for a
mistake on the command line.")]
pub(crate) struct TorrentVerify {
    /// The torrent
    pub(crate) torrent: PathBuf,
    /// Where its file or folder is; the folder of the torrent, unless said otherwise
    pub(crate) folder: Option<PathBuf>,
}

/// Bytes that were written in hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// The bytes of a UUID, in the order in which they are written.
#[derive(Clone, Copy)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

/// Hexadecimal digits of at most so many bytes, or `-` for none.
fn salt_of<const MOST: usize>(text: &str) -> Result<Bytes, String> {
    let bytes = if text == "-" { Some(Vec::new()) } else { crate::hex::from_hex(text.as_bytes()) };
    match bytes {
        Some(bytes) if bytes.len() <= MOST => Ok(Bytes(bytes)),
        Some(_) => Err(format!("more than {MOST} bytes")),
        None => Err("not hexadecimal digits, two for each byte".to_owned()),
    }
}

fn uuid(text: &str) -> Result<Uuid, String> {
    let wrong = || "not a UUID, as 01234567-89ab-cdef-0123-456789abcdef".to_owned();
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let digits: String = text.split('-').collect();
    let bytes = crate::hex::from_hex(digits.as_bytes()).filter(|_| parts == [8, 4, 4, 4, 12]);
    bytes.and_then(|bytes| bytes.try_into().ok()).map(Uuid).ok_or_else(wrong)
}

fn fsverity_hash(text: &str) -> Result<Algorithm, String> {
    let known = [Algorithm::Sha256, Algorithm::Sha512].into_iter().find(|algorithm| algorithm.as_str() == text);
    known.ok_or_else(|| "sha256 or sha512".to_owned())
}

fn verity_hash(text: &str) -> Result<Algorithm, String> {
    crate::verity::hash_of_name(text.as_bytes())
        .ok_or_else(|| format!("one of {}", crate::verity::HASHES.map(Algorithm::as_str).join(", ")))
}

fn fsverity_block(text: &str) -> Result<usize, String> {
    let bytes = positive_size(text)?;
    let fits = bytes.is_power_of_two() && (1024..=65536).contains(&bytes);
    if fits { Ok(bytes) } else { Err("a power of two from 1024 to 65536".to_owned()) }
}

fn verity_block(text: &str) -> Result<usize, String> {
    let bytes = positive_size(text)?;
    if crate::verity::is_block(bytes) { Ok(bytes) } else { Err("a power of two from 512 to 524288".to_owned()) }
}
