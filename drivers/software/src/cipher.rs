//! Ciphers whose functions take their keys as constants. A session is the keys; a request, or a stream, has a state of its
//! own: where the chain or the key stream stands.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry::driver::{Buffers, CipherStream, DeviceSession, Operands, Unsupported};
use gantry::{Fault, Operation, Outcome, SessionParams};

use crate::session::{Opened, Plain, Secret, Span, iv, run_stream};

/// A cipher with its keys.
pub(crate) trait Cipher: Send + Sync + Sized + 'static {
    /// What one piece of the data leaves for the next one. Overwritten when dropped.
    type State: Clone + Send + 'static;

    /// Where data begins.
    fn start(&self, iv: &[u8]) -> Result<Self::State, Fault>;

    /// The next piece. Any outcome but `Done` leaves the output as it was.
    fn run(&self, operation: Operation, state: &mut Self::State, data: Span<'_>) -> Result<Outcome, Fault>;

    fn session(self) -> Arc<dyn DeviceSession> {
        Arc::new(CipherSession(Arc::new(self)))
    }
}

struct CipherSession<C>(Arc<C>);

impl<C: Cipher> DeviceSession for CipherSession<C> {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { operation, iv, data } = operands else { return run_stream(operands) };
        self.0.run(operation, &mut self.0.start(iv)?, Span::new(data)?)
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let state = self.0.start(iv).map_err(|fault| Unsupported::because(fault.to_string()))?;
        Ok(Box::new(Stream { cipher: self.0.clone(), operation, state }))
    }
}

struct Stream<C: Cipher> {
    cipher: Arc<C>,
    operation: Operation,
    state: C::State,
}

impl<C: Cipher> CipherStream for Stream<C> {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        match self.cipher.run(self.operation, &mut self.state, Span::new(data)?)? {
            Outcome::Done => Ok(()),
            refused => Err(Fault::failed(refused.to_string())),
        }
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        let Self { cipher, operation, state } = self;
        Box::new(Stream { cipher: cipher.clone(), operation: *operation, state: state.clone() })
    }
}

/// AWS-LC's word for a direction.
pub(crate) fn direction(operation: Operation) -> c_int {
    if operation == Operation::Encrypt { lc::AES_ENCRYPT } else { lc::AES_DECRYPT }
}

// ---- AES

pub(crate) fn open_ecb(params: &SessionParams) -> Opened {
    Ok(Aes::new(Mode::Ecb, params.key())?.session())
}

pub(crate) fn open_cbc(params: &SessionParams) -> Opened {
    Ok(Aes::new(Mode::Cbc, params.key())?.session())
}

pub(crate) fn open_ctr(params: &SessionParams) -> Opened {
    Ok(Aes::new(Mode::Ctr, params.key())?.session())
}

pub(crate) fn open_ofb(params: &SessionParams) -> Opened {
    Ok(Aes::new(Mode::Ofb, params.key())?.session())
}

pub(crate) fn open_cfb(params: &SessionParams) -> Opened {
    Ok(Aes::new(Mode::Cfb, params.key())?.session())
}

/// How blocks follow each other (SP 800-38A). These functions are the ones that AWS-LC's `EVP_CIPHER`s call, so they are
/// no slower; ECB goes block by block there, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Ecb,
    Cbc,
    Ctr,
    Ofb,
    Cfb,
}

pub(crate) struct Aes {
    mode: Mode,
    /// All that CTR, OFB and CFB need, both ways.
    encrypt: Box<Secret<lc::AES_KEY>>,
    decrypt: Box<Secret<lc::AES_KEY>>,
}

impl Aes {
    pub(crate) fn new(mode: Mode, key: &[u8]) -> Result<Self, Unsupported> {
        let mut aes = Aes { mode, encrypt: Secret::boxed(), decrypt: Secret::boxed() };
        // 16, 24 and 32 bytes are what AWS-LC takes; `c_uint::MAX` bits it refuses as it does any other number.
        let bits = c_uint::try_from(8 * key.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the key has that many bits, and the round keys go into a structure that is ours.
        let good = unsafe {
            lc::AES_set_encrypt_key(key.as_ptr(), bits, &raw mut **aes.encrypt) == 0
                && lc::AES_set_decrypt_key(key.as_ptr(), bits, &raw mut **aes.decrypt) == 0
        };
        if good { Ok(aes) } else { Err(Unsupported::because("the key: wrong length")) }
    }
}

/// The IV of the next block, and of CTR the rest of the last block of key stream.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    iv: [u8; 16],
    key_stream: [u8; 16],
    /// Bytes of the last block that are used up.
    used: c_uint,
}

// SAFETY: numbers.
unsafe impl Plain for Chain {}

impl Cipher for Aes {
    type State = Secret<Chain>;

