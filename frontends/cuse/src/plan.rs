//! The parts of the caller's memory that an ioctl needs, and its action: everything that is decided before the computation.
//!
//! [`plan`] is called with the bytes read so far. It returns further ranges to read, an errno, or an action and the ranges for
//! the action's result. A plan does not depend on the way memory is read. The errno values and their order follow the kernel module
//! (`ioctl.c`, `main.c`, `authenc.c` of cryptodev-linux 1.14).

use gantry_abi_cryptodev::{self as abi, CryptAuthOp, CryptOp, Ioctl, SessionOp, Width};
use gantry_core::Algorithm;
use nix::errno::Errno;

use crate::fuse::Range;
use crate::session::CryptoSession;

/// The arguments of an ioctl.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) ioctl: Ioctl,
    pub(crate) width: Width,
    pub(crate) address: u64,
}

/// The next step of an ioctl.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Read these ranges. The first of them have been read already.
    Read(Vec<RequestedRange>),
    /// All ranges have been read.
    Ready {
        action: Action,
        /// All ranges that were read.
        inputs: Vec<RequestedRange>,
        /// The destinations of the result's parts.
        outputs: Vec<RequestedRange>,
    },
    /// Answer with this errno.
    Fail(Errno),
}

/// A range, and the errno for the caller if the range is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestedRange {
    pub(crate) range: Range,
    pub(crate) errno: Errno,
}

/// The action of an ioctl. Data is identified by its offsets in the bytes read.
#[derive(Debug)]
pub(crate) enum Action {
    Open { op: SessionOp, key: std::ops::Range<usize>, mac_key: std::ops::Range<usize> },
    Close(u32),
    Info(Box<abi::SessionInfoOp>),
    CopyHash { to: u32, from: u32 },
    Features,
    Descriptor,
    Crypt(Job),
}

/// A request on a session.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) session: u32,
    pub(crate) encrypt: bool,
    /// `COP_FLAG_*`.
    pub(crate) flags: u16,
    /// The IV; if it is empty, the request continues from the previous one.
    pub(crate) iv: std::ops::Range<usize>,
    pub(crate) data: std::ops::Range<usize>,
    pub(crate) kind: JobKind,
    /// The structure to be written back.
    pub(crate) answer: Vec<u8>,
}

/// The operation that CIOCCRYPT or CIOCAUTHCRYPT performs on the data.
#[derive(Debug)]
pub(crate) enum JobKind {
    /// A cipher, a digest, or both.
    Plain,
    Aead {
        aad: std::ops::Range<usize>,
        tag_length: usize,
    },
    Tls {
        aad: std::ops::Range<usize>,
        tag_length: usize,
    },
    /// The data lies within the packet, and the tag is separate.
    Srtp {
        packet: std::ops::Range<usize>,
        tag_length: usize,
        received_tag: std::ops::Range<usize>,
    },
}

pub(crate) fn total_bytes(requested: &[RequestedRange]) -> usize {
    requested.iter().map(|requested| requested.range.bytes).fold(0, usize::saturating_add)
}

/// The sessions of the ioctl's file.
pub(crate) trait Sessions {
    fn crypto_session(&self, session: u32) -> Option<&CryptoSession>;
}

pub(crate) fn plan(call: Call, sessions: &impl Sessions, input_bytes: &[u8]) -> Plan {
    let mut reader = Reader { input_bytes, end: 0, requested: Vec::new() };
    match decide(call, sessions, &mut reader) {
        Ok((action, outputs)) => Plan::Ready { action, inputs: reader.requested, outputs },
        Err(EarlyExit::Read) => Plan::Read(reader.requested),
        Err(EarlyExit::Fail(errno)) => Plan::Fail(errno),
    }
}

enum EarlyExit {
    Read,
    Fail(Errno),
}

fn fail<T>(errno: Errno) -> Result<T, EarlyExit> {
    Err(EarlyExit::Fail(errno))
}

fn ensure(condition: bool) -> Result<(), EarlyExit> {
    if condition { Ok(()) } else { fail(Errno::EINVAL) }
}

/// Consumes the bytes read, range by range, and records missing ranges.
struct Reader<'g> {
    input_bytes: &'g [u8],
    end: usize,
    requested: Vec<RequestedRange>,
}

