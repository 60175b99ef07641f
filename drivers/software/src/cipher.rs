//! Ciphers whose functions take their keys as constants. A session holds only the keys. Each request or stream has its own
//! state: the position in the chain or key stream.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{Buffers, CipherStream, DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};

use crate::session::{PlainMemory, RawBuffers, Secret, SessionResult, iv_array, unsupported_operation};

/// A cipher with its keys.
pub(crate) trait Cipher: Send + Sync + Sized + 'static {
    /// The state between two pieces of the data. Overwritten when dropped.
    type State: Clone + Send + 'static;

    /// Returns the state at the beginning of the data.
    fn start(&self, iv: &[u8]) -> Result<Self::State, Fault>;

    /// Processes the next piece. Any outcome but `Done` leaves the output unchanged.
    fn run(&self, operation: Operation, state: &mut Self::State, data: RawBuffers<'_>) -> Result<Outcome, Fault>;

    fn session(self) -> Arc<dyn DeviceSession> {
        Arc::new(CipherSession(Arc::new(self)))
    }
}

struct CipherSession<C>(Arc<C>);

impl<C: Cipher> DeviceSession for CipherSession<C> {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { operation, iv, data } = operands else { return unsupported_operation() };
        self.0.run(operation, &mut self.0.start(iv)?, RawBuffers::new(data)?)
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
        match self.cipher.run(self.operation, &mut self.state, RawBuffers::new(data)?)? {
            Outcome::Done => Ok(()),
            refused => Err(Fault::failed(refused.to_string())),
        }
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        let Self { cipher, operation, state } = self;
        Box::new(Stream { cipher: cipher.clone(), operation: *operation, state: state.clone() })
    }
}

/// Returns AWS-LC's constant for a direction.
pub(crate) fn direction(operation: Operation) -> c_int {
    if operation == Operation::Encrypt { lc::AES_ENCRYPT } else { lc::AES_DECRYPT }
}

// ---- AES. These functions are the ones that AWS-LC's `EVP_CIPHER`s call, so they are no slower; AWS-LC, too, processes ECB
// block by block.

pub(crate) fn open_ecb(params: &SessionParams) -> SessionResult {
    Ok(AesEcb(BlockKeys::new(params.key())?).session())
}

pub(crate) fn open_cbc(params: &SessionParams) -> SessionResult {
    Ok(AesCbc::new(params.key())?.session())
}

pub(crate) fn open_ctr(params: &SessionParams) -> SessionResult {
    Ok(AesStream::new(StreamMode::Ctr, params.key())?.session())
}

pub(crate) fn open_ofb(params: &SessionParams) -> SessionResult {
    Ok(AesStream::new(StreamMode::Ofb, params.key())?.session())
}

pub(crate) fn open_cfb(params: &SessionParams) -> SessionResult {
    Ok(AesStream::new(StreamMode::Cfb, params.key())?.session())
}

type RoundKeys = Box<Secret<lc::AES_KEY>>;

type SetKey = unsafe extern "C" fn(*const u8, c_uint, *mut lc::AES_KEY) -> c_int;

fn round_keys(set: SetKey, key: &[u8]) -> Result<RoundKeys, Unsupported> {
    let mut keys = Secret::<lc::AES_KEY>::boxed();
    // AWS-LC accepts 128, 192 and 256 bits, and refuses any other number, such as `c_uint::MAX`.
    let bits = c_uint::try_from(8 * key.len()).unwrap_or(c_uint::MAX);
    // SAFETY: the key has `bits` bits, and the round keys go into an owned structure.
    let good = unsafe { set(key.as_ptr(), bits, &raw mut **keys) } == 0;
    if good { Ok(keys) } else { Err(Unsupported::because("the key has a wrong length")) }
}

/// Keys of modes that decrypt with the inverse cipher.
struct BlockKeys {
    encrypt: RoundKeys,
    decrypt: RoundKeys,
}

impl BlockKeys {
    fn new(key: &[u8]) -> Result<Self, Unsupported> {
        let (encrypt, decrypt) = (round_keys(lc::AES_set_encrypt_key, key)?, round_keys(lc::AES_set_decrypt_key, key)?);
        Ok(Self { encrypt, decrypt })
    }

    #[inline]
    fn for_operation(&self, operation: Operation) -> *const lc::AES_KEY {
        let keys = if operation == Operation::Encrypt { &self.encrypt } else { &self.decrypt };
        &raw const ***keys
    }
}

struct AesEcb(BlockKeys);

impl Cipher for AesEcb {
    type State = ();

