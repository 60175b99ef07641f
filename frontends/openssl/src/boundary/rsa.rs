//! RSA: what contexts are told of padding, and keys as devices take them.

use std::ffi::{CStr, c_int};

use gantry_core::{Algorithm, Operation, rsa};
use zeroize::Zeroizing;

use super::family::Host;
use super::params::{self, Answers};
use super::signature::SignatureFns;
use crate::abi::Param;
use crate::pair::Raw;
use crate::table::RSA;

/// What a context can be told of padding: everything else is the host's.
pub(super) const TOLD: [&CStr; 4] = [c"digest", MODE, SALT, MASK];

const MODE: &CStr = c"pad-mode";
const SALT: &CStr = c"saltlen";
const MASK: &CStr = c"mgf1-digest";

/// OpenSSL's numbers of paddings (rsa.h).
const PKCS1: c_int = 1;
const PSS: c_int = 6;

/// And of lengths of the salt, where they are none: as the digest, and since 3.1 as the digest when signing.
const AS_DIGEST: c_int = -1;
const AUTO_AS_DIGEST: c_int = -4;

/// OSSL_MAX_NAME_SIZE.
const NAME: usize = 50;

/// How a context of the host pads.
#[derive(Clone, Copy)]
pub(super) struct Padding {
    mode: c_int,
    salt: c_int,
    digest: Option<Algorithm>,
    mask: Option<Algorithm>,
}

impl Padding {
    /// `None` where the host does not say.
    pub(super) fn of(host: &Host<SignatureFns>) -> Option<Self> {
        let (mut mode, mut salt, mut digest, mut mask) = (0, 0, [0; NAME], [0; NAME]);
        let mut table = [
            Param::int(MODE, &mut mode),
            Param::int(SALT, &mut salt),
            Param::room_for_text(c"digest", &mut digest),
            Param::room_for_text(MASK, &mut mask),
            params::end(),
        ];
        // SAFETY: the host, with a table of ours, whose data has room.
        let told = unsafe { host.get_params(table.as_mut_ptr()) } == 1;
        told.then(|| Self { mode, salt, digest: named(&digest), mask: named(&mask) })
    }

    /// Bytes of a digest, of a function that has a row here; 0 of others.
    pub(super) fn digest_size(self) -> usize {
        self.digest.map_or(0, |digest| digest.info().tag.max)
    }

    /// What a device is to do with a digest of so many bytes, under a key whose modulus has as many; `None` where only the host does as
    /// the context was told.
    pub(super) fn algorithm(self, modulus: usize, operation: Operation, bytes: usize) -> Option<Algorithm> {
        let row = RSA.iter().find(|[algorithm, _]| algorithm.info().tag.max == modulus)?;
        let digest = self.digest.filter(|digest| digest.info().tag.max == bytes)?;
        if ![Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512].contains(&digest) {
            return None;
        }
        let as_digest = self.salt == AS_DIGEST
            || usize::try_from(self.salt) == Ok(bytes)
            || (self.salt == AUTO_AS_DIGEST && operation == Operation::Sign);
        match self.mode {
            PKCS1 => Some(row[0]),
            PSS if as_digest && self.mask == self.digest => Some(row[1]),
            _ => None,
        }
    }

    /// Tells a context of the host to pad like this, through `tell`, which gets a table with its end.
    pub(super) fn say<T>(mut self, tell: impl FnOnce(*const Param) -> T) -> T {
        let mode = Param::int(MODE, &mut self.mode);
        // Of other paddings there is no salt to speak of.
        let salt = if self.mode == PSS { Param::int(SALT, &mut self.salt) } else { params::end() };
        tell([mode, salt, params::end()].as_ptr())
    }
}

/// The digest of that name, which ends with a zero.
fn named(name: &[u8]) -> Option<Algorithm> {
    CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?.parse().ok()
}

/// What tells the host to do as devices do: for an algorithm and a digest of so many bytes.
pub(super) fn like_devices<T>(algorithm: Algorithm, bytes: usize, tell: impl FnOnce(*const Param) -> T) -> T {
    let digest = match bytes {
        32 => c"SHA256",
        48 => c"SHA384",
        _ => c"SHA512",
    };
    let (mut mode, mut salt) = (if algorithm.info().randomized { PSS } else { PKCS1 }, AS_DIGEST);
    let last = if mode == PSS { Param::int(SALT, &mut salt) } else { params::end() };
    tell([Param::text(c"digest", digest), Param::int(MODE, &mut mode), last, params::end()].as_ptr())
}

/// The numbers of a private key, in the order in which they lie there; a public key is the first two.
const NUMBERS: [&CStr; 8] =
    [c"n", c"e", c"d", c"rsa-factor1", c"rsa-factor2", c"rsa-exponent1", c"rsa-exponent2", c"rsa-coefficient1"];
const PUBLIC: usize = 2;
/// Only keys of more than two primes have it.
const THIRD: &CStr = c"rsa-factor3";

/// How many bytes each of them has, of keys whose modulus has so many.
const fn lengths(modulus: usize) -> [usize; NUMBERS.len()] {
    let half = modulus / 2;
    [modulus, rsa::EXPONENT, modulus, half, half, half, half, half]
}

/// A key from what an export tells.
pub(super) fn raw(told: Answers<'_>) -> Raw {
    let modulus = told.big_number(NUMBERS[0]).map_or(0, |modulus| {
        let highest = (0..modulus.len()).rev().find(|place| digit(modulus, *place) != 0);
        highest.map_or(0, |place| place + 1)
    });
    let mut key = Zeroizing::new(Vec::with_capacity(rsa::private_length(modulus)));
    let mut take = |(name, length): (&&CStr, usize)| {
        let fits = |number: &&[u8]| (length..number.len()).all(|place| digit(number, place) == 0);
        let number = told.big_number(name).filter(fits);
        number.map(|number| key.extend((0..length).rev().map(|place| digit(number, place))))
    };
    let mut numbers = NUMBERS.iter().zip(lengths(modulus));
    let is_public = numbers.by_ref().take(PUBLIC).all(|number| take(number).is_some());
    let is_private = is_public && !told.has(THIRD) && numbers.all(|number| take(number).is_some());
    let public = key.get(..rsa::public_length(modulus)).filter(|_| is_public);
    Raw::new(is_private.then_some(&key), public)
}

/// Tells the numbers of a key through `tell`, which gets a table with its end.
pub(super) fn tell<T>(raw: &[u8], is_private: bool, tell: impl FnOnce(*const Param) -> T) -> Option<T> {
    let length = if is_private { rsa::private_length } else { rsa::public_length };
    let [row, _] = RSA.iter().find(|[row, _]| length(row.info().tag.max) == raw.len())?;
    let mut raw = Zeroizing::new(raw.to_vec());
    let mut rest = &mut raw[..];
    let mut table = Vec::with_capacity(NUMBERS.len() + 1);
    for (name, length) in NUMBERS.iter().zip(lengths(row.info().tag.max)) {
        let Some((number, others)) = rest.split_at_mut_checked(length) else { break };
        if cfg!(target_endian = "little") {
            number.reverse();
        }
        table.push(Param::number(name, number.as_mut_ptr().cast(), length));
        rest = others;
    }
    table.push(params::end());
    Some(tell(table.as_ptr()))
}

/// The byte of a number that stands before so many lower ones.
fn digit(number: &[u8], place: usize) -> u8 {
    let place = if cfg!(target_endian = "little") { Some(place) } else { number.len().checked_sub(place + 1) };
    place.and_then(|place| number.get(place)).copied().unwrap_or(0)
}
