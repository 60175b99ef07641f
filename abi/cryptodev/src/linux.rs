//! The ioctls of cryptodev-linux, and their structures.

use crate::layout::{Fields, Walk, Width};

/// Longest key of a cipher, in bytes.
pub const MAX_CIPHER_KEY_LEN: usize = 64;
/// Longest key of an HMAC, in bytes.
pub const MAX_HMAC_KEY_LEN: usize = 512;
/// Longest digest, in bytes.
pub const MAX_DIGEST_LEN: usize = 64;
/// Longest IV, in bytes.
pub const MAX_IV_LEN: usize = 16;
/// Maximum bytes of associated data: one page, in the kernel module.
pub const MAX_AUTH_LEN: usize = 4096;
/// Largest offset of the encrypted part in an SRTP packet, in bytes.
pub const MAX_SRTP_HEADER_LEN: u64 = 256;
/// Bytes of a name in [`SessionInfoOp`], including its NUL.
pub const NAME_SIZE: usize = 64;

/// [`CryptOp::op`] and [`CryptAuthOp::op`]: plaintext to ciphertext.
pub const COP_ENCRYPT: u16 = 0;
/// [`CryptOp::op`] and [`CryptAuthOp::op`]: ciphertext to plaintext.
pub const COP_DECRYPT: u16 = 1;

/// More of the message follows: write no digest yet, unless `len` is 0.
pub const COP_FLAG_UPDATE: u16 = 1 << 0;
/// The message ends: write the digest.
pub const COP_FLAG_FINAL: u16 = 1 << 1;
/// Write back the IV with which the next request continues.
pub const COP_FLAG_WRITE_IV: u16 = 1 << 2;
/// Work on a copy of the data.
pub const COP_FLAG_NO_ZC: u16 = 1 << 3;
/// A TLS record: MAC, then padding, then encryption.
pub const COP_FLAG_AEAD_TLS_TYPE: u16 = 1 << 4;
/// An SRTP packet: encryption, then MAC over the packet.
pub const COP_FLAG_AEAD_SRTP_TYPE: u16 = 1 << 5;
/// Forget the message so far. Used together with [`COP_FLAG_UPDATE`].
pub const COP_FLAG_RESET: u16 = 1 << 6;

/// [`SessionInfoOp::flags`]: user space reaches the algorithm's driver, a hardware engine, only through the kernel.
pub const SIOP_FLAG_KERNEL_DRIVER_ONLY: u32 = 1;

/// An ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ioctl {
    /// CRIOGET: returns another descriptor, for programs written for BSD.
    GetDescriptor,
    /// CIOCGSESSION: opens a session.
    OpenSession,
    /// CIOCFSESSION: closes a session.
    CloseSession,
    /// CIOCCRYPT: runs a cipher, a digest, or both.
    Crypt,
    /// CIOCKEY: runs a public-key operation, which Linux does not support.
    Key,
    /// CIOCASYMFEAT: returns the mask of public-key operations, which is 0.
    AsymmetricFeatures,
    /// CIOCGSESSINFO: returns the driver of a session.
    SessionInfo,
    /// CIOCAUTHCRYPT: runs a cipher with authentication.
    AuthCrypt,
    /// CIOCASYNCCRYPT: starts a CIOCCRYPT. The module supports it only if it was built with `ENABLE_ASYNC`.
    AsyncCrypt,
    /// CIOCASYNCFETCH: fetches the result of a CIOCASYNCCRYPT.
    AsyncFetch,
    /// CIOCCPHASH: copies the state of one digest to another.
    CopyHash,
}

/// Directions in the number of an ioctl, as the program sees them.
const WRITE: u32 = 1;
const READ: u32 = 2;
const BOTH: u32 = READ | WRITE;

impl Ioctl {
    /// All ioctls.
    pub const ALL: [Ioctl; 11] = [
        Ioctl::GetDescriptor,
        Ioctl::OpenSession,
        Ioctl::CloseSession,
        Ioctl::Crypt,
        Ioctl::Key,
        Ioctl::AsymmetricFeatures,
        Ioctl::SessionInfo,
        Ioctl::AuthCrypt,
        Ioctl::AsyncCrypt,
        Ioctl::AsyncFetch,
        Ioctl::CopyHash,
    ];