    #[inline]
    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        let mut state = Secret::<Chain>::zeroed();
        if self.mode != Mode::Ecb {
            state.iv = *iv(bytes)?;
        }
        Ok(state)
    }

    #[inline]
    fn run(&self, operation: Operation, state: &mut Self::State, data: Span<'_>) -> Result<Outcome, Fault> {
        let Span { input, output, len, .. } = data;
        let enc = direction(operation);
        let (one_way, either) = match operation {
            Operation::Encrypt => (&raw const **self.encrypt, &raw const **self.encrypt),
            _ => (&raw const **self.decrypt, &raw const **self.encrypt),
        };
        let Chain { iv, key_stream, used } = &mut **state;
        let (iv, key_stream) = (iv.as_mut_ptr(), key_stream.as_mut_ptr());
        if matches!(self.mode, Mode::Ecb | Mode::Cbc) && !len.is_multiple_of(16) {
            return Ok(Outcome::BadLength);
        }
        // SAFETY: `input` and `output` have `len` bytes and are the same or apart (`Span`), of ECB and CBC whole blocks. The
        // keys are set, and were set for the direction in which the mode runs the cipher. `used` is below 16, because it was
        // 0 at first and these functions keep it there.
        unsafe {
            match self.mode {
                Mode::Ecb => {
                    for block in (0..len).step_by(16) {
                        lc::AES_ecb_encrypt(input.add(block), output.add(block), one_way, enc);
                    }
                }
                Mode::Cbc => lc::AES_cbc_encrypt(input, output, len, one_way, iv, enc),
                Mode::Ctr => lc::AES_ctr128_encrypt(input, output, len, either, iv, key_stream, used),
                Mode::Ofb => lc::AES_ofb128_encrypt(input, output, len, either, iv, (&raw mut *used).cast()),
                Mode::Cfb => lc::AES_cfb128_encrypt(input, output, len, either, iv, (&raw mut *used).cast(), enc),
            }
        }
        Ok(Outcome::Done)
    }
}

// ---- triple DES

pub(crate) fn open_des_ede3_cbc(params: &SessionParams) -> Opened {
    let mut keys = Secret::<[lc::DES_key_schedule; 3]>::boxed();
    let (parts, []) = params.key().as_chunks::<8>() else {
        return Err(Unsupported::because("the key: wrong length"));
    };
    if parts.len() != keys.len() {
        return Err(Unsupported::because("the key: wrong length"));
    }
    for (part, schedule) in parts.iter().zip(keys.iter_mut()) {
        // SAFETY: a `DES_cblock` is 8 bytes without alignment; the schedule is ours.
        unsafe { lc::DES_set_key_unchecked(part.as_ptr().cast(), schedule) };
    }
    Ok(DesEde3Cbc(keys).session())
}

struct DesEde3Cbc(Box<Secret<[lc::DES_key_schedule; 3]>>);

impl Cipher for DesEde3Cbc {
    /// The IV of the next block, which is the last block of ciphertext and no secret.
    type State = [u8; 8];

    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        iv(bytes).copied()
    }

    fn run(&self, operation: Operation, state: &mut Self::State, data: Span<'_>) -> Result<Outcome, Fault> {
        if !data.len.is_multiple_of(8) {
            return Ok(Outcome::BadLength);
        }
        let [one, two, three] = &**self.0;
        let iv = state.as_mut_ptr().cast();
        // SAFETY: buffers as `Span` promises, whole blocks, three schedules that are set, and an IV of 8 bytes.
        unsafe {
            lc::DES_ede3_cbc_encrypt(data.input, data.output, data.len, one, two, three, iv, direction(operation));
        }
        Ok(Outcome::Done)
    }
}

// ---- ChaCha20

pub(crate) fn open_chacha20(params: &SessionParams) -> Opened {
    let key: &[u8; 32] = params.key().try_into().map_err(|_| Unsupported::because("the key: wrong length"))?;
    let mut secret = Secret::<[u8; 32]>::boxed();
    secret.copy_from_slice(key);
    Ok(ChaCha20(secret).session())
}

struct ChaCha20(Box<Secret<[u8; 32]>>);

const CHACHA20_BLOCK: u64 = 64;

/// Where the key stream stands: no secret, and no rest of a block.
#[derive(Clone)]
struct Position {
    nonce: [u8; 12],
    /// Bytes from block 0 on.
    byte: u64,
}

impl ChaCha20 {
    /// Runs from the beginning of a block on.
    ///
    /// # Safety
    ///
    /// `input` and `output` have `len` bytes, and are the same or apart.
    unsafe fn blocks(&self, at: &Position, input: *const u8, output: *mut u8, len: usize) {
        // The caller has checked that the last block still has a number of 32 bits.
        let counter = (at.byte / CHACHA20_BLOCK) as u32;
        // SAFETY: as the caller promises.
        unsafe { lc::CRYPTO_chacha_20(output, input, len, self.0.as_ptr(), at.nonce.as_ptr(), counter) }
    }
}

impl Cipher for ChaCha20 {
    type State = Position;

    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        let [c0, c1, c2, c3, nonce @ ..] = *iv::<16>(bytes)?;
        Ok(Position { nonce, byte: CHACHA20_BLOCK * u64::from(u32::from_le_bytes([c0, c1, c2, c3])) })
    }

    /// A block counter that would wrap is a [`BadLength`](Outcome::BadLength). OpenSSL carries into the nonce there, which is
    /// the key stream of another nonce.
    fn run(&self, _: Operation, at: &mut Self::State, mut data: Span<'_>) -> Result<Outcome, Fault> {
        let end = at.byte.checked_add(data.len as u64);
        let Some(end) = end.filter(|end| *end <= CHACHA20_BLOCK << 32) else { return Ok(Outcome::BadLength) };
        let used = (at.byte % CHACHA20_BLOCK) as usize;
        if used > 0 {
            let now = data.len.min(CHACHA20_BLOCK as usize - used);
            let mut block = Secret::<[u8; 64]>::zeroed();
            // SAFETY: `block` has the length of a block, which is encrypted where it is.
            unsafe { self.blocks(at, block.as_ptr(), block.as_mut_ptr(), block.len()) };
            for (index, key) in block[used..][..now].iter().enumerate() {
                // SAFETY: `index` is below `now`, which is no more than `len`.
                unsafe { *data.output.add(index) = *data.input.add(index) ^ key };
            }
            at.byte += now as u64;
            data = data.skip(now);
        }
        if data.len > 0 {
            // SAFETY: buffers as `Span` promises.
            unsafe { self.blocks(at, data.input, data.output, data.len) };
        }
        at.byte = end;
        Ok(Outcome::Done)
    }
}