    fn start(&self, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn run(&self, operation: Operation, (): &mut (), data: RawBuffers<'_>) -> Result<Outcome, Fault> {
        let RawBuffers { input, output, len, .. } = data;
        if !len.is_multiple_of(16) {
            return Ok(Outcome::BadLength);
        }
        let (keys, enc) = (self.0.for_operation(operation), direction(operation));
        for block in (0..len).step_by(16) {
            // SAFETY: `RawBuffers` guarantees the buffers. They have whole blocks, and the round keys are for this direction.
            unsafe { lc::AES_ecb_encrypt(input.add(block), output.add(block), keys, enc) }
        }
        Ok(Outcome::Done)
    }
}

pub(crate) struct AesCbc(BlockKeys);

impl AesCbc {
    pub(crate) fn new(key: &[u8]) -> Result<Self, Unsupported> {
        BlockKeys::new(key).map(Self)
    }
}

impl Cipher for AesCbc {
    /// The IV of the next block: the last block of ciphertext, which is not secret.
    type State = [u8; 16];

    #[inline]
    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        iv_array(bytes).copied()
    }

    #[inline]
    fn run(&self, operation: Operation, state: &mut Self::State, data: RawBuffers<'_>) -> Result<Outcome, Fault> {
        let RawBuffers { input, output, len, .. } = data;
        if !len.is_multiple_of(16) {
            return Ok(Outcome::BadLength);
        }
        // SAFETY: `RawBuffers` guarantees the buffers. They have whole blocks, the round keys are for this direction, and the IV has
        // 16 bytes.
        unsafe {
            lc::AES_cbc_encrypt(
                input,
                output,
                len,
                self.0.for_operation(operation),
                state.as_mut_ptr(),
                direction(operation),
            );
        }
        Ok(Outcome::Done)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum StreamMode {
    Ctr,
    Ofb,
    Cfb,
}

/// Modes that generate a key stream, with the forward cipher in both directions.
pub(crate) struct AesStream {
    mode: StreamMode,
    keys: RoundKeys,
}

impl AesStream {
    pub(crate) fn new(mode: StreamMode, key: &[u8]) -> Result<Self, Unsupported> {
        Ok(Self { mode, keys: round_keys(lc::AES_set_encrypt_key, key)? })
    }
}

/// The IV of the next block, and for CTR the rest of the last block of key stream.
#[derive(Clone, Copy)]
pub(crate) struct StreamState {
    iv: [u8; 16],
    key_stream: [u8; 16],
    /// Number of bytes used of the last block of key stream.
    used_bytes: c_uint,
}

// SAFETY: all fields are numbers.
unsafe impl PlainMemory for StreamState {}

impl Cipher for AesStream {
    type State = Secret<StreamState>;

    #[inline]
    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        let mut state = Secret::<StreamState>::zeroed();
        state.iv = *iv_array(bytes)?;
        Ok(state)
    }

    #[inline]
    fn run(&self, operation: Operation, state: &mut Self::State, data: RawBuffers<'_>) -> Result<Outcome, Fault> {
        let RawBuffers { input, output, len, .. } = data;
        let keys = &raw const **self.keys;
        let StreamState { iv, key_stream, used_bytes } = &mut **state;
        let (iv, used_bytes) = (iv.as_mut_ptr(), &raw mut *used_bytes);
        // SAFETY: `RawBuffers` guarantees the buffers, the round keys are valid, and the IV has 16 bytes. `used_bytes` is below 16: it
        // starts at 0, and these functions keep it there. OFB and CFB take the same number as an `int`.
        unsafe {
            match self.mode {
                StreamMode::Ctr => {
                    lc::AES_ctr128_encrypt(input, output, len, keys, iv, key_stream.as_mut_ptr(), used_bytes);
                }
                StreamMode::Ofb => lc::AES_ofb128_encrypt(input, output, len, keys, iv, used_bytes.cast()),
                StreamMode::Cfb => {
                    lc::AES_cfb128_encrypt(input, output, len, keys, iv, used_bytes.cast(), direction(operation));
                }
            }
        }
        Ok(Outcome::Done)
    }
}

// ---- triple DES

pub(crate) fn open_des_ede3_cbc(params: &SessionParams) -> SessionResult {
    let mut keys = Secret::<[lc::DES_key_schedule; 3]>::boxed();
    let (parts, []) = params.key().as_chunks::<8>() else {
        return Err(Unsupported::because("the key has a wrong length"));
    };
    if parts.len() != keys.len() {
        return Err(Unsupported::because("the key has a wrong length"));
    }
    for (part, schedule) in parts.iter().zip(keys.iter_mut()) {
        // SAFETY: a `DES_cblock` is 8 bytes without alignment; the schedule is owned here.
        unsafe { lc::DES_set_key_unchecked(part.as_ptr().cast(), schedule) };
    }
    Ok(DesEde3Cbc(keys).session())
}

struct DesEde3Cbc(Box<Secret<[lc::DES_key_schedule; 3]>>);

impl Cipher for DesEde3Cbc {
    /// The IV of the next block: the last block of ciphertext, which is not secret.
    type State = [u8; 8];

    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        iv_array(bytes).copied()
    }

