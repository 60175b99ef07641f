//! The ioctls of `/dev/crypto`, each as a function that takes slices.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use gantry_abi_cryptodev::{
    self as abi, COP_DECRYPT, COP_ENCRYPT, COP_FLAG_WRITE_IV, CipherRow, CopyHashOp, CryptAuthOp, CryptOp, Ioctl,
    MAX_DIGEST_LEN, SessionInfoOp, SessionOp, Width,
};
use gantry_core::Process;
use gantry_core::driver::Buffers;

const WIDTH: Width = Width::NATIVE;

/// The open device.
#[derive(Clone)]
pub(crate) struct CryptoFile(Arc<File>);

impl CryptoFile {
    pub(crate) fn open() -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open("/dev/crypto").map(|file| Self(Arc::new(file)))
    }

    /// Opens a session for a cipher, for a digest or MAC, or for both. Each argument is a number and a key; the number 0 means none.
    pub(crate) fn open_session(&self, cipher: (u32, &[u8]), mac: (u32, &[u8])) -> io::Result<KernelSession> {
        let ((cipher, key), (mac, mac_key)) = (cipher, mac);
        let op = SessionOp {
            cipher,
            mac,
            key_len: key.len() as u32,
            key: address(key),
            mac_key_len: mac_key.len() as u32,
            mac_key: address(mac_key),
            session: 0,
        };
        let mut bytes = [0; 48];
        op.write_to(WIDTH, &mut bytes);
        // SAFETY: the kernel reads the keys, which live as long as this call, and writes the structure.
        unsafe { self.ioctl(Ioctl::OpenSession, &mut bytes) }?;
        let op = SessionOp::from_bytes(&bytes, WIDTH).ok_or(io::ErrorKind::InvalidData)?;
        Ok(KernelSession {
            crypto: self.clone(),
            number: op.session,
            cipher: abi::cipher(cipher),
            process: Process::current(),
        })
    }

    /// # Safety
    /// The memory at each address in `bytes` has the length given there, and the kernel may access it as the ioctl does.
    unsafe fn ioctl(&self, ioctl: Ioctl, bytes: &mut [u8]) -> io::Result<()> {
        debug_assert!(bytes.len() >= ioctl.size(WIDTH));
        loop {
            // SAFETY: `bytes` is at least as long as the structure that the ioctl reads and writes; the caller promises the rest.
            // (The type of the ioctl's code differs between C libraries.)
            let result = unsafe { libc::ioctl(self.0.as_raw_fd(), ioctl.code(WIDTH) as _, bytes.as_mut_ptr()) };
            match result {
                0 => return Ok(()),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }
}

/// A session of the kernel.
pub(crate) struct KernelSession {
    crypto: CryptoFile,
    number: u32,
    /// The row of the cipher. It gives the length of the IV, which `CryptOp` does not carry.
    cipher: Option<&'static CipherRow>,
    process: Process,
}

/// A request to seal or open a message.
pub(crate) struct AeadRequest<'a> {
    pub(crate) encrypt: bool,
    pub(crate) iv: &'a [u8],
    pub(crate) aad: &'a [u8],
    /// The plaintext with room for a tag behind it, or the ciphertext followed by the tag. The output replaces it.
    pub(crate) data: &'a mut [u8],
    pub(crate) tag_len: usize,
}

impl KernelSession {
    /// Returns whether this process made the session. A child of `fork` only inherits it.
    pub(crate) fn belongs_to_this_process(&self) -> bool {
        self.process.is_current()
    }

