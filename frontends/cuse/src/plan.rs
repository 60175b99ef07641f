//! What an ioctl needs of its caller's memory, and what it is to do: everything that can be said before anything is computed.
//!
//! [`plan`] is called with what has been read of the caller so far, and answers with what else to read, with an errno, or with
//! an action and the ranges that its result goes to. Nothing here knows how memory is read. Which errno comes for what, and
//! in which order, is the kernel module's (`ioctl.c`, `main.c`, `authenc.c` of cryptodev-linux 1.14).

use gantry_abi_cryptodev::{self as abi, CryptAuthOp, CryptOp, Ioctl, SessionOp, Width};
use gantry_core::Algorithm;
use nix::errno::Errno;

use crate::fuse::Range;
use crate::session::Shape;

/// An ioctl of which nothing is known but what came with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) ioctl: Ioctl,
    pub(crate) width: Width,
    pub(crate) address: u64,
}

/// How to go on.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Read these ranges, which begin with those that have been read already.
    Read(Vec<Wanted>),
    /// Everything is there.
    Ready {
        action: Action,
        /// All that was read.
        inputs: Vec<Wanted>,
        /// Where the result goes, part behind part.
        outputs: Vec<Wanted>,
    },
    /// The caller gets this.
    Fail(Errno),
}

/// A range, and what the caller gets when it is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) range: Range,
    pub(crate) errno: Errno,
}

/// What is to be done. Data is named by its place in what was read.
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
    /// Empty to go on from the request before.
    pub(crate) iv: std::ops::Range<usize>,
    pub(crate) data: std::ops::Range<usize>,
    pub(crate) form: Form,
    /// The structure as it goes back.
    pub(crate) answer: Vec<u8>,
}

/// What CIOCCRYPT and CIOCAUTHCRYPT make of the data.
#[derive(Debug)]
pub(crate) enum Form {
    /// A cipher, a digest, or both.
    Plain,
    Aead {
        aad: std::ops::Range<usize>,
        tag: usize,
    },
    Tls {
        aad: std::ops::Range<usize>,
        tag: usize,
    },
    /// The data lies in the packet, and the tag apart.
    Srtp {
        packet: std::ops::Range<usize>,
        tag: usize,
        given: std::ops::Range<usize>,
    },
}

/// Bytes of these ranges.
pub(crate) fn total(wanted: &[Wanted]) -> usize {
    wanted.iter().map(|wanted| wanted.range.bytes).fold(0, usize::saturating_add)
}

/// The sessions of the file that an ioctl is for.
pub(crate) trait Sessions {
    fn shape(&self, session: u32) -> Option<&Shape>;
}

pub(crate) fn plan(call: Call, sessions: &impl Sessions, got: &[u8]) -> Plan {
    let mut reader = Reader { got, at: 0, wanted: Vec::new() };
    match decide(call, sessions, &mut reader) {
        Ok((action, outputs)) => Plan::Ready { action, inputs: reader.wanted, outputs },
        Err(Stop::Read) => Plan::Read(reader.wanted),
        Err(Stop::Fail(errno)) => Plan::Fail(errno),
    }
}

enum Stop {
    Read,
    Fail(Errno),
}

fn fail<T>(errno: Errno) -> Result<T, Stop> {
    Err(Stop::Fail(errno))
}

fn ensure(condition: bool) -> Result<(), Stop> {
    if condition { Ok(()) } else { fail(Errno::EINVAL) }
}

/// Takes what has been read, range by range, and notes what has not.
struct Reader<'g> {
    got: &'g [u8],
    at: usize,
    wanted: Vec<Wanted>,
}

