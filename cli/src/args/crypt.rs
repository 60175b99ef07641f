//! `gantry crypt`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Error};

/// Encrypt and decrypt files and pipes with raw keys
///
/// Reads standard input and writes standard output, unless --in and --out name files. The file of --out appears only when it is
/// complete. A new file is readable by its owner only. A file that replaces another one has the mode of the replaced file.
///
/// Ciphers process the data in pieces, so data of any length needs little memory. XTS is the exception: it takes one message of at
/// most 16 MiB. CBC and ECB pad as `openssl enc` does (PKCS #7).
///
/// AEADs hold the whole message in memory. The tag follows the ciphertext. If the tag is wrong, nothing is written.
///
/// Keys are raw bytes, read from a file descriptor to its end, so that they never appear in the process list. This command
/// neither makes nor stores keys and IVs: use /dev/urandom, and keep both to decrypt. Never use an IV twice with one key.
#[derive(Args)]
#[command(after_help = "\
Examples:
  umask 77; head -c 32 /dev/urandom > key; iv=$(od -An -tx1 -N12 /dev/urandom | tr -d ' \\n')
  gantry crypt -e aes-256-gcm --key-fd 3 --iv $iv -i mail -o mail.sealed 3<key
  gantry crypt -d aes-256-gcm --key-fd 3 --iv $iv -i mail.sealed 3<key
  head -c 32 /dev/urandom > key2; iv2=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \\n')
  tar c /etc | gantry crypt -e aes-256-cbc --key-fd 3 --iv $iv2 3<key2 > etc.tar.cbc")]
#[allow(clippy::struct_excessive_bools, reason = "one switch of the command line each")]
pub(crate) struct Crypt {
    /// Encrypt, or seal with an AEAD; either -e or -d is required
    #[arg(short, long, required_unless_present = "decrypt", conflicts_with = "decrypt")]
    pub(crate) encrypt: bool,
    /// Decrypt, or open with an AEAD; either -e or -d is required
    #[arg(short, long)]
    pub(crate) decrypt: bool,
    /// Cipher or AEAD; if the name stands for several key sizes, the length of the key decides
    pub(crate) algorithm: String,
    /// File descriptor to read the key from
    #[arg(long, value_name = "N", value_parser = Descriptor)]
    pub(crate) key_fd: i32,
    /// File descriptor to read the MAC key from; required by algorithms named CIPHER-hmac-HASH, such as aes-256-cbc-hmac-sha256
    #[arg(long, value_name = "N", value_parser = Descriptor)]
    pub(crate) mac_key_fd: Option<i32>,
    /// IV or nonce, in hexadecimal digits; required by all algorithms but ECB and null
    #[arg(long, value_name = "HEX")]
    pub(crate) iv: Option<String>,
    /// Accept a nonce of 1 to 65,536 bytes with AES-GCM, which otherwise takes 12
    #[arg(long)]
    pub(crate) any_nonce: bool,
    /// Additional authenticated data, in hexadecimal digits
    #[arg(long, value_name = "HEX")]
    pub(crate) aad: Option<String>,
    /// Length of the tag, in bytes [default: the algorithm's longest]
    #[arg(long, value_name = "N")]
    pub(crate) tag_bytes: Option<usize>,
    /// Do not add or remove padding; the data must be whole blocks
    #[arg(long)]
    pub(crate) no_padding: bool,
    /// Read this file instead of standard input
    #[arg(short, long = "in", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(short, long = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The number of a file descriptor. Messages do not repeat a wrong value, because it may be a key: `--key 0011...` is taken as
/// `--key-fd`.
#[derive(Clone)]
struct Descriptor;

impl TypedValueParser for Descriptor {
    type Value = i32;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, value: &OsStr) -> Result<i32, Error> {
        let number = value.to_str().and_then(|value| value.parse().ok()).filter(|number| *number >= 0);
        number.ok_or_else(|| {
            let option = option.and_then(Arg::get_long).unwrap_or_default();
            let message = format!(
                "--{option} takes the number of a descriptor, not a key: arguments are visible in the process list\n"
            );
            Error::raw(ErrorKind::InvalidValue, message).with_cmd(command)
        })
    }
}
