//! Measures the kernel's asynchronous I/O on AF_ALG, which the driver does not use.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

const DEPTH: usize = 8;
const ROUNDS: u32 = 25;

gantry_lab::in_guest! {
    ["--device", "virtio-crypto", "--timeout", "240"]
    /// `io_submit` returns only when all requests are done, so it is no faster than waiting for each in turn. If this test fails,
    /// the kernel has become asynchronous, and the driver should use it.
    fn io_submit_runs_requests_one_after_another() {
        let bound_socket = BoundSocket::new(b"virtio_crypto_aes_cbc");
        let sockets: Vec<File> = (0..DEPTH).map(|_| bound_socket.accept()).collect();
        let aio = Aio::new();
        for bytes in [4096, 65536] {
            let input = vec![3; bytes];
            let mut expected = vec![0; bytes];
            send(&sockets[0], &input);
            (&sockets[0]).read_exact(&mut expected).unwrap();
            let mut outputs = vec![vec![0; bytes]; DEPTH];

            let one_by_one = mean_time(|| {
                for (socket, output) in sockets.iter().zip(&mut outputs) {
                    send(socket, &input);
                    let mut socket = socket;
                    socket.read_exact(output).unwrap();
                }
            });
            for output in &mut outputs {
                output.fill(0);
            }
            let asynchronous = mean_time(|| {
                for socket in &sockets {
                    send(socket, &input);
                }
                let done = aio.read_all(&sockets, &mut outputs);
                assert_eq!(done, DEPTH, "requests were still in flight when io_submit returned");
            });
            assert!(outputs.iter().all(|output| *output == expected));
            let threads = mean_time(|| {
                thread::scope(|scope| {
                    for (socket, output) in sockets.iter().zip(&mut outputs) {
                        let input = &input;
                        scope.spawn(move || {
                            let mut socket = socket;
                            send(socket, input);
                            socket.read_exact(output).unwrap();
                        });
                    }
                });
            });
            assert!(outputs.iter().all(|output| *output == expected));
            println!(
                "AIO {bytes:5} bytes, {DEPTH} requests: one by one {one_by_one:.2?}, asynchronous {asynchronous:.2?}, \
                 one thread each (including thread start) {threads:.2?}"
            );
        }
    }
}

/// Returns the mean time of `work`.
fn mean_time(mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| work());
    start.elapsed() / ROUNDS
}

/// A bound socket for AES-128-CBC of one kernel driver, with a key.
struct BoundSocket(OwnedFd);

impl BoundSocket {
    fn new(driver: &[u8]) -> Self {
        // SAFETY: the socket belongs to this function; address and key are valid for the lengths passed.
        unsafe {
            let socket = descriptor(libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0));
            let mut address: libc::sockaddr_alg = std::mem::zeroed();
            address.salg_family = libc::AF_ALG as u16;
            address.salg_type[..8].copy_from_slice(b"skcipher");
            address.salg_name[..driver.len()].copy_from_slice(driver);
            let length = size_of_val(&address) as u32;
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length), 0);
            let key = [7_u8; 16];
            let set = libc::setsockopt(socket.as_raw_fd(), libc::SOL_ALG, libc::ALG_SET_KEY, key.as_ptr().cast(), 16);
            assert_eq!(set, 0);
            Self(socket)
        }
    }

    /// Opens a socket for one request at a time.
    fn accept(&self) -> File {
        // SAFETY: null pointers ask for no address.
        unsafe { descriptor(libc::accept(self.0.as_raw_fd(), ptr::null_mut(), ptr::null_mut())) }.into()
    }
}

/// # Safety
/// `number` is a new descriptor that no other code owns, or negative.
unsafe fn descriptor(number: i32) -> OwnedFd {
    assert!(number >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the caller guarantees that no other code owns the descriptor.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Sends data to be encrypted, with an IV of zeros.
fn send(socket: &File, data: &[u8]) {
    // SAFETY: the parts of the message outlive the call, and the control buffer has room for an operation and an IV.
    unsafe {
        let mut control = [0_u64; 16];
        let mut part = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = (libc::CMSG_SPACE(4) + libc::CMSG_SPACE(20)) as _;
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        for (kind, number, bytes) in [(libc::ALG_SET_OP, libc::ALG_OP_ENCRYPT as u32, 4), (libc::ALG_SET_IV, 16, 20)] {
            (*header).cmsg_level = libc::SOL_ALG;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(header).cast::<u32>().write_unaligned(number);
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), data.len().cast_signed());
    }
}

/// A context of the kernel's asynchronous I/O (io_submit(2)).
struct Aio(libc::c_ulong);

/// The kernel's `struct io_event`, which `io_getevents` writes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    more: i64,
}

impl Aio {
    fn new() -> Self {
        let mut context = 0;
        // SAFETY: the kernel writes a number to `context`, which is valid.
        assert_eq!(unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) }, 0);
        Self(context)
    }

    /// Reads a result from each socket. Returns the number of requests that were done when `io_submit` returned.
    fn read_all(&self, sockets: &[File], outputs: &mut [Vec<u8>]) -> usize {
        let mut requests: Vec<libc::iocb> = sockets
            .iter()
            .zip(outputs)
            .map(|(socket, output)| {
                // SAFETY: the structure has integers only, for which zeros are valid. Zero is the command PREAD.
                let mut request: libc::iocb = unsafe { std::mem::zeroed() };
                request.aio_fildes = socket.as_raw_fd().cast_unsigned();
                (request.aio_buf, request.aio_nbytes) = (output.as_mut_ptr() as u64, output.len() as u64);
                request
            })
            .collect();
        let mut list: Vec<*mut libc::iocb> = requests.iter_mut().map(ptr::from_mut).collect();
        // SAFETY: requests and buffers live until all events have been read below.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.0, list.len(), list.as_mut_ptr()) };
        assert_eq!(usize::try_from(taken), Ok(requests.len()));
        let ready = self.events(0, requests.len());
        let pending = requests.len() - ready.len();
        let events = [&ready[..], &self.events(pending, pending)].concat();
        assert!(events.iter().all(|event| event.result.cast_unsigned() == requests[0].aio_nbytes));
        ready.len()
    }

    /// Waits for at least `min` events, and returns at most `max`.
    fn events(&self, min: usize, max: usize) -> Vec<Event> {
        let mut events = vec![Event::default(); max];
        let limit = libc::timespec { tv_sec: 30 * libc::time_t::from(min > 0), tv_nsec: 0 };
        // SAFETY: `events` has room for `max` events.
        let got =
            unsafe { libc::syscall(libc::SYS_io_getevents, self.0, min, max, events.as_mut_ptr(), &raw const limit) };
        events.truncate(usize::try_from(got).unwrap_or_default());
        assert!(events.len() >= min, "{}", io::Error::last_os_error());
        events
    }
}
