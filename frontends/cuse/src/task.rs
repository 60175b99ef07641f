//! A request as a sequence of steps. Each step is at most one request to core, and requests of several tasks share a batch if possible.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use gantry_abi_cryptodev as abi;
use gantry_core::{Outcome, Request, Session, Stream};
use gantry_protocols::tls::{MacSearch, unpadded_len};
use nix::errno::Errno;
use zeroize::Zeroizing;

use crate::plan::{Job, JobKind, finishes_digest};
use crate::session::{Cipher, CryptoSession, Hash, IvChain, SessionState};
use crate::wiped_bytes::WipedBytes;

/// A job, with its session, its state and its data.
pub(crate) struct Task {
    crypto: Arc<CryptoSession>,
    state: SessionState,
    job: Job,
    /// The bytes read from the caller. The data is processed in place.
    input_bytes: WipedBytes,
    remaining_steps: VecDeque<Step>,
    current_step: Option<Step>,
    iv_chain: Option<IvChain>,
    digest: Zeroizing<[u8; abi::MAX_DIGEST_LEN]>,
    /// The session of an AEAD whose tag length differs from the default.
    aead_session: Option<Session>,
    /// The TLS record being opened.
    mac_search: Option<MacSearch>,
    /// A copy of the record's MAC stream, finished at a possible end of the message.
    trial_stream: Option<Stream>,
    error: Option<Errno>,
}

/// Position of the output length in the structures of CIOCCRYPT and CIOCAUTHCRYPT.
const LENGTH_FIELD: Range<usize> = 8..12;

#[derive(Clone, Debug)]
enum Step {
    /// Digest of a whole message at once.
    Digest(Range<usize>),
    Update(Range<usize>),
    Finish,
    Cipher(Range<usize>),
    Seal,
    Open,
    /// Encryption of a TLS record: appends MAC and padding to the data.
    CloseRecord,
    /// Decryption of a TLS record: finds the padding and the MAC.
    OpenRecord,
    /// The MAC of a record's message that ends at this offset.
    TryMac(usize),
    /// Compares the MAC of a packet.
    Verify,
}

impl Task {
    pub(crate) fn new(crypto: Arc<CryptoSession>, mut state: SessionState, job: Job, input_bytes: WipedBytes) -> Self {
        let mut aead_session = None;
        let mut error = None;
        let (has_hash, has_cipher) = (crypto.hash.is_some(), crypto.cipher.is_some());
        if !job.iv.is_empty() {
            let iv = &input_bytes[job.iv.clone()];
            state.iv[..iv.len()].copy_from_slice(iv);
        }
        let data = job.data.clone();
        let mut steps = Vec::with_capacity(5);
        match &job.kind {
            JobKind::Plain => {
                if has_hash && (job.flags == 0 || job.flags & abi::COP_FLAG_RESET != 0) {
                    state.stream = None;
                }
                let ends_message = finishes_digest(job.flags, data.len());
                if has_cipher && !job.encrypt && !data.is_empty() {
                    steps.push(Step::Cipher(data.clone()));
                }
                if has_hash && ends_message && state.stream.is_none() {
                    steps.push(Step::Digest(data.clone()));
                } else if has_hash {
                    steps.push(Step::Update(data.clone()));
                    steps.extend(ends_message.then_some(Step::Finish));
                }
                if has_cipher && job.encrypt && !data.is_empty() {
                    steps.push(Step::Cipher(data));
                }
            }
            JobKind::Aead { tag_length, .. } => {
                if let Some(cipher) = &crypto.cipher {
                    aead_session = cipher.session.as_ref().and_then(|session| with_tag_length(session, *tag_length));
                }
                let nonce = crypto.cipher.as_ref().and_then(|cipher| nonce(cipher, &state.iv));
                error = (aead_session.is_none() || nonce.is_none()).then_some(Errno::EINVAL);
                steps.push(if job.encrypt { Step::Seal } else { Step::Open });
            }
            JobKind::Tls { aad, .. } => {
                state.stream = None;
                let mac = [Step::Update(aad.clone()), Step::Update(data.clone()), Step::Finish];
                let mac = mac.into_iter().filter(|_| has_hash);
                if job.encrypt {
                    steps.extend(mac);
                    steps.push(Step::CloseRecord);
                } else {
                    steps.extend([Step::Cipher(data), Step::OpenRecord]);
                }
            }
            JobKind::Srtp { packet, .. } => {
                state.stream = None;
                let mac = has_hash.then(|| Step::Digest(packet.clone()));
                if job.encrypt {
                    steps.extend((!data.is_empty()).then_some(Step::Cipher(data)));
                    steps.extend(mac);
                } else {
                    steps.extend(mac);
                    steps.extend(has_hash.then_some(Step::Verify));
                    steps.push(Step::Cipher(data));
                }
            }
        }
        let mut task = Self {
            remaining_steps: steps.into(),
            current_step: None,
            iv_chain: None,
            digest: Zeroizing::new([0; abi::MAX_DIGEST_LEN]),
            mac_search: None,
            trial_stream: None,
            crypto,
            state,
            job,
            input_bytes,
            aead_session,
            error,
        };
        task.reserve_padding();
        task
    }

