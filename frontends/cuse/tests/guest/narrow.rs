//! The entry of 32-bit programs into a 64-bit kernel, used from a 64-bit program: interrupt 0x80 with addresses below 4
//! GiB.

use std::os::fd::{AsRawFd, RawFd};

use gantry_abi_cryptodev::{CryptOp, Ioctl, SessionOp, Width};
use gantry_core::{Algorithm, SessionParams};
use libc::{EFAULT, EINVAL};

use crate::answers::{CBC, SHA256, encrypt};
use crate::client::{Crypto, Server, UNMAPPED_ADDRESS, address_of};

/// Memory with 32-bit addresses.
struct LowMemory(&'static mut [u8]);

impl LowMemory {
    fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        // SAFETY: a new mapping, which is never unmapped, for this value alone.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: 4096 bytes that were just mapped for reading and writing.
        Self(unsafe { std::slice::from_raw_parts_mut(start.cast(), 4096) })
    }

    fn write(&mut self, place: usize, bytes: &[u8]) -> u64 {
        self.0[place..place + bytes.len()].copy_from_slice(bytes);
        address_of(self.0) + place as u64
    }
}

fn ioctl(file: RawFd, ioctl: Ioctl, argument: u64) -> Result<(), i32> {
    let mut result: u64 = 54; // ioctl in the system call table of i386
    // SAFETY: the system call accesses only the test's low memory; rbx, which the compiler reserves, is restored.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {file}", "int 0x80", "xchg rbx, {file}",
            file = inout(reg) i64::from(file) => _,
            inout("rax") result,
            in("rcx") u64::from(ioctl.code(Width::W32)),
            in("rdx") argument,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    let result = (result as u32).cast_signed();
    if result == 0 { Ok(()) } else { Err(-result) }
}

pub(crate) fn check_encryption_and_hash() {
    let _server = Server::start();
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let crypto = Crypto::open();
    let file = crypto.0.as_raw_fd();
    let mut low_memory = LowMemory::new();
    let (key, iv, plain) = ([1; 16], [2; 16], [3; 64]);
    let (key_at, iv_at, data) =
        (low_memory.write(512, &key), low_memory.write(528, &iv), low_memory.write(1024, &plain));
    let op = SessionOp { cipher: CBC, key_len: 16, key: key_at, mac: SHA256, ..SessionOp::default() };
    let argument = low_memory.write(0, &op.to_bytes(Width::W32));
    assert_eq!(ioctl(file, Ioctl::OpenSession, argument), Ok(()));
    let session = SessionOp::from_bytes(low_memory.0, Width::W32).unwrap().session;
    let op = CryptOp { session, len: 64, src: data, dst: data, mac: data + 64, iv: iv_at, ..CryptOp::default() };
    let argument = low_memory.write(0, &op.clone().to_bytes(Width::W32));
    assert_eq!(ioctl(file, Ioctl::Crypt, argument), Ok(()));
    assert_eq!(low_memory.0[1024..1088], encrypt(&gantry, Algorithm::Aes128Cbc, &key, &iv, &plain));
    let mut digest = [0; 32];
    gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap().digest(&plain, &mut digest).unwrap();
    assert_eq!(low_memory.0[1088..1120], digest);
    let op = CryptOp { src: UNMAPPED_ADDRESS, ..op };
    let argument = low_memory.write(0, &op.to_bytes(Width::W32));
    assert_eq!(ioctl(file, Ioctl::Crypt, argument), Err(EFAULT));
    // A second descriptor of the same file.
    let argument = low_memory.write(0, &[0xFF; 4]);
    assert_eq!(ioctl(file, Ioctl::GetDescriptor, argument), Ok(()));
    let second = i32::from_ne_bytes(low_memory.0[..4].try_into().unwrap());
    assert_ne!(second, file);
    let argument = low_memory.write(0, &session.to_ne_bytes());
    assert_eq!(ioctl(second, Ioctl::CloseSession, argument), Ok(()));
    assert_eq!(crypto.info(session).err(), Some(EINVAL));
}