    fn direction_and_number(self) -> (u32, u32) {
        match self {
            Ioctl::GetDescriptor => (BOTH, 101),
            Ioctl::OpenSession => (BOTH, 102),
            Ioctl::CloseSession => (WRITE, 103),
            Ioctl::Crypt => (BOTH, 104),
            Ioctl::Key => (BOTH, 105),
            Ioctl::AsymmetricFeatures => (READ, 106),
            Ioctl::SessionInfo => (BOTH, 107),
            Ioctl::AuthCrypt => (BOTH, 109),
            Ioctl::AsyncCrypt => (WRITE, 110),
            Ioctl::AsyncFetch => (READ, 111),
            Ioctl::CopyHash => (WRITE, 112),
        }
    }

    /// Returns the size of the ioctl's structure, in bytes.
    pub fn size(self, width: Width) -> usize {
        match self {
            Ioctl::GetDescriptor | Ioctl::CloseSession | Ioctl::AsymmetricFeatures => size_of::<u32>(),
            Ioctl::OpenSession => SessionOp::size(width),
            Ioctl::Crypt | Ioctl::AsyncCrypt | Ioctl::AsyncFetch => CryptOp::size(width),
            // `struct crypt_kop` has 16 bytes and then eight parameters. Each is a pointer and a length, padded to two pointers.
            Ioctl::Key => 16 + 8 * 2 * width.bytes(),
            Ioctl::SessionInfo => SessionInfoOp::size(width),
            Ioctl::AuthCrypt => CryptAuthOp::size(width),
            Ioctl::CopyHash => CopyHashOp::size(width),
        }
    }

    /// Returns the number that a program passes to the kernel.
    pub fn code(self, width: Width) -> u32 {
        let (direction, number) = self.direction_and_number();
        encode(direction, number, self.size(width))
    }

    /// Returns the ioctl with this number.
    pub fn from_code(code: u32, width: Width) -> Option<Ioctl> {
        Self::ALL.into_iter().find(|ioctl| ioctl.code(width) == code)
    }
}

/// Encodes the number of an ioctl (`asm-generic/ioctl.h`): direction, size of the structure, type, number.
fn encode(direction: u32, number: u32, size: usize) -> u32 {
    // On these architectures the direction has three bits, one of them for "none", and the size one bit less.
    let has_three_bits = cfg!(any(
        target_arch = "powerpc",
        target_arch = "powerpc64",
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "sparc64"
    ));
    let direction = match (has_three_bits, direction) {
        (true, WRITE) => 4 << 29,
        (true, READ) => 2 << 29,
        (true, _) => 6 << 29,
        (false, direction) => direction << 30,
    };
    direction | (size as u32) << 16 | u32::from(b'c') << 8 | number
}

/// Defines a structure. After the type of each field is the method of [`Walk`] that visits the field.
macro_rules! structure {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $visit:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),+ }

        impl Fields for $name {
            fn walk(&mut self, walk: &mut Walk<'_>) {
                $(walk.$visit(&mut self.$field);)+
            }
        }

        impl $name {
            /// Returns the number of bytes that a program of this width passes.
            pub fn size(width: Width) -> usize {
                <Self as Fields>::size(width)
            }

            /// Reads the structure that a program of this width passed. Returns `None` if it is too short.
            pub fn from_bytes(bytes: &[u8], width: Width) -> Option<Self> {
                Fields::read(bytes, width)
            }

            /// Encodes the structure as a program of this width passes it. The bytes between fields are zeros.
            pub fn to_bytes(self, width: Width) -> Vec<u8> {
                let mut bytes = vec![0; Self::size(width)];
                Fields::write(self, width, &mut bytes);
                bytes
            }

            /// Writes the structure to the front of `bytes`, which have at least [`size`](Self::size) bytes. Bytes between fields stay
            /// unchanged.
            pub fn write_to(self, width: Width, bytes: &mut [u8]) {
                Fields::write(self, width, bytes);
            }
        }
    };
}