    /// Returns the state for the next request of the session.
    pub(crate) fn into_state(self) -> SessionState {
        self.state
    }

    pub(crate) fn session_id(&self) -> u32 {
        self.job.session
    }

    /// Advances to the next step that needs a device. Returns `false` if there is none. `batch_size` is the number of
    /// tasks that run side by side.
    pub(crate) fn advance(&mut self, batch_size: usize) -> bool {
        while self.error.is_none() {
            self.current_step = self.remaining_steps.pop_front();
            match self.current_step.clone() {
                None => return false,
                Some(Step::CloseRecord) => self.close_record(),
                Some(Step::OpenRecord) => self.open_record(),
                Some(Step::Verify) => self.verify_tag(),
                Some(Step::Update(_)) if self.state.stream.is_none() => {
                    let hash = self.crypto.hash.as_ref();
                    self.state.stream = hash.and_then(|hash| hash.session.stream(batch_size).ok());
                    if self.state.stream.is_some() {
                        return true;
                    }
                    self.error = Some(Errno::EIO);
                }
                Some(Step::TryMac(_)) => {
                    self.trial_stream.clone_from(&self.state.stream);
                    return true;
                }
                Some(Step::Cipher(range)) => {
                    if let Some(cipher) = &self.crypto.cipher {
                        if cipher.session.is_none() {
                            continue;
                        }
                        let range = self.padded_range(cipher, &range);
                        self.iv_chain = Some(IvChain::from_input(cipher, self.job.encrypt, &self.input_bytes[range]));
                    }
                    return true;
                }
                Some(_) => return true,
            }
        }
        false
    }

    /// Appends zeros to the data if its chain requires them and the data comes last.
    fn reserve_padding(&mut self) {
        if let Some(cipher) = &self.crypto.cipher
            && matches!(self.job.kind, JobKind::Plain | JobKind::Tls { .. })
        {
            let end = self.job.data.end;
            self.input_bytes.resize(end + IvChain::padding_length(cipher, self.job.data.len()));
        }
    }

    /// Appends MAC and padding to the data (RFC 5246, 6.2.3.2): every padding byte is the padding's length less one.
    fn close_record(&mut self) {
        let JobKind::Tls { tag_length, .. } = self.job.kind else { return };
        let Some(cipher) = &self.crypto.cipher else { return };
        let (data, block) = (&mut self.job.data, cipher.row.block_size);
        self.input_bytes.resize(data.end);
        self.input_bytes.append(&self.digest[..tag_length]);
        if block > 1 {
            let padding_length = block - (data.len() + tag_length) % block;
            self.input_bytes.append(&[(padding_length - 1) as u8; 256][..padding_length]);
        }
        data.end = self.input_bytes.len();
        self.remaining_steps.push_front(Step::Cipher(data.clone()));
        self.reserve_padding();
    }

    /// Starts the search for padding and MAC, which computes the MAC of every message that the record may hold.
    fn open_record(&mut self) {
        let JobKind::Tls { aad, tag_length } = &self.job.kind else { return };
        let Some(cipher) = &self.crypto.cipher else { return };
        let data = self.job.data.clone();
        if self.crypto.hash.is_none() {
            if cipher.row.block_size > 1 {
                self.set_length(unpadded_len(&self.input_bytes[data]) as u32);
            }
            return;
        }
        match MacSearch::new(&self.input_bytes[data.clone()], cipher.row.block_size, *tag_length) {
            None => self.error = Some(Errno::EBADMSG),
            Some(search) => {
                let first = search.candidate_offsets().start;
                let message = data.start..data.start + first;
                self.remaining_steps = [Step::Update(aad.clone()), Step::Update(message), Step::TryMac(first)].into();
                self.mac_search = Some(search);
            }
        }
    }

