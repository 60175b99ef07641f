//! Calls of the C interface in any order, with handles of any type, valid and invalid lengths, and overlapping buffers. No call
//! touches memory outside its arguments, and a refused call writes nothing.

#![no_main]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use gantry_c::abi::{Column, Completion, Message, Params, Request, operation, result};
use gantry_c::*;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Call {
    SessionOpen {
        algorithm: u8,
        key: u8,
        mac_key: u8,
        tag: u8,
        direction: u8,
        size: i8,
    },
    SessionClose(u8),
    Run {
        session: u8,
        requests: Vec<RequestInput>,
        size: i8,
    },
    DigestMany {
        session: u8,
        messages: Vec<(BufferInput, BufferInput)>,
        out: Option<u8>,
    },
    Column {
        session: u8,
        count: u8,
        values: BufferInput,
        offsets: BufferInput,
        validity: BufferInput,
        bits: u8,
        out: Option<u16>,
    },
    StreamOpen {
        session: u8,
        side_by_side: u8,
    },
    StreamClose(u8),
    StreamCopy(u8),
    Update {
        stream: u8,
        data: BufferInput,
    },
    UpdateMany(Vec<(u8, BufferInput)>),
    Final {
        stream: u8,
        out: BufferInput,
    },
    QueueOpen(u8),
    QueueClose,
    Submit {
        session: u8,
        request: RequestInput,
    },
    Complete {
        room: u8,
        wait: bool,
    },
    Arm,
    TagsEqual(BufferInput, BufferInput, u8),
}

/// A buffer within the arena; `None` is NULL.
type BufferInput = Option<(u16, u8)>;

#[derive(Arbitrary, Clone, Copy, Debug)]
struct RequestInput {
    operation: u8,
    input: BufferInput,
    /// True if the output replaces the input.
    in_place: bool,
    out: BufferInput,
    /// `Some` makes a request that is mostly valid for its session: the forward operation if `true`, else the inverse one.
    is_forward: Option<bool>,
    iv: BufferInput,
    aad: BufferInput,
    tag: BufferInput,
}

const ALGORITHM_NAMES: [&str; 9] = [
    "sha256",
    "md5",
    "hmac-sha256",
    "aes-128-cbc",
    "aes-128-gcm",
    "chacha20-poly1305",
    "aes-128-gmac",
    "aes-128-cbc-hmac-sha256",
    "ed25519",
];
const ARENA_SIZE: usize = 4096;

/// Memory for the buffers of a case. Offsets of columns need its alignment.
#[repr(align(8))]
struct Arena([u8; ARENA_SIZE]);

/// The open handles of a case.
struct OpenHandles {
    arena: Box<Arena>,
    sessions: Vec<*mut SessionHandle>,
    streams: Vec<*mut StreamHandle>,
    queue: *mut QueueHandle,
    /// Buffers of the requests in the queue, kept until the completion.
    borrowed: HashMap<u64, Box<Arena>>,
    next_tag: u64,
}

fuzz_target!(|calls: Vec<Call>| {
    let mut open = OpenHandles {
        // The arena ends with zeros, for offsets of columns.
        arena: Box::new(Arena(std::array::from_fn(|at| (at * 31 % 251 * usize::from(at < 3840)) as u8))),
        sessions: Vec::new(),
        streams: Vec::new(),
        queue: null_mut(),
        borrowed: HashMap::new(),
        next_tag: 0,
    };
    for call in calls.into_iter().take(60) {
        open.call(call);
    }
    open.close();
});

fn gantry() -> *mut GantryHandle {
    static GANTRY: OnceLock<usize> = OnceLock::new();
    let open = || {
        let mut handle = null_mut();
        let configuration = c"policy = \"round-robin\"\nstats = \"off\"";
        // SAFETY: a string, a place for a handle, and no message.
        assert_eq!(unsafe { gantry_open(configuration.as_ptr(), &raw mut handle, null_mut(), 0) }, 0);
        handle as usize
    };
    *GANTRY.get_or_init(open) as *mut GantryHandle
}

