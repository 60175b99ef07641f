//! A guest that keeps a number of requests in flight: for measurements of back ends.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gantry_abi_virtio_crypto::constants::{cipher, operation};

use crate::Error;
use crate::connection::EnableMode;
use crate::guest::{FrontEnd, Guest, Setup};
use crate::parameters::{Cipher, Layout, Parameters};
use crate::queue::PreparedRequest;
use crate::request::{Operands, ParameterSource};

/// The time limit of an answer, after which the back end counts as stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// AES-128-CBC of NIST SP 800-38A, F.2.1: the key, the first block, and its ciphertext. The IV is the bytes 0 to 15.
const KEY: [u8; 16] = 0x2b7e1516_28aed2a6_abf71588_09cf4f3c_u128.to_be_bytes();
const PLAINTEXT: [u8; 16] = 0x6bc1bee2_2e409f96_e93d7e11_7393172a_u128.to_be_bytes();
const CIPHERTEXT: [u8; 16] = 0x7649abac_8119b246_cee98e9b_12e9197d_u128.to_be_bytes();

/// A guest with prepared requests of one size.
pub struct LoadGenerator {
    guest: Guest,
    idle: Vec<PreparedRequest>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunResult {
    /// The number of answered requests.
    pub requests: u64,
    /// The number of requests that the back end refused, included in `requests`.
    pub refused: u64,
    /// Duration of the run.
    pub time: Duration,
}

impl LoadGenerator {
    /// Connects, checks a known answer, and prepares `depth` requests that encrypt `bytes` bytes each with AES-128-CBC.
    ///
    /// # Errors
    /// The answer was wrong or missing, or no back end serves at the socket.
    pub fn new(socket: &Path, layout: Layout, bytes: usize, depth: usize) -> Result<Self, Error> {
        let front_end = FrontEnd::Messages(layout, EnableMode::Explicit);
        let setup =
            Setup { front_end, answer_timeout: ANSWER_TIMEOUT, ..Setup::qemu() }.with_request_room(2 * bytes, depth);
        let mut guest = Guest::connect(socket, &setup)?;
        let encrypt = Cipher { algorithm: cipher::AES_CBC, key: &KEY, encrypt: true };
        let source = ParameterSource::Session(guest.open(&Parameters::Cipher(encrypt))?.id);
        let iv: [u8; 16] = std::array::from_fn(|at| at as u8);
        let reply =
            guest.run_operation(operation::CIPHER_ENCRYPT, source, &Operands::Cipher { iv: &iv, data: &PLAINTEXT })?;
        if reply.status() != 0 || reply.output != CIPHERTEXT {
            return Err(Error::WrongAnswer(reply.status()));
        }
        let data = vec![0x5a; bytes];
        let request =
            guest.format().build_request(operation::CIPHER_ENCRYPT, source, &Operands::Cipher { iv: &iv, data: &data });
        let idle = (0..depth).map(|_| guest.queues[0].prepare(&request)).collect::<Result<_, _>>()?;
        Ok(Self { guest, idle })
    }

    /// Makes every request name a session that the guest does not have.
    ///
    /// # Errors
    /// None: a guest can write its own memory.
    pub fn with_unknown_sessions(self) -> Result<Self, Error> {
        for prepared in &self.idle {
            // The session's number in `struct virtio_crypto_op_header`.
            self.guest.memory().write(prepared.input_address + 8, &u64::MAX.to_le_bytes())?;
        }
        Ok(self)
    }

    /// Keeps all requests in flight for `time`, and waits for the last of them.
    ///
    /// # Errors
    /// No request was answered for five seconds.
    pub fn run(&mut self, time: Duration) -> Result<RunResult, Error> {
        let mut done = RunResult::default();
        let begin = Instant::now();
        let mut in_flight = 0;
        loop {
            let is_time_left = begin.elapsed() < time;
            if is_time_left {
                for prepared in self.idle.drain(..) {
                    self.guest.queues[0].offer(prepared)?;
                    in_flight += 1;
                }
                self.guest.queues[0].ring.publish()?;
            }
            if in_flight == 0 {
                break;
            }
            let mut timeout = ANSWER_TIMEOUT;
            while let Some((prepared, _)) = self.guest.queues[0].wait_for_finished(timeout)? {
                done.requests += 1;
                done.refused += u64::from(self.guest.memory().read(prepared.status_address, 1)? != [0]);
                self.idle.push(prepared);
                in_flight -= 1;
                timeout = Duration::ZERO;
            }
            if timeout != Duration::ZERO {
                return Err(Error::Unanswered);
            }
        }
        done.time = begin.elapsed();
        Ok(done)
    }
}

/// Keeps the requests of several guests in flight at the same time, each in a thread of its own.
///
/// # Errors
/// The error of the first guest that had one.
///
/// # Panics
/// If a guest's thread panics.
pub fn run_all(loads: &mut [&mut LoadGenerator], time: Duration) -> Result<Vec<RunResult>, Error> {
    thread::scope(|scope| {
        let running: Vec<_> = loads.iter_mut().map(|load| scope.spawn(move || load.run(time))).collect();
        running.into_iter().map(|running| running.join().expect("a guest does not panic")).collect()
    })
}