    /// Compares the MAC of a message that ends at `message_end`, and continues with the next possible end.
    fn compare_mac(&mut self, message_end: usize) {
        let Some(search) = &mut self.mac_search else { return };
        let data = self.job.data.clone();
        search.compare(&self.input_bytes[data.clone()], message_end, &*self.digest);
        if message_end + 1 < search.candidate_offsets().end {
            let next = data.start + message_end;
            self.remaining_steps = [Step::Update(next..next + 1), Step::TryMac(message_end + 1)].into();
            return;
        }
        self.state.stream = None;
        match search.message_len() {
            Some(length) => self.set_length(length),
            None => self.error = Some(Errno::EBADMSG),
        }
    }

    fn set_length(&mut self, bytes: u32) {
        self.job.answer[LENGTH_FIELD].copy_from_slice(&bytes.to_ne_bytes());
    }

    fn verify_tag(&mut self) {
        let JobKind::Srtp { received_tag, .. } = &self.job.kind else { return };
        if !gantry_core::tags_equal(&self.input_bytes[received_tag.clone()], &self.digest[..received_tag.len()]) {
            self.error = Some(Errno::EBADMSG);
        }
    }

    /// Extends a range by the zeros that reveal the end of the chain.
    fn padded_range(&self, cipher: &Cipher, range: &Range<usize>) -> Range<usize> {
        let padding = if range.end == self.job.data.end { IvChain::padding_length(cipher, range.len()) } else { 0 };
        range.start..(range.end + padding).min(self.input_bytes.len())
    }

    /// Returns the session of this step's request.
    fn session_of_step(&self) -> Option<Session> {
        match self.current_step.as_ref()? {
            Step::Digest(_) => self.crypto.hash.as_ref().map(|hash| hash.session.clone()),
            // A copied message belongs to the session of its origin if that session has keys.
            Step::Update(_) | Step::Finish | Step::TryMac(_) => self.state.stream.as_ref().map(Stream::session),
            Step::Cipher(_) => self.crypto.cipher.as_ref().and_then(|cipher| cipher.session.clone()),
            _ => self.aead_session.clone(),
        }
    }

    pub(crate) fn build_request(&mut self) -> Option<Request<'_>> {
        let step = self.current_step.clone()?;
        if let Step::Cipher(range) = &step {
            let cipher = self.crypto.cipher.as_ref()?;
            let (range, iv) = (self.padded_range(cipher, range), &self.state.iv[..cipher.row.iv_len]);
            let data = &mut self.input_bytes[range];
            return Some(if self.job.encrypt { Request::encrypt(iv, data) } else { Request::decrypt(iv, data) });
        }
        let digest_length = self.crypto.hash.as_ref().map_or(0, Hash::digest_length);
        let Self { state, trial_stream, job, input_bytes, digest, crypto, .. } = self;
        Some(match (step, &job.kind) {
            (Step::Digest(range), _) => {
                let is_mac = crypto.hash.as_ref()?.row.algorithm.kind() == gantry_core::Kind::Mac;
                let message = &input_bytes[range];
                let digest = &mut digest[..digest_length];
                if is_mac { Request::mac(message, digest) } else { Request::digest(message, digest) }
            }
            (Step::Update(range), _) => Request::update(state.stream.as_mut()?, &input_bytes[range]),
            (Step::Finish, _) => Request::finish(state.stream.as_mut()?, &mut digest[..digest_length]),
            (Step::TryMac(_), _) => Request::finish(trial_stream.as_mut()?, &mut digest[..digest_length]),
            (Step::Seal | Step::Open, JobKind::Aead { aad, tag_length }) => {
                let (aad, tag_length, cipher) = (aad.clone(), *tag_length, crypto.cipher.as_ref()?);
                let nonce = nonce(cipher, &state.iv)?;
                let sealed = job.data.clone();
                let (before, behind) = input_bytes.split_at_mut(sealed.end);
                // Associated data is placed behind the data, or absent.
                let aad = if aad.is_empty() { &[][..] } else { &behind[aad.start - sealed.end..aad.end - sealed.end] };
                let data = &mut before[sealed.start..];
                if job.encrypt {
                    Request::seal(nonce, aad, data, &mut digest[..tag_length])
                } else {
                    let (data, received_tag) = data.split_at_mut(sealed.len() - tag_length);
                    Request::open(nonce, aad, data, received_tag)
                }
            }
            _ => return None,
        })
    }

    /// Takes the outcome of the request; `None` if no device could run it.
    pub(crate) fn record_outcome(&mut self, outcome: Option<Outcome>) {
        let ccm = self.crypto.cipher.as_ref().is_some_and(|cipher| cipher.row.number == 51);
        self.error = match outcome {
            Some(Outcome::Done) => None,
            Some(Outcome::BadTag) => Some(Errno::EBADMSG),
            Some(Outcome::BadLength) if ccm => Some(Errno::EOVERFLOW),
            Some(_) => Some(Errno::EINVAL),
            None => Some(Errno::EIO),
        };
        match (&self.current_step, self.iv_chain.take()) {
            (Some(Step::Cipher(range)), Some(chain)) if self.error.is_none() => {
                if let Some(cipher) = &self.crypto.cipher {
                    let range = self.padded_range(cipher, range);
                    chain.update_iv(cipher, &self.input_bytes[range], &mut self.state.iv);
                }
            }
            (Some(Step::Finish | Step::Digest(_)), _) => self.state.stream = None,
            (Some(Step::Update(_) | Step::TryMac(_)), _) if self.error.is_some() => self.state.stream = None,
            (&Some(Step::TryMac(message_end)), _) => self.compare_mac(message_end),
            _ => {}
        }
    }

    pub(crate) fn run(&mut self) {
        run_tasks([self]);
    }

    /// Returns the parts of the answer in the order of the planned ranges, or an errno.
    pub(crate) fn result(&self) -> Result<Vec<&[u8]>, Errno> {
        if let Some(errno) = self.error {
            return Err(errno);
        }
        let data = &self.input_bytes[self.job.data.clone()];
        let mut parts = Vec::with_capacity(4);
        match &self.job.kind {
            JobKind::Plain => {
                if self.crypto.cipher.is_some() {
                    parts.push(data);
                }
                if let Some(hash) = &self.crypto.hash
                    && finishes_digest(self.job.flags, data.len())
                {
                    parts.push(&self.digest[..hash.digest_length()]);
                }
            }
            JobKind::Aead { tag_length, .. } if self.job.encrypt => parts.extend([data, &self.digest[..*tag_length]]),
            JobKind::Aead { tag_length, .. } => parts.push(&data[..data.len() - tag_length]),
            JobKind::Tls { .. } => parts.push(data),
            JobKind::Srtp { tag_length, .. } => {
                parts.push(data);
                if self.job.encrypt && self.crypto.hash.is_some() {
                    parts.push(&self.digest[..*tag_length]);
                }
            }
        }
        if !self.job.iv.is_empty() && self.job.flags & abi::COP_FLAG_WRITE_IV != 0 {
            parts.push(&self.state.iv[..self.job.iv.len()]);
        }
        parts.push(&self.job.answer);
        Ok(parts)
    }
}