    fn run(&self, operation: Operation, state: &mut Self::State, data: RawBuffers<'_>) -> Result<Outcome, Fault> {
        if !data.len.is_multiple_of(8) {
            return Ok(Outcome::BadLength);
        }
        let [one, two, three] = &**self.0;
        let iv = state.as_mut_ptr().cast();
        // SAFETY: `RawBuffers` guarantees the buffers. They have whole blocks, the three schedules are initialised, and the IV has 8
        // bytes.
        unsafe {
            lc::DES_ede3_cbc_encrypt(data.input, data.output, data.len, one, two, three, iv, direction(operation));
        }
        Ok(Outcome::Done)
    }
}

// ---- ChaCha20

pub(crate) fn open_chacha20(params: &SessionParams) -> SessionResult {
    let key: &[u8; 32] = params.key().try_into().map_err(|_| Unsupported::because("the key has a wrong length"))?;
    let mut secret = Secret::<[u8; 32]>::boxed();
    secret.copy_from_slice(key);
    Ok(ChaCha20(secret).session())
}

struct ChaCha20(Box<Secret<[u8; 32]>>);

const CHACHA20_BLOCK_BYTES: u64 = 64;

/// The position in the key stream. It is not secret, because it contains no key stream.
#[derive(Clone)]
struct KeyStreamPosition {
    nonce: [u8; 12],
    /// Offset in bytes from block 0.
    byte: u64,
}

impl ChaCha20 {
    /// Processes data from the beginning of a block.
    ///
    /// # Safety
    ///
    /// `input` and `output` have `len` bytes, and are equal or do not overlap.
    unsafe fn crypt_blocks(&self, at: &KeyStreamPosition, input: *const u8, output: *mut u8, len: usize) {
        // The caller has checked that the number of the last block fits 32 bits.
        let counter = (at.byte / CHACHA20_BLOCK_BYTES) as u32;
        // SAFETY: as the caller guarantees.
        unsafe { lc::CRYPTO_chacha_20(output, input, len, self.0.as_ptr(), at.nonce.as_ptr(), counter) }
    }
}

impl Cipher for ChaCha20 {
    type State = KeyStreamPosition;

    fn start(&self, bytes: &[u8]) -> Result<Self::State, Fault> {
        let [c0, c1, c2, c3, nonce @ ..] = *iv_array::<16>(bytes)?;
        Ok(KeyStreamPosition { nonce, byte: CHACHA20_BLOCK_BYTES * u64::from(u32::from_le_bytes([c0, c1, c2, c3])) })
    }

    /// A block counter that would wrap is a [`BadLength`](Outcome::BadLength). OpenSSL carries into the nonce instead, and so
    /// uses the key stream of another nonce.
    fn run(&self, _: Operation, at: &mut Self::State, mut data: RawBuffers<'_>) -> Result<Outcome, Fault> {
        let end = at.byte.checked_add(data.len as u64);
        let Some(end) = end.filter(|end| *end <= CHACHA20_BLOCK_BYTES << 32) else { return Ok(Outcome::BadLength) };
        let used = (at.byte % CHACHA20_BLOCK_BYTES) as usize;
        if used > 0 {
            let count = data.len.min(CHACHA20_BLOCK_BYTES as usize - used);
            let mut block = Secret::<[u8; 64]>::zeroed();
            // SAFETY: `block` has the length of a block, and is encrypted in place.
            unsafe { self.crypt_blocks(at, block.as_ptr(), block.as_mut_ptr(), block.len()) };
            for (index, key) in block[used..][..count].iter().enumerate() {
                // SAFETY: `index` is below `count`, which is at most `len`.
                unsafe { *data.output.add(index) = *data.input.add(index) ^ key };
            }
            at.byte += count as u64;
            data = data.skip(count);
        }
        if data.len > 0 {
            // SAFETY: `RawBuffers` guarantees the buffers.
            unsafe { self.crypt_blocks(at, data.input, data.output, data.len) };
        }
        at.byte = end;
        Ok(Outcome::Done)
    }
}