/// Memory that is no handle of any type.
static NOT_A_HANDLE: [u64; 64] = [0; 64];

impl OpenHandles {
    /// Returns an open handle, NULL, or a pointer to other memory.
    fn pick<T>(all: &[*mut T], which: u8) -> *mut T {
        match which {
            255 => null_mut(),
            254 => (&raw const NOT_A_HANDLE).cast_mut().cast(),
            253 => gantry().cast(),
            _ if all.is_empty() => null_mut(),
            _ => all[usize::from(which) % all.len()],
        }
    }

    /// Returns the place of a buffer in an arena, and its length.
    fn buffer_range(piece: BufferInput) -> Option<(usize, usize)> {
        let (offset, len) = piece?;
        let offset = usize::from(offset) % ARENA_SIZE;
        Some((offset, usize::from(len).min(ARENA_SIZE - offset)))
    }

    fn buffer_pointer(arena: *mut Arena, piece: BufferInput) -> (*mut c_void, usize) {
        match Self::buffer_range(piece) {
            None => (null_mut(), 0),
            Some((offset, len)) => (arena.cast::<u8>().wrapping_add(offset).cast(), len),
        }
    }

    /// Makes a request valid for its session. Its number in the batch keeps its outputs apart from the outputs of other requests.
    fn valid_request(
        arena: *mut Arena,
        session: *mut SessionHandle,
        forward: bool,
        number: usize,
        requested: &RequestInput,
    ) -> Request {
        let at = |offset: usize| arena.cast::<u8>().wrapping_add(offset).cast::<c_void>();
        // SAFETY: an open handle, or none.
        let tag_len = unsafe { gantry_session_tag_len(session) };
        let (operation, iv_len) = match (tag_len, requested.operation % 4) {
            (0, _) => (if forward { operation::ENCRYPT } else { operation::DECRYPT }, 16),
            (_, 0) => (operation::DIGEST, 0),
            (_, 1) => (operation::MAC, if forward { 12 } else { 0 }),
            (_, 2) => (operation::SEAL, if requested.in_place { 12 } else { 16 }),
            _ => (operation::OPEN, if forward { 12 } else { 16 }),
        };
        let is_hash = operation <= operation::MAC;
        let (input, len) = Self::buffer_range(requested.input).unwrap_or_default();
        let len = len.min(64) / 16 * 16;
        let (out, tag) = (at(1024 + 64 * number), at(2560 + 64 * number));
        let (iv, aad) =
            if is_hash { (null(), (null(), 0)) } else { (at(512).cast_const(), (at(600).cast_const(), input % 40)) };
        Request {
            size: size_of::<Request>(),
            operation,
            result: -1000,
            iv: if operation == operation::MAC && iv_len > 0 { at(512) } else { iv },
            iv_len,
            aad: if tag_len == 0 { null() } else { aad.0 },
            aad_len: if tag_len == 0 { 0 } else { aad.1 },
            r#in: if requested.in_place && !is_hash { out } else { at(input % 900) },
            in_len: len,
            out,
            out_len: if is_hash { tag_len.min(64) } else { len },
            tag: if is_hash || tag_len == 0 { null_mut() } else { tag },
            tag_len: if is_hash { 0 } else { tag_len.min(64) },
        }
    }

    fn request(arena: *mut Arena, session: *mut SessionHandle, number: usize, requested: &RequestInput) -> Request {
        if let Some(forward) = requested.is_forward {
            return Self::valid_request(arena, session, forward, number, requested);
        }
        let piece = |which| Self::buffer_pointer(arena, which);
        let (input, out, iv, aad, tag) = (
            piece(requested.input),
            piece(requested.out),
            piece(requested.iv),
            piece(requested.aad),
            piece(requested.tag),
        );
        let mut request = Request {
            size: size_of::<Request>(),
            operation: u32::from(requested.operation % 7),
            result: -1000,
            iv: iv.0,
            iv_len: iv.1,
            aad: aad.0,
            aad_len: aad.1,
            r#in: input.0,
            in_len: input.1,
            out: out.0,
            out_len: out.1,
            tag: tag.0,
            tag_len: tag.1,
        };
        if requested.in_place {
            (request.out, request.out_len) = input;
        }
        request
    }