impl Reader<'_> {
    /// The place of a range that is needed sooner or later.
    fn want(&mut self, address: u64, bytes: usize, errno: Errno) -> std::ops::Range<usize> {
        self.wanted.push(Wanted { range: Range { address, bytes }, errno });
        let place = self.at..self.at.saturating_add(bytes);
        self.at = place.end;
        place
    }

    /// Nothing more can be said without what is wanted.
    fn need(&self) -> Result<(), Stop> {
        if self.got.len() >= self.at { Ok(()) } else { Err(Stop::Read) }
    }

    /// The structure that an ioctl's argument points to.
    fn structure<T>(&mut self, call: Call, read: fn(&[u8], Width) -> Option<T>) -> Result<T, Stop> {
        let place = self.want(call.address, call.ioctl.size(call.width), Errno::EFAULT);
        self.need()?;
        read(&self.got[place], call.width).ok_or(Stop::Fail(Errno::EFAULT))
    }
}

fn decide(call: Call, sessions: &impl Sessions, reader: &mut Reader<'_>) -> Result<(Action, Vec<Wanted>), Stop> {
    let whole = |errno| Wanted { range: Range { address: call.address, bytes: call.ioctl.size(call.width) }, errno };
    let back = vec![whole(Errno::EFAULT)];
    match call.ioctl {
        Ioctl::AsymmetricFeatures => Ok((Action::Features, back)),
        Ioctl::GetDescriptor => Ok((Action::Descriptor, back)),
        // Not in the module, unless it is built with them.
        Ioctl::Key | Ioctl::AsyncCrypt | Ioctl::AsyncFetch => fail(Errno::EINVAL),
        Ioctl::OpenSession => {
            let op = reader.structure(call, SessionOp::from_bytes)?;
            let (key, mac_key) = keys(&op, reader)?;
            Ok((Action::Open { op, key, mac_key }, back))
        }
        Ioctl::CloseSession => {
            let session = reader.structure(call, |bytes, _| word(bytes, 0))?;
            Ok((Action::Close(session), Vec::new()))
        }
        Ioctl::SessionInfo => {
            let op = reader.structure(call, abi::SessionInfoOp::from_bytes)?;
            ensure(sessions.shape(op.session).is_some())?;
            Ok((Action::Info(Box::new(op)), back))
        }
        Ioctl::CopyHash => {
            let abi::CopyHashOp { to, from } = reader.structure(call, abi::CopyHashOp::from_bytes)?;
            if to == from {
                return fail(Errno::EDEADLK);
            }
            let (Some(one), Some(other)) = (sessions.shape(to), sessions.shape(from)) else {
                return fail(Errno::ENOENT);
            };
            let same = |shape: &Shape| shape.hash.as_ref().map(|hash| hash.row.number);
            // The module copies between digests of different kinds, too, and computes nonsense from then on.
            ensure(same(one).is_some() && same(one) == same(other))?;
            Ok((Action::CopyHash { to, from }, Vec::new()))
        }
        Ioctl::Crypt => {
            let op = reader.structure(call, CryptOp::from_bytes)?;
            let shape = sessions.shape(op.session).ok_or(Stop::Fail(Errno::EINVAL))?;
            crypt(call, op, shape, reader)
        }
        Ioctl::AuthCrypt => {
            let op = reader.structure(call, CryptAuthOp::from_bytes)?;
            let shape = sessions.shape(op.session).ok_or(Stop::Fail(Errno::EINVAL))?;
            auth_crypt(call, op, shape, reader)
        }
    }
}