structure! {
    /// CIOCGSESSION: a cipher, a digest or MAC, or both.
    #[derive(Default)]
    SessionOp {
        /// The number of a row of [`CIPHERS`](crate::CIPHERS), or 0.
        cipher: u32 = u32,
        /// The number of a row of [`HASHES`](crate::HASHES), or 0.
        mac: u32 = u32,
        /// Length of the cipher's key in bytes.
        key_len: u32 = u32,
        /// Address of the cipher's key.
        key: u64 = pointer,
        /// Length of the MAC's key in bytes.
        mac_key_len: u32 = u32,
        /// Address of the MAC's key.
        mac_key: u64 = pointer,
        /// Result: the session.
        session: u32 = u32,
    }
}

structure! {
    /// CIOCCRYPT.
    #[derive(Default)]
    CryptOp {
        /// The session.
        session: u32 = u32,
        /// [`COP_ENCRYPT`] or [`COP_DECRYPT`].
        op: u16 = u16,
        /// `COP_FLAG_*`.
        flags: u16 = u16,
        /// Length of the data in bytes.
        len: u32 = u32,
        /// Address of the input.
        src: u64 = pointer,
        /// Address of a cipher's output.
        dst: u64 = pointer,
        /// Address of the digest.
        mac: u64 = pointer,
        /// Address of the IV; 0 to continue from the previous request.
        iv: u64 = pointer,
    }
}

structure! {
    /// CIOCAUTHCRYPT. The tag follows the ciphertext, except in SRTP.
    #[derive(Default)]
    CryptAuthOp {
        /// The session.
        session: u32 = u32,
        /// [`COP_ENCRYPT`] or [`COP_DECRYPT`].
        op: u16 = u16,
        /// `COP_FLAG_AEAD_*`.
        flags: u16 = u16,
        /// Length of the input in bytes. Result: length of the output in bytes.
        len: u32 = u32,
        /// Length of the associated data in bytes.
        auth_len: u32 = u32,
        /// Address of the associated data.
        auth_src: u64 = pointer,
        /// Address of the input.
        src: u64 = pointer,
        /// Address of the output.
        dst: u64 = pointer,
        /// In SRTP, the address of the tag. For an AEAD, a result: the address of the tag behind the ciphertext.
        tag: u64 = pointer,
        /// Length of the tag in bytes; 0 for the longest tag.
        tag_len: u32 = u32,
        /// Address of the IV; 0 to continue from the previous request.
        iv: u64 = pointer,
        /// Length of the IV in bytes; ignored, because the session determines the length.
        iv_len: u32 = u32,
    }
}

structure! {
    /// CIOCGSESSINFO.
    SessionInfoOp {
        /// The session.
        session: u32 = u32,
        /// Result: the kernel's name of the cipher.
        cipher_name: [u8; NAME_SIZE] = chars,
        /// Result: the driver of the cipher.
        cipher_driver: [u8; NAME_SIZE] = chars,
        /// Result: the kernel's name of the digest.
        hash_name: [u8; NAME_SIZE] = chars,
        /// Result: the driver of the digest.
        hash_driver: [u8; NAME_SIZE] = chars,
        /// Result: data is used without a copy if these bits of its address are 0.
        align_mask: u16 = u16,
        /// Result: `SIOP_FLAG_*`.
        flags: u32 = u32,
    }
}

impl Default for SessionInfoOp {
    fn default() -> Self {
        let no_name = [0; NAME_SIZE];
        Self {
            session: 0,
            cipher_name: no_name,
            cipher_driver: no_name,
            hash_name: no_name,
            hash_driver: no_name,
            align_mask: 0,
            flags: 0,
        }
    }
}

structure! {
    /// CIOCCPHASH.
    #[derive(Default)]
    CopyHashOp {
        /// The session whose state is replaced.
        to: u32 = u32,
        /// The session whose state is copied.
        from: u32 = u32,
    }
}

#[cfg(test)]
mod tests;