/// Runs all steps of all tasks, side by side.
pub(crate) fn run_tasks<'t>(tasks: impl IntoIterator<Item = &'t mut Task>) {
    let mut active: Vec<&mut Task> = tasks.into_iter().collect();
    let batch_size = active.len();
    loop {
        active.retain_mut(|task| task.advance(batch_size));
        if active.is_empty() {
            return;
        }
        run_step(&mut active);
    }
}

/// Runs one step of all tasks.
fn run_step(active: &mut [&mut Task]) {
    let mut sessions = Vec::with_capacity(active.len());
    let mut requests = Vec::with_capacity(active.len());
    let mut has_request = Vec::with_capacity(active.len());
    for task in active.iter_mut() {
        let step = task.session_of_step().and_then(|session| Some((session, task.build_request()?)));
        has_request.push(step.is_some());
        if let Some((session, request)) = step {
            sessions.push(session);
            requests.push(request);
        }
    }
    // This cannot fail: all sessions belong to the server's framework.
    let _ = Session::process_each(&sessions, &mut requests);
    let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
    let mut outcomes = outcomes.into_iter();
    for (task, has_request) in active.iter_mut().zip(has_request) {
        task.record_outcome(if has_request { outcomes.next().flatten() } else { None });
    }
}

/// Returns the session of an AEAD with tags of `tag_length` bytes.
fn with_tag_length(session: &Session, tag_length: usize) -> Option<Session> {
    if session.params().tag_len() == tag_length {
        return Some(session.clone());
    }
    session.gantry().session(session.params().clone().with_tag_len(tag_length)).ok()
}

/// Returns the nonce in an IV. For CCM the kernel expects the whole first counter block: 14 less the nonce's length, the
/// nonce, zeros (RFC 3610, 2.3).
fn nonce<'s>(cipher: &Cipher, iv: &'s [u8; abi::MAX_IV_LEN]) -> Option<&'s [u8]> {
    if cipher.row.number != 51 {
        return Some(&iv[..cipher.row.iv_len]);
    }
    (1..=7).contains(&iv[0]).then(|| &iv[1..15 - usize::from(iv[0])])
}

#[cfg(test)]
mod tests;
