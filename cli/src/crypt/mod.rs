//! `gantry crypt`: ciphers and AEADs over files and pipes, with raw keys.
//!
//! Ciphers without authentication process a stream: [`stream`] holds two pieces in memory. An AEAD has one message, which [`message`] holds
//! in memory until its tag is verified. Chunks with a tag each would need a format that no other program reads.

mod key;
mod message;
mod stream;
mod sys;

use gantry_core::{Algorithm, Direction, Kind, Lengths, Operation, Session, SessionParams};
use zeroize::Zeroizing;

use crate::args::{Crypt, Settings};
use crate::hex::from_hex;
use crate::io::{Input, Target};
use crate::output::Failure;

pub(crate) fn run(args: &Crypt, settings: &Settings) -> Result<(), Failure> {
    let candidates = candidates(&args.algorithm)?;
    let (iv, aad) = (parse_hex("--iv", args.iv.as_deref())?, parse_hex("--aad", args.aad.as_deref())?);
    let key = key::read("--key-fd", args.key_fd, args.input.is_none())?;
    let mac_key = match args.mac_key_fd {
        Some(descriptor) if descriptor == args.key_fd => {
            return Err(Failure::Usage("--key-fd and --mac-key-fd name the same descriptor".to_owned()));
        }
        Some(descriptor) => key::read("--mac-key-fd", descriptor, args.input.is_none())?,
        None => Zeroizing::default(),
    };
    let algorithm = algorithm_for_key(&candidates, &args.algorithm, &key)?;
    let direction = if args.encrypt { Direction::Encrypt } else { Direction::Decrypt };
    let mut params = SessionParams::new(algorithm, &key).with_mac_key(&mac_key).with_direction(direction);
    if args.any_nonce {
        params = params.with_any_nonce();
    }
    check_arguments(args, algorithm, &iv, params.iv_lengths())?;
    if let Some(bytes) = args.tag_bytes {
        params = params.with_tag_len(bytes);
    }
    let session = settings.open()?.session(params).map_err(params_failure)?;
    let job = Job { session, iv, aad, padded: !args.no_padding, encrypt: args.encrypt };
    let mut input = Input::open(args.input.as_deref())?;
    let target = Target::new(args.output.as_deref())?;
    if algorithm.kind() == Kind::Cipher && job.can_stream() {
        stream::run(&job, &mut input, target)
    } else {
        message::run(&job, &mut input, target)
    }
}

struct Job {
    session: Session,
    iv: Vec<u8>,
    aad: Vec<u8>,
    /// True if ciphers that take only whole blocks pad as in PKCS #7.
    padded: bool,
    encrypt: bool,
}

impl Job {
    fn algorithm(&self) -> Algorithm {
        self.session.params().algorithm()
    }

    fn operation(&self) -> Operation {
        if self.encrypt { Operation::Encrypt } else { Operation::Decrypt }
    }

    /// True if a device takes the data in pieces.
    fn can_stream(&self) -> bool {
        self.session.cipher_stream(self.operation(), &self.iv).is_ok()
    }
}

/// Returns the ciphers and AEADs of this name: several if the name stands for several key sizes.
fn candidates(name: &str) -> Result<Vec<Algorithm>, Failure> {
    let mut found = Algorithm::matching(name)?;
    let kind = found[0].kind();
    found.retain(|algorithm| matches!(algorithm.kind(), Kind::Cipher | Kind::Aead));
    if found.is_empty() {
        return Err(Failure::Usage(format!("{name} is a {kind}, neither a cipher nor an AEAD")));
    }
    Ok(found)
}

/// Returns the candidate that takes this key.
fn algorithm_for_key(candidates: &[Algorithm], name: &str, key: &[u8]) -> Result<Algorithm, Failure> {
    let found = candidates.iter().find(|algorithm| algorithm.info().key.allows(key.len()));
    found.copied().ok_or_else(|| {
        let takes: Vec<String> = candidates.iter().map(|algorithm| algorithm.info().key.to_string()).collect();
        let hint = if key.ends_with(b"\n") { "; it ends with a newline, which is part of it" } else { "" };
        Failure::Usage(format!("the key has {} bytes; {name} takes {}{hint}", key.len(), takes.join(" or ")))
    })
}

/// Checks the command line, now that the algorithm is known.
fn check_arguments(args: &Crypt, algorithm: Algorithm, iv: &[u8], takes: Lengths) -> Result<(), Failure> {
    let info = algorithm.info();
    let usage = |text: String| Err(Failure::Usage(text));
    if !takes.allows(iv.len()) {
        let given =
            if args.iv.is_some() { format!("--iv has {} bytes", iv.len()) } else { "--iv is missing".to_owned() };
        return usage(format!("{given}; {algorithm} takes {takes} bytes"));
    }
    if info.mac_key.max > 0 && args.mac_key_fd.is_none() {
        return usage(format!("{algorithm} needs a MAC key, too; pass it with --mac-key-fd"));
    }
    if info.mac_key.max == 0 && args.mac_key_fd.is_some() {
        return usage(format!("{algorithm} has no MAC key, so --mac-key-fd has no effect"));
    }
    if info.kind != Kind::Aead {
        for (option, given) in [("--aad", args.aad.is_some()), ("--tag-bytes", args.tag_bytes.is_some())] {
            if given {
                return usage(format!("{option} is for AEADs, and {algorithm} is a {}", info.kind));
            }
        }
    }
    Ok(())
}

/// Parses hexadecimal digits.
fn parse_hex(option: &str, digits: Option<&str>) -> Result<Vec<u8>, Failure> {
    let bytes = from_hex(digits.unwrap_or_default().as_bytes());
    bytes.ok_or_else(|| Failure::Usage(format!("{option} takes an even number of hexadecimal digits")))
}

/// Turns core's refusal of the parameters into a mistake on the command line.
fn params_failure(error: gantry_core::Error) -> Failure {
    match error {
        gantry_core::Error::Misuse(misuse) => Failure::Usage(misuse.to_string()),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_in_pairs() {
        assert_eq!(parse_hex("--iv", Some("00fFA5")).unwrap(), [0, 0xFF, 0xA5]);
        assert!(parse_hex("--iv", None).unwrap().is_empty());
        for wrong in ["0", "0g", "+1", "é"] {
            assert!(matches!(parse_hex("--iv", Some(wrong)), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn the_key_chooses_between_the_sizes_of_one_name() {
        let cbc = candidates("cbc(aes)").unwrap();
        assert_eq!(algorithm_for_key(&cbc, "cbc(aes)", &[0; 24]).unwrap(), Algorithm::Aes192Cbc);
        let wrong = algorithm_for_key(&cbc, "cbc(aes)", b"0123456789abcdef\n").unwrap_err().to_string();
        assert_eq!(
            wrong,
            "the key has 17 bytes; cbc(aes) takes 16 or 24 or 32; it ends with a newline, which is part of it"
        );
        assert!(candidates("sha256").is_err() && candidates("hmac-sha256").is_err());
    }
}