/// The keys of a session, in the order in which the module looks at them.
fn keys(op: &SessionOp, reader: &mut Reader<'_>) -> Result<(std::ops::Range<usize>, std::ops::Range<usize>), Stop> {
    ensure(op.cipher != 0 || op.mac != 0)?;
    let cipher = abi::cipher(op.cipher);
    let hash = abi::hash(op.mac);
    ensure(op.cipher == 0 || cipher.is_some())?;
    ensure(op.mac == 0 || hash.is_some())?;
    let mut key = 0..0;
    let mut is_aead = false;
    if let Some(row) = cipher {
        is_aead = row.is_aead();
        ensure(op.key_len as usize <= abi::MAX_CIPHER_KEY)?;
        key = reader.want(op.key, op.key_len as usize, Errno::EFAULT);
        reader.need()?;
        // The two keys of a composite AEAD, which Linux has no template for.
        ensure(!(is_aead && op.mac_key_len > 0))?;
        ensure(row.with_key(key.len()).is_some() || row.algorithms == [Algorithm::Null])?;
    }
    let mut mac_key = 0..0;
    if hash.is_some() && !is_aead {
        ensure(op.mac_key_len as usize <= abi::MAX_HMAC_KEY)?;
        if op.mac_key != 0 {
            mac_key = reader.want(op.mac_key, op.mac_key_len as usize, Errno::EFAULT);
        }
        reader.need()?;
    }
    Ok((key, mac_key))
}

fn iv(address: u64, shape: &Shape, reader: &mut Reader<'_>) -> std::ops::Range<usize> {
    let bytes = shape.cipher.as_ref().map_or(0, |cipher| cipher.row.iv);
    if address == 0 || bytes == 0 { 0..0 } else { reader.want(address, bytes, Errno::EFAULT) }
}

/// A problem that the module meets after it has read what is wanted so far.
fn after(reader: &Reader<'_>, condition: bool) -> Result<(), Stop> {
    if condition {
        return Ok(());
    }
    reader.need()?;
    fail(Errno::EINVAL)
}

fn crypt(call: Call, op: CryptOp, shape: &Shape, reader: &mut Reader<'_>) -> Result<(Action, Vec<Wanted>), Stop> {
    let iv = iv(op.iv, shape, reader);
    after(reader, op.op == abi::COP_ENCRYPT || op.op == abi::COP_DECRYPT)?;
    let len = op.len as usize;
    if let Some(cipher) = &shape.cipher {
        // An AEAD here would write its tag behind the output; the module lets that happen.
        after(reader, len.is_multiple_of(cipher.row.block) && !cipher.row.is_aead())?;
    }
    let data = reader.want(op.src, len, Errno::EFAULT);
    reader.need()?;
    let mut outputs = Vec::new();
    let mut output = |address, bytes| outputs.push(Wanted { range: Range { address, bytes }, errno: Errno::EFAULT });
    if shape.cipher.is_some() {
        output(op.dst, len);
    }
    if let Some(hash) = &shape.hash
        && finishes(op.flags, len)
    {
        output(op.mac, hash.bytes());
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
        form: Form::Plain,
        answer: op.to_bytes(call.width),
    };
    Ok((Action::Crypt(job), outputs))
}

/// Whether a CIOCCRYPT ends the message of its digest.
pub(crate) fn finishes(flags: u16, len: usize) -> bool {
    flags & abi::COP_FLAG_FINAL != 0 || flags & abi::COP_FLAG_UPDATE == 0 || len == 0
}