    pub(crate) fn info(&self) -> io::Result<SessionInfoOp> {
        let mut bytes = [0; 268];
        SessionInfoOp { session: self.number, ..SessionInfoOp::default() }.write_to(WIDTH, &mut bytes);
        // SAFETY: the structure has no addresses.
        unsafe { self.crypto.ioctl(Ioctl::SessionInfo, &mut bytes) }?;
        SessionInfoOp::from_bytes(&bytes, WIDTH).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Encrypts or decrypts, and replaces the IV by the IV for the following data.
    ///
    /// # Errors
    /// The kernel's errors, and `InvalidInput` for an IV of wrong length.
    pub(crate) fn cipher(&self, encrypt: bool, iv: &mut [u8], mut data: Buffers<'_>) -> io::Result<()> {
        self.check_iv(iv)?;
        let (len, src, dst) = (data.len(), address(data.input()), address_mut(data.output()));
        let op = CryptOp {
            session: self.number,
            op: if encrypt { COP_ENCRYPT } else { COP_DECRYPT },
            flags: if iv.is_empty() { 0 } else { COP_FLAG_WRITE_IV },
            len: to_u32(len)?,
            src,
            dst,
            mac: 0,
            iv: if iv.is_empty() { 0 } else { address_mut(iv) },
        };
        // SAFETY: the kernel reads `len` bytes of the input and writes as many bytes of the output, which has the same length (core has
        // checked it). It also accesses the IV, whose length was checked above. All of them are borrowed until the call returns.
        unsafe { self.crypt(op) }
    }

    /// Hashes a whole message if `flags` is 0, or else a piece of one. Writes the digest if the message ends.
    pub(crate) fn hash(&self, flags: u16, input: &[u8], digest: Option<&mut [u8; MAX_DIGEST_LEN]>) -> io::Result<()> {
        let op = CryptOp {
            session: self.number,
            flags,
            len: to_u32(input.len())?,
            src: address(input),
            mac: digest.map_or(0, |digest| address_mut(digest)),
            ..CryptOp::default()
        };
        // SAFETY: the kernel reads the input, and writes a digest of at most `MAX_DIGEST_LEN` bytes. Without a place for the digest, the
        // address is 0.
        unsafe { self.crypt(op) }
    }

    /// Seals or opens a message.
    ///
    /// # Errors
    /// The kernel's errors, where `EBADMSG` is a wrong tag. `InvalidInput` for an IV or a tag of wrong length.
    pub(crate) fn aead(&self, request: AeadRequest<'_>) -> io::Result<()> {
        let AeadRequest { encrypt, iv, aad, data, tag_len } = request;
        self.check_iv(iv)?;
        // The kernel ignores a length that is not valid, and uses the length of the previous tag.
        let is_valid_tag_len = match self.cipher {
            Some(row) if row.name.starts_with("ccm") => (4..=16).contains(&tag_len) && tag_len.is_multiple_of(2),
            _ => matches!(tag_len, 4 | 8 | 12..=16),
        };
        if !is_valid_tag_len || data.len() < tag_len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let op = CryptAuthOp {
            session: self.number,
            op: if encrypt { COP_ENCRYPT } else { COP_DECRYPT },
            len: to_u32(if encrypt { data.len() - tag_len } else { data.len() })?,
            auth_len: to_u32(aad.len())?,
            auth_src: if aad.is_empty() { 0 } else { address(aad) },
            src: address_mut(data),
            dst: address_mut(data),
            tag_len: tag_len as u32,
            iv: address(iv),
            iv_len: iv.len() as u32,
            ..CryptAuthOp::default()
        };
        let mut bytes = [0; 72];
        op.write_to(WIDTH, &mut bytes);
        // SAFETY: the kernel reads `auth_len` bytes of the associated data, and the IV, whose length was checked above. It works in place
        // on all of `data`: `len` bytes, and another `tag_len` bytes for encryption, because the cipher supports this length of tags.
        unsafe { self.crypto.ioctl(Ioctl::AuthCrypt, &mut bytes) }
    }

    /// Fails unless the IV has the length of the cipher's IV, because the kernel reads and writes that number of bytes.
    fn check_iv(&self, iv: &[u8]) -> io::Result<()> {
        let bytes = self.cipher.map_or(0, |row| row.iv_len);
        if iv.len() == bytes { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Copies the state of another digest to this one.
    pub(crate) fn copy_from(&self, other: &KernelSession) -> io::Result<()> {
        let mut bytes = [0; 8];
        CopyHashOp { to: self.number, from: other.number }.write_to(WIDTH, &mut bytes);
        // SAFETY: the structure has no addresses.
        unsafe { self.crypto.ioctl(Ioctl::CopyHash, &mut bytes) }
    }

    /// # Safety
    /// As for [`CryptoFile::ioctl`].
    unsafe fn crypt(&self, op: CryptOp) -> io::Result<()> {
        let mut bytes = [0; 48];
        op.write_to(WIDTH, &mut bytes);
        // SAFETY: the caller's promise.
        unsafe { self.crypto.ioctl(Ioctl::Crypt, &mut bytes) }
    }
}

impl Drop for KernelSession {
    fn drop(&mut self) {
        // Closing a session in a child process would also close it for the parent.
        if self.belongs_to_this_process() {
            let mut bytes = self.number.to_ne_bytes();
            // SAFETY: the structure is the number. If closing fails, only memory is lost.
            let _ = unsafe { self.crypto.ioctl(Ioctl::CloseSession, &mut bytes) };
        }
    }
}

fn address(bytes: &[u8]) -> u64 {
    bytes.as_ptr().expose_provenance() as u64
}

fn address_mut(bytes: &mut [u8]) -> u64 {
    bytes.as_mut_ptr().expose_provenance() as u64
}

fn to_u32(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a session on `/dev/null`, which answers each ioctl with ENOTTY.
    fn kernel_session(cipher: u32) -> KernelSession {
        let null_device = File::open("/dev/null").unwrap();
        KernelSession {
            crypto: CryptoFile(Arc::new(null_device)),
            number: 0,
            cipher: abi::cipher(cipher),
            process: Process::current(),
        }
    }

    /// Returns whether the ioctl reached the kernel, or an emulator (qemu-aarch64), which answers unknown ioctls with ENOSYS.
    fn reaches_the_kernel(result: io::Result<()>) -> bool {
        let error = result.unwrap_err();
        let refused = matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::ENOSYS));
        assert!(refused || error.kind() == io::ErrorKind::InvalidInput, "{error}");
        error.raw_os_error().is_some()
    }

    #[test]
    fn rejects_ivs_of_wrong_length() {
        for (cipher, bytes) in [(11, 16), (2, 8), (23, 0), (0, 0)] {
            for length in [0, 8, 12, 15, 16, 17] {
                let mut iv = vec![0; length];
                let result = kernel_session(cipher).cipher(true, &mut iv, Buffers::InPlace(&mut [0; 16]));
                assert_eq!(reaches_the_kernel(result), length == bytes, "{cipher}: {length}");
            }
        }
    }

    #[test]
    fn rejects_tags_of_unsupported_length() {
        for (cipher, bytes, tags) in [(50, 12, &[4, 8, 12, 13, 14, 15, 16][..]), (51, 16, &[4, 6, 8, 10, 12, 14, 16])] {
            for encrypt in [true, false] {
                let run = |iv: usize, length: usize, tag_len| {
                    let (iv, mut data) = (vec![0; iv], vec![0; length]);
                    let request = AeadRequest { encrypt, iv: &iv, aad: &[], data: &mut data, tag_len };
                    reaches_the_kernel(kernel_session(cipher).aead(request))
                };
                for tag in 0..=20 {
                    assert_eq!(run(bytes, 32, tag), tags.contains(&tag), "{cipher}: {tag}");
                }
                assert!(!run(bytes - 1, 32, 16) && !run(bytes + 1, 32, 16) && !run(bytes, 15, 16));
            }
        }
    }
}