    /// Runs a call, which may write to these places of the arena unless it is refused.
    fn call_and_check_writes(&mut self, places: &[(*mut c_void, usize)], call: impl FnOnce() -> i32) -> i32 {
        let before = self.arena.0;
        let code = call();
        let arena = (&raw const *self.arena) as usize;
        let mut may_change = [false; ARENA_SIZE];
        // A device that fails may have written.
        if code == 0 || code == Code::Device as i32 || code == Code::Unserved as i32 {
            for (at, len) in places.iter().filter(|(at, len)| !at.is_null() && *len > 0) {
                let from = *at as usize - arena;
                may_change[from..from + len].fill(true);
            }
        }
        for (at, (old, new)) in before.iter().zip(&self.arena.0).enumerate() {
            assert!(old == new || may_change[at], "{code}: the byte at {at} was written");
        }
        assert!((Code::Internal as i32 + 1..=0).contains(&code), "{code}");
        code
    }

    fn call(&mut self, call: Call) {
        let arena = &raw mut *self.arena;
        match call {
            Call::SessionOpen { algorithm, key, mac_key, tag, direction, size } => {
                let name = CString::new(ALGORITHM_NAMES[usize::from(algorithm) % ALGORITHM_NAMES.len()]).unwrap();
                let bytes: [u8; 512] = std::array::from_fn(|at| at as u8);
                let params = Params {
                    size: size_of::<Params>().wrapping_add_signed(size.min(0).into()),
                    algorithm: name.as_ptr(),
                    key: bytes.as_ptr().cast(),
                    // Most lengths are valid.
                    key_len: [0, 16, 32, usize::from(key)][usize::from(key) % 4],
                    mac_key: bytes.as_ptr().cast(),
                    mac_key_len: usize::from(mac_key) * usize::from(mac_key > 200),
                    tag_len: usize::from(tag) * usize::from(tag > 200),
                    direction: u32::from(direction % 4),
                    flags: 0,
                };
                let mut session = null_mut();
                // SAFETY: a struct that points to memory of this function, and a place for a handle.
                let code = unsafe { gantry_session_open(gantry(), &raw const params, &raw mut session) };
                assert_eq!(code == 0, !session.is_null());
                self.sessions.extend((code == 0).then_some(session));
            }
            Call::SessionClose(which) if !self.sessions.is_empty() => {
                let session = self.sessions.swap_remove(usize::from(which) % self.sessions.len());
                // SAFETY: it is open, and not used again.
                unsafe { gantry_session_close(session) };
            }
            Call::Run { session, requests, size } => {
                let session = Self::pick(&self.sessions, session);
                let mut list: Vec<Request> = requests
                    .iter()
                    .take(20)
                    .enumerate()
                    .map(|(at, requested)| Self::request(arena, session, at, requested))
                    .collect();
                if let Some(last) = list.last_mut() {
                    last.size = last.size.wrapping_add_signed(size.min(0).into());
                }
                let places = list.iter().flat_map(|request| {
                    let seals = request.operation == operation::SEAL;
                    [(request.out, request.out_len), (request.tag, request.tag_len * usize::from(seals))]
                });
                let places: Vec<_> = places.collect();
                let at = list.as_mut_ptr();
                // SAFETY: requests over memory of the arena, without other users.
                let code = self.call_and_check_writes(&places, || unsafe { gantry_run(session, at, places.len() / 2) });
                for request in &list {
                    let known = [result::DONE, result::BAD_TAG, result::BAD_LENGTH];
                    assert!(code != 0 || known.contains(&request.result), "{}", request.result);
                }
            }
            Call::DigestMany { session, messages, out } => {
                let session = Self::pick(&self.sessions, session);
                // SAFETY: an open handle, or none.
                let tag_len = unsafe { gantry_session_tag_len(session) };
                let out = out.map_or(tag_len, usize::from);
                let mut list = Vec::new();
                for (data, to) in messages.into_iter().take(40) {
                    let ((data, len), (to, _)) = (Self::buffer_pointer(arena, data), Self::buffer_pointer(arena, to));
                    let end = arena as usize + ARENA_SIZE;
                    let to = if to as usize + out > end { null_mut() } else { to };
                    list.push(Message { data, len, out: to });
                }
                let places: Vec<_> = list.iter().map(|message| (message.out, out)).collect();
                // SAFETY: as above.
                self.call_and_check_writes(&places, || unsafe {
                    gantry_digest_many(session, list.as_ptr(), list.len(), out)
                });
            }
            Call::Column { session, count, values, offsets, validity, bits, out } => {
                let session = Self::pick(&self.sessions, session);
                let (offsets, _) = Self::buffer_pointer(arena, offsets);
                let bits = [32, 64, 64, u32::from(bits)][usize::from(bits) % 4];
                let end = arena as usize + ARENA_SIZE;
                let within = |at: *mut c_void, len: usize| !at.is_null() && at as usize + len <= end;
                let count = usize::from(count % 20);
                let (values, values_len) = Self::buffer_pointer(arena, values);
                let (validity, _) = Self::buffer_pointer(arena, validity);
                let validity_offset = values_len % 5;
                if !within(offsets, (count + 1) * 8) || !validity.is_null() && !within(validity, 4) {
                    return;
                }
                let column = Column {
                    size: size_of::<Column>(),
                    count,
                    values,
                    values_len,
                    offsets,
                    validity: validity.cast(),
                    validity_offset,
                    offset_bits: bits,
                    reserved: 0,
                };
                // SAFETY: an open handle, or none.
                let digests_len = unsafe { gantry_session_tag_len(session) } * count;
                let mut room = vec![0x5a; out.map_or(digests_len, usize::from)];
                let (to, len) = (room.as_mut_ptr().cast(), room.len());
                // SAFETY: as above; the output is a separate buffer.
                self.call_and_check_writes(&[], || unsafe {
                    gantry_digest_column(session, &raw const column, to, len)
                });
            }
            Call::StreamOpen { session, side_by_side } => {
                let mut stream = null_mut();
                let session = Self::pick(&self.sessions, session);
                // SAFETY: an open handle, or none, and a place for one.
                let code = unsafe { gantry_stream_open(session, side_by_side.into(), &raw mut stream) };
                self.streams.extend((code == 0).then_some(stream));
            }
            Call::StreamClose(which) if !self.streams.is_empty() => {
                let stream = self.streams.swap_remove(usize::from(which) % self.streams.len());
                // SAFETY: it is open, and not used again.
                unsafe { gantry_stream_close(stream) };
            }
            Call::StreamCopy(which) => {
                let mut copy = null_mut();
                // SAFETY: an open handle, or none, and a place for one.
                let code = unsafe { gantry_stream_copy(Self::pick(&self.streams, which), &raw mut copy) };
                self.streams.extend((code == 0).then_some(copy));
            }
            Call::Update { stream, data } => {
                let (stream, (data, len)) = (Self::pick(&self.streams, stream), Self::buffer_pointer(arena, data));
                // SAFETY: as above.
                self.call_and_check_writes(&[], || unsafe { gantry_stream_update(stream, data, len) });
            }
            Call::UpdateMany(pieces) => {
                let pieces = pieces.into_iter().take(20).map(|(stream, data)| {
                    let (data, len) = Self::buffer_pointer(arena, data);
                    Piece { stream: Self::pick(&self.streams, stream), data, len }
                });
                let pieces: Vec<Piece> = pieces.collect();
                // SAFETY: as above.
                self.call_and_check_writes(&[], || unsafe { gantry_stream_update_many(pieces.as_ptr(), pieces.len()) });
            }
            Call::Final { stream, out } => {
                let (stream, (out, len)) = (Self::pick(&self.streams, stream), Self::buffer_pointer(arena, out));
                // SAFETY: as above.
                self.call_and_check_writes(&[(out, len)], || unsafe { gantry_stream_final(stream, out, len) });
            }
            Call::QueueOpen(depth) if self.queue.is_null() => {
                let mut queue = null_mut();
                // SAFETY: an open handle, and a place for one.
                let code = unsafe { gantry_queue_open(gantry(), (depth % 9).into(), &raw mut queue) };
                assert_eq!(code == 0, depth % 9 > 0);
                self.queue = queue;
            }
            Call::QueueClose => self.close_queue(),
            Call::Submit { session, request } => {
                let session = Self::pick(&self.sessions, session);
                let mut borrowed = Box::new(Arena(self.arena.0));
                let request = Self::request(&raw mut *borrowed, session, 0, &request);
                // SAFETY: buffers that are kept until the completion, without other users.
                let code = unsafe { gantry_queue_submit(self.queue, session, &raw const request, self.next_tag) };
                if code == 0 {
                    self.borrowed.insert(self.next_tag, borrowed);
                    self.next_tag += 1;
                }
            }
            Call::Complete { room, wait } => {
                let mut done = vec![Completion::default(); room.into()];
                let take = if wait { gantry_queue_wait } else { gantry_queue_complete };
                // SAFETY: an open queue, or none, and room for this number of completions.
                let code = unsafe { take(self.queue, done.as_mut_ptr(), done.len()) };
                for completion in done.iter().take(code.max(0) as usize) {
                    assert!(self.borrowed.remove(&completion.user).is_some(), "a completion without a request");
                }
                assert!(!wait || room == 0 || self.queue.is_null() || code > 0 || self.borrowed.is_empty());
            }
            Call::Arm => {
                let mut timeout = 0;
                // SAFETY: an open queue, or none, and a place for a number.
                unsafe { gantry_queue_arm(self.queue, &raw mut timeout) };
            }
            Call::TagsEqual(one, other, len) => {
                let ((one, one_len), (other, other_len)) =
                    (Self::buffer_pointer(arena, one), Self::buffer_pointer(arena, other));
                let len = usize::from(len).min(one_len).min(other_len);
                // SAFETY: memory of the arena.
                let (code, same) = unsafe {
                    let bytes = |at: *mut c_void| std::slice::from_raw_parts(at.cast::<u8>(), len);
                    (gantry_tags_equal(one, other, len), len == 0 || bytes(one) == bytes(other))
                };
                assert_eq!(code == 1, same);
            }
            Call::SessionClose(_) | Call::StreamClose(_) | Call::QueueOpen(_) => {
                // SAFETY: NULL.
                unsafe {
                    gantry_session_close(null_mut());
                    gantry_stream_close(null_mut());
                    assert_ne!(gantry_stream_update(null_mut(), null(), 0), 0);
                }
            }
        }
    }

    fn close_queue(&mut self) {
        // SAFETY: it is open or NULL, and not used again; its buffers are freed afterwards.
        unsafe { gantry_queue_close(self.queue) };
        self.queue = null_mut();
        self.borrowed.clear();
    }

    fn close(mut self) {
        self.close_queue();
        for stream in self.streams {
            // SAFETY: it is open, and not used again.
            unsafe { gantry_stream_close(stream) };
        }
        for session in self.sessions {
            // SAFETY: as above.
            unsafe { gantry_session_close(session) };
        }
    }
}