impl Reader<'_> {
    /// Requests a range. Returns its place in the bytes read.
    fn request_range(&mut self, address: u64, bytes: usize, errno: Errno) -> std::ops::Range<usize> {
        self.requested.push(RequestedRange { range: Range { address, bytes }, errno });
        let offsets = self.end..self.end.saturating_add(bytes);
        self.end = offsets.end;
        offsets
    }

    /// Stops the plan until all requested ranges have been read.
    fn require_read(&self) -> Result<(), EarlyExit> {
        if self.input_bytes.len() >= self.end { Ok(()) } else { Err(EarlyExit::Read) }
    }

    /// Reads the structure of the ioctl's argument.
    fn structure<T>(&mut self, call: Call, read: fn(&[u8], Width) -> Option<T>) -> Result<T, EarlyExit> {
        let offsets = self.request_range(call.address, call.ioctl.size(call.width), Errno::EFAULT);
        self.require_read()?;
        read(&self.input_bytes[offsets], call.width).ok_or(EarlyExit::Fail(Errno::EFAULT))
    }
}

fn decide(
    call: Call,
    sessions: &impl Sessions,
    reader: &mut Reader<'_>,
) -> Result<(Action, Vec<RequestedRange>), EarlyExit> {
    let argument_range =
        |errno| RequestedRange { range: Range { address: call.address, bytes: call.ioctl.size(call.width) }, errno };
    let write_back = vec![argument_range(Errno::EFAULT)];
    match call.ioctl {
        Ioctl::AsymmetricFeatures => Ok((Action::Features, write_back)),
        Ioctl::GetDescriptor => Ok((Action::Descriptor, write_back)),
        // The kernel module supports these ioctls only in special builds.
        Ioctl::Key | Ioctl::AsyncCrypt | Ioctl::AsyncFetch => fail(Errno::EINVAL),
        Ioctl::OpenSession => {
            let op = reader.structure(call, SessionOp::from_bytes)?;
            let (key, mac_key) = request_keys(&op, reader)?;
            Ok((Action::Open { op, key, mac_key }, write_back))
        }
        Ioctl::CloseSession => {
            let session = reader.structure(call, |bytes, _| word(bytes, 0))?;
            Ok((Action::Close(session), Vec::new()))
        }
        Ioctl::SessionInfo => {
            let op = reader.structure(call, abi::SessionInfoOp::from_bytes)?;
            ensure(sessions.crypto_session(op.session).is_some())?;
            Ok((Action::Info(Box::new(op)), write_back))
        }
        Ioctl::CopyHash => {
            let abi::CopyHashOp { to, from } = reader.structure(call, abi::CopyHashOp::from_bytes)?;
            if to == from {
                return fail(Errno::EDEADLK);
            }
            let (Some(one), Some(other)) = (sessions.crypto_session(to), sessions.crypto_session(from)) else {
                return fail(Errno::ENOENT);
            };
            let digest_number = |crypto: &CryptoSession| crypto.hash.as_ref().map(|hash| hash.row.number);
            // The module also copies between digests of different kinds, and then computes wrong results.
            ensure(digest_number(one).is_some() && digest_number(one) == digest_number(other))?;
            Ok((Action::CopyHash { to, from }, Vec::new()))
        }
        Ioctl::Crypt => {
            let op = reader.structure(call, CryptOp::from_bytes)?;
            let crypto = sessions.crypto_session(op.session).ok_or(EarlyExit::Fail(Errno::EINVAL))?;
            plan_crypt(call, op, crypto, reader)
        }
        Ioctl::AuthCrypt => {
            let op = reader.structure(call, CryptAuthOp::from_bytes)?;
            let crypto = sessions.crypto_session(op.session).ok_or(EarlyExit::Fail(Errno::EINVAL))?;
            plan_auth_crypt(call, op, crypto, reader)
        }
    }
}