fn auth_crypt(
    call: Call,
    mut op: CryptAuthOp,
    shape: &Shape,
    reader: &mut Reader<'_>,
) -> Result<(Action, Vec<Wanted>), Stop> {
    let (tls, srtp) = (op.flags & abi::COP_FLAG_AEAD_TLS_TYPE != 0, op.flags & abi::COP_FLAG_AEAD_SRTP_TYPE != 0);
    ensure(!(tls || srtp) || op.src == op.dst)?;
    let digest = shape.hash.as_ref().map(crate::session::Hash::bytes);
    let is_aead = shape.cipher.as_ref().is_some_and(|cipher| cipher.row.is_aead());
    if op.tag_len == 0 {
        op.tag_len = digest.unwrap_or(if is_aead { 16 } else { 0 }) as u32;
    }
    let iv = iv(op.iv, shape, reader);
    after(reader, op.op == abi::COP_ENCRYPT || op.op == abi::COP_DECRYPT)?;
    let encrypt = op.op == abi::COP_ENCRYPT;
    let Some(cipher) = &shape.cipher else {
        after(reader, false)?;
        return fail(Errno::EINVAL);
    };
    let (len, auth_len, tag) = (op.len as usize, op.auth_len as usize, op.tag_len as usize);
    let mut outputs = Vec::new();
    let mut output = |address, bytes, errno| outputs.push(Wanted { range: Range { address, bytes }, errno });
    let data;
    let form;
    if srtp {
        after(reader, cipher.row.stream && !is_aead)?;
        after(reader, auth_len > 0 && len > 0 || encrypt && tag > 0)?;
        let header = op.src.wrapping_sub(op.auth_src);
        after(reader, header <= abi::MAX_SRTP_HEADER && (header as usize).saturating_add(len) <= auth_len)?;
        let packet = reader.want(op.auth_src, auth_len, Errno::EINVAL);
        data = packet.start + header as usize..packet.start + header as usize + len;
        let mut given = 0..0;
        output(op.dst, len, Errno::EINVAL);
        match (digest, encrypt) {
            (Some(digest), true) => {
                after(reader, tag <= digest)?;
                output(op.tag, tag, Errno::EFAULT);
            }
            (Some(digest), false) => {
                // The module compares with what lies behind a shorter digest.
                after(reader, tag <= digest && tag <= len)?;
                given = reader.want(op.tag, tag, Errno::EFAULT);
            }
            (None, _) => {}
        }
        form = Form::Srtp { packet, tag, given };
    } else if tls && !is_aead {
        after(reader, auth_len <= abi::MAX_AUTH)?;
        let aad = if op.auth_src == 0 { 0..0 } else { reader.want(op.auth_src, auth_len, Errno::EFAULT) };
        let tag = digest.map_or(0, |_| tag);
        let block = cipher.row.block;
        after(reader, op.dst != 0 && (len > 0 || tag > 0))?;
        let written = if encrypt {
            after(reader, tag <= digest.unwrap_or(0))?;
            let unpadded = len.saturating_add(tag).min(u32::MAX as usize - 256);
            if block > 1 { unpadded + block - unpadded % block } else { unpadded }
        } else {
            // The module compares with what lies behind a shorter digest.
            after(reader, len.is_multiple_of(block) && len > 0 && tag <= len && tag <= digest.unwrap_or(0))?;
            len
        };
        data = reader.want(op.src, len, Errno::EINVAL);
        output(op.dst, written, Errno::EINVAL);
        op.len = written as u32;
        form = Form::Tls { aad, tag };
    } else {
        after(reader, is_aead)?;
        after(reader, auth_len <= abi::MAX_AUTH)?;
        let info = cipher.algorithm.info();
        after(reader, info.tag.allows(tag) && (len == 0 || op.src != 0))?;
        data = reader.want(op.src, len, Errno::EINVAL);
        let aad = if op.auth_src == 0 { 0..0 } else { reader.want(op.auth_src, auth_len, Errno::EFAULT) };
        after(reader, encrypt || len >= tag)?;
        let written = if encrypt { len.saturating_add(tag) } else { len - tag };
        after(reader, written == 0 || op.dst != 0)?;
        output(op.dst, written, Errno::EINVAL);
        op.len = written as u32;
        op.tag = op.dst.wrapping_add(if encrypt { len } else { written } as u64);
        form = Form::Aead { aad, tag };
    }
    reader.need()?;
    if !iv.is_empty() && op.flags & abi::COP_FLAG_WRITE_IV != 0 {
        output(op.iv, iv.len(), Errno::EFAULT);
    }
    output(call.address, call.ioctl.size(call.width), Errno::EFAULT);
    let (session, flags) = (op.session, op.flags);
    Ok((Action::Crypt(Job { session, encrypt, flags, iv, data, form, answer: op.to_bytes(call.width) }), outputs))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