/// Requests the keys of a session, in the order in which the module checks them.
fn request_keys(
    op: &SessionOp,
    reader: &mut Reader<'_>,
) -> Result<(std::ops::Range<usize>, std::ops::Range<usize>), EarlyExit> {
    ensure(op.cipher != 0 || op.mac != 0)?;
    let cipher = abi::cipher(op.cipher);
    let hash = abi::hash(op.mac);
    ensure(op.cipher == 0 || cipher.is_some())?;
    ensure(op.mac == 0 || hash.is_some())?;
    let mut key = 0..0;
    let mut is_aead = false;
    if let Some(row) = cipher {
        is_aead = row.is_aead();
        ensure(op.key_len as usize <= abi::MAX_CIPHER_KEY_LEN)?;
        key = reader.request_range(op.key, op.key_len as usize, Errno::EFAULT);
        reader.require_read()?;
        // The two keys of a composite AEAD, for which Linux has no template.
        ensure(!(is_aead && op.mac_key_len > 0))?;
        ensure(row.algorithm_for_key_len(key.len()).is_some() || row.algorithms == [Algorithm::Null])?;
    }
    let mut mac_key = 0..0;
    if hash.is_some() && !is_aead {
        ensure(op.mac_key_len as usize <= abi::MAX_HMAC_KEY_LEN)?;
        if op.mac_key != 0 {
            mac_key = reader.request_range(op.mac_key, op.mac_key_len as usize, Errno::EFAULT);
        }
        reader.require_read()?;
    }
    Ok((key, mac_key))
}

fn request_iv(address: u64, crypto: &CryptoSession, reader: &mut Reader<'_>) -> std::ops::Range<usize> {
    let bytes = crypto.cipher.as_ref().map_or(0, |cipher| cipher.row.iv_len);
    if address == 0 || bytes == 0 { 0..0 } else { reader.request_range(address, bytes, Errno::EFAULT) }
}

/// Fails with EINVAL unless `condition` holds; the module detects this only after it has read the ranges so far.
fn check_after_read(reader: &Reader<'_>, condition: bool) -> Result<(), EarlyExit> {
    if condition {
        return Ok(());
    }
    reader.require_read()?;
    fail(Errno::EINVAL)
}

fn plan_crypt(
    call: Call,
    op: CryptOp,
    crypto: &CryptoSession,
    reader: &mut Reader<'_>,
) -> Result<(Action, Vec<RequestedRange>), EarlyExit> {
    let iv = request_iv(op.iv, crypto, reader);
    check_after_read(reader, op.op == abi::COP_ENCRYPT || op.op == abi::COP_DECRYPT)?;
    let len = op.len as usize;
    if let Some(cipher) = &crypto.cipher {
        // An AEAD would write its tag behind the output here; the module allows that.
        check_after_read(reader, len.is_multiple_of(cipher.row.block_size) && !cipher.row.is_aead())?;
    }
    let data = reader.request_range(op.src, len, Errno::EFAULT);
    reader.require_read()?;
    let mut outputs = Vec::new();
    let mut output =
        |address, bytes| outputs.push(RequestedRange { range: Range { address, bytes }, errno: Errno::EFAULT });
    if crypto.cipher.is_some() {
        output(op.dst, len);
    }
    if let Some(hash) = &crypto.hash
        && finishes_digest(op.flags, len)
    {
        output(op.mac, hash.digest_length());
    }
    if !iv.is_empty() && op.flags & abi::COP_FLAG_WRITE_IV != 0 {
        output(op.iv, iv.len());
    }
    output(call.address, call.ioctl.size(call.width));
    let job = Job {
        session: op.session,
        encrypt: op.op == abi::COP_ENCRYPT,
        flags: op.flags,
        iv,
        data,
        kind: JobKind::Plain,
        answer: op.to_bytes(call.width),
    };
    Ok((Action::Crypt(job), outputs))
}

/// Returns whether a CIOCCRYPT ends the message of its digest.
pub(crate) fn finishes_digest(flags: u16, len: usize) -> bool {
    flags & abi::COP_FLAG_FINAL != 0 || flags & abi::COP_FLAG_UPDATE == 0 || len == 0
}

fn plan_auth_crypt(
    call: Call,
    mut op: CryptAuthOp,
    crypto: &CryptoSession,
    reader: &mut Reader<'_>,
) -> Result<(Action, Vec<RequestedRange>), EarlyExit> {
    let (tls, srtp) = (op.flags & abi::COP_FLAG_AEAD_TLS_TYPE != 0, op.flags & abi::COP_FLAG_AEAD_SRTP_TYPE != 0);
    ensure(!(tls || srtp) || op.src == op.dst)?;
    let digest_length = crypto.hash.as_ref().map(crate::session::Hash::digest_length);
    let is_aead = crypto.cipher.as_ref().is_some_and(|cipher| cipher.row.is_aead());
    if op.tag_len == 0 {
        op.tag_len = digest_length.unwrap_or(if is_aead { 16 } else { 0 }) as u32;
    }
    let iv = request_iv(op.iv, crypto, reader);
    check_after_read(reader, op.op == abi::COP_ENCRYPT || op.op == abi::COP_DECRYPT)?;
    let encrypt = op.op == abi::COP_ENCRYPT;
    let Some(cipher) = &crypto.cipher else {
        check_after_read(reader, false)?;
        return fail(Errno::EINVAL);
    };
    let (len, auth_len, tag_length) = (op.len as usize, op.auth_len as usize, op.tag_len as usize);
    let mut outputs = Vec::new();
    let mut output = |address, bytes, errno| outputs.push(RequestedRange { range: Range { address, bytes }, errno });
    let data;
    let kind;
    if srtp {
        check_after_read(reader, cipher.row.is_stream && !is_aead)?;
        check_after_read(reader, auth_len > 0 && len > 0 || encrypt && tag_length > 0)?;
        let header = op.src.wrapping_sub(op.auth_src);
        check_after_read(
            reader,
            header <= abi::MAX_SRTP_HEADER_LEN && (header as usize).saturating_add(len) <= auth_len,
        )?;
        let packet = reader.request_range(op.auth_src, auth_len, Errno::EINVAL);
        data = packet.start + header as usize..packet.start + header as usize + len;
        let mut received_tag = 0..0;
        output(op.dst, len, Errno::EINVAL);
        match (digest_length, encrypt) {
            (Some(digest_length), true) => {
                check_after_read(reader, tag_length <= digest_length)?;
                output(op.tag, tag_length, Errno::EFAULT);
            }
            (Some(digest_length), false) => {
                // The module would compare bytes behind a shorter digest.
                check_after_read(reader, tag_length <= digest_length && tag_length <= len)?;
                received_tag = reader.request_range(op.tag, tag_length, Errno::EFAULT);
            }
            (None, _) => {}
        }
        kind = JobKind::Srtp { packet, tag_length, received_tag };
    } else if tls && !is_aead {
        check_after_read(reader, auth_len <= abi::MAX_AUTH_LEN)?;
        let aad = if op.auth_src == 0 { 0..0 } else { reader.request_range(op.auth_src, auth_len, Errno::EFAULT) };
        let tag_length = digest_length.map_or(0, |_| tag_length);
        let block = cipher.row.block_size;
        check_after_read(reader, op.dst != 0 && (len > 0 || tag_length > 0))?;
        let written = if encrypt {
            check_after_read(reader, tag_length <= digest_length.unwrap_or(0))?;
            let unpadded = len.saturating_add(tag_length).min(u32::MAX as usize - 256);
            if block > 1 { unpadded + block - unpadded % block } else { unpadded }
        } else {
            // The module would compare bytes behind a shorter digest.
            check_after_read(
                reader,
                len.is_multiple_of(block) && len > 0 && tag_length <= len && tag_length <= digest_length.unwrap_or(0),
            )?;
            len
        };
        data = reader.request_range(op.src, len, Errno::EINVAL);
        output(op.dst, written, Errno::EINVAL);
        op.len = written as u32;
        kind = JobKind::Tls { aad, tag_length };
    } else {
        check_after_read(reader, is_aead)?;
        check_after_read(reader, auth_len <= abi::MAX_AUTH_LEN)?;
        let info = cipher.algorithm.info();
        check_after_read(reader, info.tag.allows(tag_length) && (len == 0 || op.src != 0))?;
        data = reader.request_range(op.src, len, Errno::EINVAL);
        let aad = if op.auth_src == 0 { 0..0 } else { reader.request_range(op.auth_src, auth_len, Errno::EFAULT) };
        check_after_read(reader, encrypt || len >= tag_length)?;
        let written = if encrypt { len.saturating_add(tag_length) } else { len - tag_length };
        check_after_read(reader, written == 0 || op.dst != 0)?;
        output(op.dst, written, Errno::EINVAL);
        op.len = written as u32;
        op.tag = op.dst.wrapping_add(if encrypt { len } else { written } as u64);
        kind = JobKind::Aead { aad, tag_length };
    }
    reader.require_read()?;
    if !iv.is_empty() && op.flags & abi::COP_FLAG_WRITE_IV != 0 {
        output(op.iv, iv.len(), Errno::EFAULT);
    }
    output(call.address, call.ioctl.size(call.width), Errno::EFAULT);
    let (session, flags) = (op.session, op.flags);
    Ok((Action::Crypt(Job { session, encrypt, flags, iv, data, kind, answer: op.to_bytes(call.width) }), outputs))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
